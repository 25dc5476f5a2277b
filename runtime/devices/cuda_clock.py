"""Time on a CUDA card: events on its compute stream, measured from the one that begins the time line."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class CudaMark:
    """An instant on the compute stream, and the beginning of its time line."""

    event: torch.cuda.Event
    base: torch.cuda.Event

    def at_s(self) -> float:
        """Seconds from the beginning; known once the event is over."""
        return seconds_between(self.base, self.event)


class CudaClock:
    """See the module.

    Attributes:
        base: the event that begins the time line.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self.restart()

    def restart(self) -> None:
        """Begin a time line, while the card does nothing."""
        before_s = time.perf_counter()
        self.base = torch.cuda.Event(enable_timing=True)
        self.base.record(self._stream)
        self.base.synchronize()
        self._host_base_s = (before_s + time.perf_counter()) / 2

    def mark(self) -> CudaMark:
        """An instant: when all compute that was called so far is done."""
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return CudaMark(event, self.base)

    def host_now_s(self) -> float:
        """The host's clock, laid beside the card's: they differ by some tens of microseconds."""
        return time.perf_counter() - self._host_base_s


def seconds_between(begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
    """Seconds between two timing events that are over; elapsed times of CUDA are milliseconds."""
    return float(begin.elapsed_time(end)) / 1000
