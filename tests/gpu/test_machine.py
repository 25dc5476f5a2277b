"""What telemetry and pins say of a real card."""

import pytest
import torch

from autotune.measure.pins import measure_pins
from autotune.telemetry.conditions import read_conditions
from autotune.telemetry.survey import read_process_gpu
from runtime.devices.cuda import CudaDevice
from runtime.units import MIB

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; torch finds none"),
]


@pytest.fixture
def device():
    opened = CudaDevice("cuda:0")
    yield opened
    opened.close()


def test_the_process_reads_its_own_card(device):
    reading = read_process_gpu(0)
    assert reading.uuid.lower().endswith(str(torch.cuda.get_device_properties(0).uuid).lower())
    assert reading.title == torch.cuda.get_device_name(0)
    assert 0 < reading.free_bytes <= reading.usable_bytes <= reading.total_bytes
    conditions = read_conditions(reading.uuid)
    assert conditions.sm_clock_mhz
    assert conditions.other_count is not None


def test_registering_exact_sizes_locks_what_was_booked(device):
    cost = measure_pins(device, 512 * MIB)
    assert cost.obtained_bytes == cost.requested_bytes == 512 * MIB
    assert cost.ceilings == ()
    assert abs(cost.extra_resident_per_byte) < 0.02
