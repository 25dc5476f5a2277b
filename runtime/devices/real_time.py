"""The real clock of an emulated device, and sleeps on it that end when they should."""

from __future__ import annotations

import threading
import time

# Sleeps of the operating system end up to about this much too late; the rest is spent yielding.
_LATE_S = 0.0003


class RealTime:
    """Emulated seconds since ``restart``, from any thread.

    Args:
        scale: wall seconds per emulated second.

    Attributes:
        epoch: how often the clock has been restarted.
    """

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._stopped = threading.Event()
        self.epoch = 0
        self._origin_s = time.perf_counter()

    def now_s(self) -> float:
        """Emulated seconds."""
        return (time.perf_counter() - self._origin_s) / self._scale

    def emulated_s(self, wall_s: float) -> float:
        """Emulated seconds of a wall-clock duration."""
        return wall_s / self._scale

    def restart(self) -> None:
        """Begin at zero."""
        self.epoch += 1
        self._origin_s = time.perf_counter()

    def stop(self) -> None:
        """End every sleep, now and later."""
        self._stopped.set()

    def sleep_until(self, at_s: float) -> None:
        """Block the calling thread until an instant of this clock, or until ``stop``."""
        deadline_s = self._origin_s + at_s * self._scale
        while (left_s := deadline_s - time.perf_counter()) > _LATE_S:
            if self._stopped.wait(left_s - _LATE_S):
                return
        while time.perf_counter() < deadline_s and not self._stopped.is_set():
            # Gives the interpreter lock away each time: a busy loop would stop the other lanes.
            time.sleep(0)
