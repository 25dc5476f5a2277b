"""A copy engine of a CUDA card: one stream, on which every copy waits for the compute that was queued before it."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

from runtime.devices.cuda_clock import CudaClock, seconds_between
from runtime.devices.moves import count_bytes
from runtime.devices.protocol import CopySpan, Label, Moves
from runtime.errors import DeviceError
from runtime.timeline import Lane


@dataclass(slots=True)
class CudaCopy:
    """See ``QueuedCopy``: timing events around the copy, and the beginning of its time line."""

    label: Label
    size_bytes: int
    lane: Lane
    begin: torch.cuda.Event
    end: torch.cuda.Event
    base: torch.cuda.Event

    def spans(self) -> tuple[CopySpan, ...]:
        """See ``QueuedCopy``."""
        return (CopySpan(self.lane, seconds_between(self.base, self.begin), seconds_between(self.base, self.end)),)


class CudaCopies:
    """See the module. Both streams are arguments: neither is looked up inside the other's context.

    Args:
        compute_stream: what copies wait for.
        copy_stream: where they are made.
        clock: of the compute stream.
        lane: which direction it copies.
    """

    def __init__(
        self,
        compute_stream: torch.cuda.Stream,
        copy_stream: torch.cuda.Stream,
        clock: CudaClock,
        lane: Lane = Lane.H2D,
    ) -> None:
        self._lane = lane
        self._compute_stream = compute_stream
        self._copy_stream = copy_stream
        self._clock = clock
        # Couriers queue from their threads: what belongs to one copy must not be interleaved with another's.
        self._lock = threading.Lock()

    def ready(self) -> torch.cuda.Event:
        """When all compute that was called so far is done."""
        return self._compute_stream.record_event()

    def queue(self, moves: Moves, label: Label, ready: torch.cuda.Event) -> CudaCopy:
        """Queue a copy that begins after ``ready``. Any thread may call it.

        Raises:
            DeviceError: CUDA refuses.
        """
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        try:
            with self._lock, torch.cuda.stream(self._copy_stream), torch.inference_mode():
                self._copy_stream.wait_event(ready)
                begin.record(self._copy_stream)
                for destination, source in moves:
                    destination.copy_(source, non_blocking=True)
                end.record(self._copy_stream)
        except RuntimeError as error:
            raise DeviceError(f"The copy of {label} failed: {error}") from error
        return CudaCopy(label, count_bytes(moves), self._lane, begin, end, self._clock.base)

    def copy_now(self, moves: Moves, label: Label) -> CudaCopy:
        """Make a copy that the host waits for, and so all compute that it calls later.

        Raises:
            DeviceError: it failed.
        """
        copy = self.queue(moves, label, self.ready())
        try:
            copy.end.synchronize()
        except RuntimeError as error:
            raise DeviceError(f"The copy of {label} failed: {error}") from error
        return copy
