"""The compute lane of an emulated device on the real clock: the host runs ahead of it, as it does on a card."""

from __future__ import annotations

from runtime.devices.real_time import RealTime


class ComputeLane:
    """When compute begins and ends.

    Modules compute on the host's thread, which therefore cannot queue anything before what it queued last is done. So
    that its own work between two layers is hidden as on a card, where it is done while the layer before still computes,
    time in which it only waits for compute or for copies does not count as its own: compute begins when what was called
    before it is done, or when a host that never waited would have come that far, whatever is later. All times are
    emulated seconds since ``restart``; none lies in the future when a method returns.

    Args:
        time: the clock.
    """

    def __init__(self, time: RealTime) -> None:
        self._time = time
        self.restart()

    def restart(self) -> None:
        """Begin at zero."""
        self._free_s = self._waited_s = self._called_s = self._start_s = 0.0

    def host_s(self) -> float:
        """How far a host that never waited would have come."""
        return self._time.now_s() - self._waited_s

    def now_s(self) -> float:
        """When all compute that was called so far is done."""
        return max(self._free_s, self.host_s())

    def begin_run(self) -> None:
        """Compute is called."""
        self._called_s, self._start_s = self._time.now_s(), self.now_s()

    def end_run(self, took_s: float | None) -> None:
        """It lasts ``took_s``; None for as long as it has taken."""
        self._free_s = self._start_s + (self._time.now_s() - self._called_s if took_s is None else took_s)
        self._time.sleep_until(self._free_s)
        self._waited_s += self._time.now_s() - self._called_s

    def wait_until(self, end_s: float, *, since_s: float) -> None:
        """Compute goes on at ``end_s`` at the earliest; the host has been blocked from ``since_s`` until now."""
        self._waited_s += self._time.now_s() - since_s
        self._free_s = max(self._free_s, end_s)

    def host_waits_until(self, at_s: float) -> None:
        """The host itself goes on at ``at_s`` at the earliest."""
        self._waited_s = min(self._waited_s, self._time.now_s() - at_s)

    def catch_up(self) -> None:
        """The host waits for all compute."""
        self.host_waits_until(self.now_s())
