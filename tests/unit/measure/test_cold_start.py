"""What is called before a run so that it does not find its own weights in a cache."""

import pytest
import torch
from node_builders import MIB, is_empty, virtual_device
from torch.utils._python_dispatch import TorchDispatchMode

from autotune.measure.cold_start import cold_start
from autotune.measure.timing import TimingProtocol, time_on_device
from runtime.devices.protocol import Label, MemoryKind

PROTOCOL = TimingProtocol(warmups=1, least_count=2, most_count=2, spread_ratio=1.0, limit_s=9.0, least_span_s=1.0)


def test_a_buffer_is_held_while_the_block_runs_and_given_back():
    device = virtual_device()
    with cold_start(device, MIB, lambda: None) as begin:
        assert device.memory().live_bytes[MemoryKind.BUFFERS] == MIB
        begin()
    assert is_empty(device)


def test_it_is_given_back_when_the_block_is_interrupted():
    device = virtual_device()
    with pytest.raises(KeyboardInterrupt), cold_start(device, MIB, lambda: None):
        raise KeyboardInterrupt
    assert is_empty(device)


@pytest.mark.parametrize(("size_bytes", "capacity_bytes"), [(0, None), (2 * MIB, MIB)])
def test_there_is_none_where_it_is_not_wanted_or_does_not_fit(size_bytes, capacity_bytes):
    device = virtual_device(capacity_bytes=capacity_bytes)
    with cold_start(device, size_bytes, lambda: None) as begin:
        assert begin is None


def test_it_goes_before_every_sample_and_every_sample_is_one_run():
    device, calls = virtual_device(compute_s=lambda _: 0.5), []
    timing = time_on_device(
        device, Label("vae"), lambda: calls.append("run"), PROTOCOL, lambda: calls.append("cold start")
    )
    assert calls == ["cold start", "run"] * 3
    assert timing.median_s == 0.5


def test_what_is_written_is_the_whole_buffer():
    device = virtual_device(poison=True)
    with cold_start(device, MIB, lambda: None) as begin:
        begin()
        ((buffer, _),) = device._buffers.values()
        assert torch.count_nonzero(buffer) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.float8_e4m3fn, torch.complex64])
def test_inputs_of_every_dtype_are_read_again_after_the_buffer_was_written(dtype):
    device = virtual_device()
    inputs = [torch.zeros(4, 6).to(dtype).t(), torch.zeros(()).to(dtype).expand(3), torch.empty(0, dtype=dtype)]
    with cold_start(device, MIB, lambda: None, inputs) as begin, _Reads() as reads:
        begin()
    assert reads.names == ["zero_", "max", "max"]


class _Reads(TorchDispatchMode):
    """Notes the operators that run inside."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))
