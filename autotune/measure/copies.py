"""Times copies of one size by what they copy: every kind of copy between host and device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from autotune.measure.beside import CoveredRuns, CoveredSample
from autotune.measure.buffers import CopyBuffers
from autotune.measure.timing import TimingProtocol, begin_sample, time_repeatedly
from autotune.measurements.records import LinkKind
from autotune.measurements.timing import Timing
from runtime.devices.protocol import Device, Label, QueuedCopy
from runtime.intervals import Interval
from runtime.units import MIB

LABEL = Label("links")

# Between two copies lie some microseconds of the host and the driver; beside small ones they would leave gaps.
_LEAST_COVER_BYTES = 32 * MIB

QueueCopy = Callable[[], QueuedCopy]
TimeCopy = Callable[[Device, CopyBuffers, int, TimingProtocol], Timing]


def time_copies(device: Device, queue: QueueCopy, protocol: TimingProtocol) -> Timing:
    """Time the copies that ``queue`` makes, queued back to back, by their spans.

    Raises:
        DeviceError: a copy failed.
    """

    def run(times: int) -> float:
        begin_sample(device)
        copies = [queue() for _ in range(times)]
        device.synchronize()
        return sum(end - start for start, end in spans_of(copies))

    return time_repeatedly(run, protocol)


def spans_of(copies: Sequence[QueuedCopy]) -> list[Interval]:
    """When each of ``copies`` was on its way between host and device, without the read before it."""
    return [(span.start_s, span.end_s) for copy in copies for span in copy.spans()[-1:]]


def queue_pinned(device: Device, buffers: CopyBuffers, size_bytes: int) -> QueueCopy:
    """What queues copies from pinned memory.

    Raises:
        DeviceError: there is no memory for them.
    """
    moves = [(buffers.on_device("to", size_bytes), buffers.pinned("from", size_bytes))]
    return lambda: device.copy_pinned(moves, LABEL)


def queue_back(device: Device, buffers: CopyBuffers, size_bytes: int) -> QueueCopy:
    """What queues copies to pinned memory; from where those to the device go, so that one buffer there does for both.

    With both on their way the bytes are undefined, against the rule of ``Device.queue_back``: nobody reads them.

    Raises:
        DeviceError: there is no memory for them.
    """
    moves = [(buffers.pinned("back", size_bytes), buffers.on_device("to", size_bytes))]
    return lambda: device.queue_back(moves, LABEL)


def _time_pinned(device: Device, buffers: CopyBuffers, size_bytes: int, protocol: TimingProtocol) -> Timing:
    return time_copies(device, queue_pinned(device, buffers, size_bytes), protocol)


def _time_pageable(device: Device, buffers: CopyBuffers, size_bytes: int, protocol: TimingProtocol) -> Timing:
    moves = [(buffers.on_device("to", size_bytes), buffers.pageable("from", size_bytes))]
    return time_copies(device, lambda: device.copy_pageable(moves, LABEL), protocol)


def _time_back(device: Device, buffers: CopyBuffers, size_bytes: int, protocol: TimingProtocol) -> Timing:
    return time_copies(device, queue_back(device, buffers, size_bytes), protocol)


def _time_duplex_h2d(device: Device, buffers: CopyBuffers, size_bytes: int, protocol: TimingProtocol) -> Timing:
    queue = queue_pinned(device, buffers, size_bytes)
    cover = queue_back(device, buffers, max(size_bytes, _LEAST_COVER_BYTES))
    return time_repeatedly(_both_ways(device, queue, cover), protocol)


def _time_duplex_d2h(device: Device, buffers: CopyBuffers, size_bytes: int, protocol: TimingProtocol) -> Timing:
    queue = queue_back(device, buffers, size_bytes)
    cover = queue_pinned(device, buffers, max(size_bytes, _LEAST_COVER_BYTES))
    return time_repeatedly(_both_ways(device, queue, cover), protocol)


def _both_ways(device: Device, queue: QueueCopy, cover: QueueCopy) -> CoveredRuns:
    def meet(times: int, covers: int) -> CoveredSample:
        begin_sample(device)
        # First, so that they are on their way when the others begin.
        other_way = [cover() for _ in range(covers)]
        copies = [queue() for _ in range(times)]
        device.synchronize()
        return CoveredSample(spans_of(copies), 1, spans_of(other_way))

    return CoveredRuns("copies beside copies the other way", meet)


COPY_TIMERS: Mapping[LinkKind, TimeCopy] = MappingProxyType(
    {
        "pageable_h2d": _time_pageable,
        "pinned_h2d": _time_pinned,
        "d2h": _time_back,
        "duplex_h2d": _time_duplex_h2d,
        "duplex_d2h": _time_duplex_d2h,
    }
)
"""How each kind of copy is timed; every one raises ``DeviceError`` where memory is refused or a copy fails."""
