"""The timing protocol: every time that this program measures on a device was measured here.

One measurement, on the compute lane of the device::

    host     warm-up   sync  queues a sample     sync   sync  queues a sample     sync   ...
    device  |dropped|       [cold start] m [r] m             [cold start] m [r] m
                                         |<1>|                            |<2>|

- ``m`` are marks on the device's clock (events on CUDA, a monotonic clock or computed times elsewhere); the host waits
  for the device before the first and after the second, so nothing else is between them;
- warm-up runs are not counted: they load kernels, choose algorithms and fill the allocator's pools;
- layers are run behind a *cold start* (``autotune.measure.cold_start``): caches hold something else, and the card is
  busy until the host has queued the run, as both are in a pass;
- copies and other short work are run several times between two marks (``inner``) instead, so that what the host takes
  for the first one is spread over all;
- a sample is the time between two marks, over ``inner`` where there are several; their number is doubled until the
  median's interval is narrow enough, or until the count or the time that the protocol allows is used up, which the
  timing then says. Looking after every sample would stop at intervals that are narrow by chance;
- the device's conditions are read before and after. A run that was disturbed keeps its figures and says by what.

The ceiling to compare a figure with (counted operations over the time, bytes over the time) belongs to the record of
what was timed, see ``autotune.measurements``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from autotune.measurements.timing import Effort, Timing, summarize_samples
from runtime.devices.protocol import Device, Label
from runtime.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingProtocol:
    """When to stop.

    Attributes:
        warmups: runs that are not counted.
        least_count, most_count: samples.
        spread_ratio: stop once the interval of the median is this narrow, as a share of it.
        limit_s: begin no further sample after this much of the host's time; ``least_count`` are made in any case.
        least_span_s: between two marks, by running short work several times.
    """

    warmups: int
    least_count: int
    most_count: int
    spread_ratio: float
    limit_s: float
    least_span_s: float = 0.005

    def __post_init__(self) -> None:
        if not (self.warmups >= 0 and 1 <= self.least_count <= self.most_count):
            raise InputError(
                f"{self.warmups} warm-ups and {self.least_count} to {self.most_count} samples are no protocol: at "
                "least one sample is made, and the least is at most the most"
            )


_MOST_INNER = 64

PROTOCOLS = {
    Effort.QUICK: TimingProtocol(warmups=1, least_count=3, most_count=10, spread_ratio=0.05, limit_s=1.0),
    Effort.DEFAULT: TimingProtocol(warmups=2, least_count=5, most_count=50, spread_ratio=0.02, limit_s=4.0),
    Effort.THOROUGH: TimingProtocol(warmups=3, least_count=9, most_count=200, spread_ratio=0.005, limit_s=20.0),
}
"""Judgements: MiniMax-H3 has 54 distinct pieces and 65 copies to time, so quick is a minute or two at the most."""


def time_repeatedly(
    run: Callable[[int], float], protocol: TimingProtocol, *, clock: Callable[[], float] = time.monotonic
) -> Timing:
    """Time ``run`` by ``protocol``.

    Args:
        run: makes so many runs back to back and returns the seconds that they took in all, on the device's clock.
        protocol: when to stop.
        clock: the host's, for ``limit_s``.
    """
    once_s = math.inf
    for _ in range(protocol.warmups):
        once_s = run(1)
    if not protocol.warmups:
        once_s = protocol.least_span_s
    inner = _choose_inner(once_s, protocol.least_span_s)
    samples: list[float] = []
    begun_s, wanted = clock(), protocol.least_count
    while True:
        is_late = False
        while len(samples) < wanted and not is_late:
            samples.append(run(inner) / inner)
            is_late = len(samples) >= protocol.least_count and clock() - begun_s >= protocol.limit_s
        found = summarize_samples(samples, is_settled=True)
        if found.spread_ratio <= protocol.spread_ratio:
            return found
        if is_late or len(samples) >= protocol.most_count:
            return replace(found, is_settled=False)
        wanted = min(2 * wanted, protocol.most_count)


def time_on_device(
    device: Device,
    label: Label,
    work: Callable[[], object],
    protocol: TimingProtocol,
    cold: Callable[[], None] | None = None,
) -> Timing:
    """Time ``work``, which computes on ``device``; an emulated device makes it last as long as ``label`` should.

    ``cold`` is called before every sample, which is one run then.
    """
    if cold is not None:
        protocol = replace(protocol, least_span_s=0.0)

    def run(times: int) -> float:
        begin_sample(device)
        if cold is not None:
            cold()
        begin = device.mark()
        for _ in range(times):
            device.begin_run(label)
            work()
            device.end_run(label)
        end = device.mark()
        device.synchronize()
        return device.time_of(end) - device.time_of(begin)

    return time_repeatedly(run, protocol)


def begin_sample(device: Device) -> None:
    """Wait for the device and begin a new time line: CUDA counts in 32-bit floats, whose steps grow with the time."""
    device.synchronize()
    device.start_clock()


def _choose_inner(once_s: float, least_span_s: float) -> int:
    if once_s <= 0:
        return 1
    return min(max(1, math.ceil(least_span_s / once_s)), _MOST_INNER)
