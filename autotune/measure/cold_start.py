"""Makes a run begin as in a pass: weights in no cache, inputs in it, and on a card behind work already queued.

Run again and again, a layer finds its weights in the cache, which a layer that has just been streamed does not; what it
is called with, however, the piece before has just written. And where a card has nothing to do, it waits for the host
between the kernels of a short run, which in a pass are queued while the layer before still computes. Writing through a
buffer larger than the cache and then reading the inputs cures all of it. Imports torch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from runtime.devices.protocol import Device, MemoryKind
from runtime.errors import DeviceMemoryError
from runtime.units import MIB

CARD_BYTES = 256 * MIB
"""Twice the largest level-two cache of present cards (B200: 126 MB; RTX 5090: 96 MB; NVIDIA's architecture papers)."""

PROCESSOR_BYTES = 64 * MIB
"""More than one process of a shared server processor has of its last cache as a rule."""

_HEAD_START_RATIO = 1.5
_MOST_WRITES = 256

ColdStart = Callable[[], None]
"""Called before a run, on the compute lane."""


@contextmanager
def cold_start(
    device: Device, size_bytes: int, work: Callable[[], object], inputs: Sequence[torch.Tensor] = ()
) -> Iterator[ColdStart | None]:
    """Hold a buffer of ``size_bytes`` while the block runs.

    Args:
        device: inside of its ``compute_scope``.
        size_bytes: of the buffer; 0 for none.
        work: what will be run; on a card it is called twice to see how long the host takes to queue it.
        inputs: what it reads that was just written.

    Yields:
        What to call before each run; None where nothing is asked for, or where the device has no room for the buffer.
    """
    if not size_bytes:
        yield None
        return
    try:
        buffer = device.allocate(size_bytes, torch.uint8, MemoryKind.BUFFERS)
    except DeviceMemoryError:
        yield None
        return
    try:
        yield _make(device, buffer, work, [_view_bytes(tensor) for tensor in inputs if tensor.numel()])
    finally:
        device.synchronize()
        device.free(buffer)


def _make(device: Device, buffer: torch.Tensor, work: Callable[[], object], warm: Sequence[torch.Tensor]) -> ColdStart:
    writes = 1
    if device.torch_device.type == "cuda":  # elsewhere the host computes itself and cannot run ahead
        queue_s = min(_time_host(work, device) for _ in range(2))
        write_s = min(_time_device(buffer, device) for _ in range(2))
        writes = min(max(1, math.ceil(_HEAD_START_RATIO * queue_s / write_s)), _MOST_WRITES) if write_s else 1

    def begin() -> None:
        for _ in range(writes):
            buffer.zero_()
        for tensor in warm:
            tensor.max()  # reads it; of bytes, so that no dtype lacks it

    return begin


def _view_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes of the storage of ``tensor``, whatever its dtype and strides."""
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return flat.set_(tensor.untyped_storage())


def _time_host(work: Callable[[], object], device: Device) -> float:
    """Seconds that the host takes to queue ``work``."""
    device.synchronize()
    begun_s = time.perf_counter()
    work()
    return time.perf_counter() - begun_s


def _time_device(buffer: torch.Tensor, device: Device) -> float:
    """Seconds that the device takes to write ``buffer`` once."""
    device.synchronize()
    begin = device.mark()
    buffer.zero_()
    end = device.mark()
    device.synchronize()
    return device.time_of(end) - device.time_of(begin)
