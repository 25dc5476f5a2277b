"""Activations of computations whose peak is known by hand."""

import gc
import math

import pytest
import torch

from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.devices.protocol import MemoryKind
from runtime.errors import DeviceMemoryError

RATES = LinkRates(
    pinned_bytes_per_s=math.inf,
    pageable_bytes_per_s=math.inf,
    d2h_bytes_per_s=math.inf,
    disk_bytes_per_s=math.inf,
    page_cache=PageCache.ALL,
)
ROW_BYTES = 64 * 4
MODES = [torch.inference_mode, torch.no_grad]


def open_tracking(**traits: object) -> EmulatedDevice:
    return EmulatedDevice(rates=RATES, clock=ClockKind.VIRTUAL, tracks_activations=True, **traits)


def activations(device: EmulatedDevice) -> tuple[int, int]:
    use = device.memory()
    return use.live_bytes[MemoryKind.ACTIVATIONS], use.peak_bytes[MemoryKind.ACTIVATIONS]


@pytest.mark.parametrize("mode", MODES)
def test_the_peak_is_what_lives_at_one_time(mode: type) -> None:
    device = open_tracking()
    row = torch.ones(64)
    with mode(), device.compute_scope():
        first = row + 1
        second = first * 2
        del first
        third = second.exp()
        assert activations(device) == (2 * ROW_BYTES, 2 * ROW_BYTES)
        del second, third
    assert activations(device) == (0, 2 * ROW_BYTES)


@pytest.mark.parametrize("mode", MODES)
def test_views_weights_and_results_in_place_are_not_counted(mode: type) -> None:
    device = open_tracking()
    weights, host = device.allocate(64, torch.float32), torch.zeros(64)
    with mode(), device.compute_scope():
        views = [weights.view(8, 8).t(), host[3:], host.detach(), weights.reshape(4, 16)]
        host.add_(1)
        torch.mul(weights, 2, out=host)
        inside = device.allocate(64, torch.float32)
        assert activations(device) == (0, 0)
        kept = views[0].contiguous()
        assert activations(device)[0] == kept.nbytes
    assert device.memory().live_bytes[MemoryKind.WEIGHTS] == weights.nbytes + inside.nbytes


@pytest.mark.parametrize("mode", MODES)
def test_a_view_keeps_its_storage_counted(mode: type) -> None:
    device = open_tracking(byte_scale=3)
    with mode(), device.compute_scope():
        part = (torch.zeros(64) + 1)[:2]
        gc.collect()
        assert activations(device)[0] == 3 * ROW_BYTES
        del part
        assert activations(device)[0] == 0


@pytest.mark.parametrize("mode", MODES)
def test_operators_with_several_results_and_literals_are_counted(mode: type) -> None:
    device = open_tracking()
    with mode(), device.compute_scope():
        values, indices = torch.sort(torch.tensor([3.0, 1.0, 2.0, 0.0]))
        assert activations(device)[0] == values.nbytes + indices.nbytes
        literal = torch.tensor([1.0, 2.0])
        assert activations(device)[0] == values.nbytes + indices.nbytes + literal.nbytes


@pytest.mark.parametrize("mode", MODES)
def test_the_operator_that_passes_the_cap_is_refused(mode: type) -> None:
    device = open_tracking(capacity_bytes=3 * ROW_BYTES)
    weights = device.allocate(64, torch.float32).zero_()
    with mode(), device.compute_scope():
        first, second = weights + 1, weights + 2
        with pytest.raises(DeviceMemoryError, match="256 bytes of activations were asked for, 768 are in use"):
            torch.mul(first, second)
        assert activations(device)[0] == 2 * ROW_BYTES
        del first
        kept = second + 1
    assert torch.equal(kept, torch.full((64,), 3.0))
    assert device.memory().peak_total_bytes == 3 * ROW_BYTES


def test_what_is_computed_outside_the_scope_is_not_counted() -> None:
    device = open_tracking()
    with device.compute_scope(), device.compute_scope():
        inside = torch.ones(64)
    outside = inside + 1
    assert activations(device)[0] == inside.nbytes
    del outside, inside
    assert activations(device)[0] == 0


def test_results_are_the_same_bits_with_and_without_counting() -> None:
    torch.manual_seed(0)
    module = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    inputs = torch.randn(2, 5, 16)
    device = open_tracking()
    for mode in MODES:
        with mode():
            plain = module(inputs)
            with device.compute_scope():
                counted = module(inputs)
        assert torch.equal(plain, counted)
