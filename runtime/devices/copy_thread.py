"""The copy engine of an emulated device on the real clock: one thread, first in, first out, paced."""

from __future__ import annotations

import queue
import random
import threading
from typing import NamedTuple

import torch

from runtime.devices.emulated_copy import EmulatedCopy
from runtime.devices.engine import fill_poison
from runtime.devices.protocol import CopySpan
from runtime.devices.real_time import RealTime
from runtime.errors import DeviceError
from runtime.timeline import Lane

_LONGEST_DELAY_S = 0.004


class _Job(NamedTuple):
    copy: EmulatedCopy
    took_s: float
    ready_s: float


class CopyThread:
    """Makes copies one after the other.

    A copy begins where the one before it was meant to end, if it was queued by then, and ends after its duration or
    when its bytes have been moved, whatever is later: sleeps that end late do not add up.

    Args:
        lane: which direction it copies.
        time: the clock.
        delays: for random sleeps before every copy; None for none.

    Attributes:
        failed: copies that failed, in order.
    """

    def __init__(self, lane: Lane, time: RealTime, delays: random.Random | None) -> None:
        self._lane = lane
        self.failed: list[EmulatedCopy] = []
        self._time = time
        self._delays = delays
        self._free_s = 0.0
        self._is_closed = threading.Event()
        # A device may be closed from another thread than the host's: no job may follow the end of the queue.
        self._job_lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | torch.Tensor | threading.Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"copy engine {lane}", daemon=True)
        self._thread.start()

    def queue(self, copy: EmulatedCopy, took_s: float, ready_s: float) -> None:
        """Queue ``copy``, which begins at ``ready_s`` at the earliest."""
        self._put(_Job(copy, took_s, ready_s))

    def retire(self, buffer: torch.Tensor) -> None:
        """Poison ``buffer`` behind all copies queued so far."""
        self._put(buffer)

    def finish(self) -> None:
        """Block until everything queued so far is done."""
        done = threading.Event()
        self._put(done)
        done.wait()

    def restart(self) -> None:
        """The clock has been restarted, while nothing was queued."""
        self._free_s = 0.0

    def close(self) -> None:
        """Fail what is queued, stop the thread. May be called twice."""
        with self._job_lock:
            if not self._is_closed.is_set():
                self._is_closed.set()
                self._jobs.put(None)
        self._thread.join()

    def _put(self, job: _Job | torch.Tensor | threading.Event) -> None:
        with self._job_lock:
            if self._is_closed.is_set():
                raise DeviceError("The device is closed.")
            self._jobs.put(job)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, _Job):
                self._make(job)
            elif isinstance(job, threading.Event):
                job.set()
            else:
                fill_poison(job)

    def _make(self, job: _Job) -> None:
        copy = job.copy
        if self._is_closed.is_set():
            copy.fail(DeviceError("the device was closed before it was made"))
            return
        if self._delays is not None:
            self._time.sleep_until(self._time.now_s() + self._time.emulated_s(self._delays.random() * _LONGEST_DELAY_S))
        start_s = max(self._free_s, job.ready_s)
        copy.make()
        end_s = max(start_s + job.took_s, self._time.now_s())
        self._time.sleep_until(end_s)
        self._free_s = end_s
        copy.lanes = (CopySpan(self._lane, start_s, end_s),)
        if copy.has_unreported_error:
            self.failed.append(copy)
        copy.landed.set()
