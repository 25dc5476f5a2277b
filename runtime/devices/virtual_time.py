"""The arithmetic of virtual time: a compute lane, a copy lane and a read lane, with no thread and no clock.

=================  =====================================================================================================
``now_s``          when all compute that was called so far is done; also how far the host has come
``copy_free_s``    when the copies that the host queued are over
``read_free_s``    when the couriers' next read may begin
=================  =====================================================================================================

A copy of the host begins in the first gap between couriers' copies that holds it. A courier's copy begins when its
read, the host's copies queued so far and the couriers' last copy are over; it does not hold up a copy that the host
queues later, as long as that one fits in before it. All values are emulated seconds since ``reset``.
"""

from __future__ import annotations

from typing import NamedTuple, NewType

CourierSlots = NewType("CourierSlots", int)
"""Whose pair of slots: a courier's number."""


class Interval(NamedTuple):
    """From when to when one lane works."""

    start_s: float
    end_s: float


class VirtualLanes:
    """See the module."""

    def __init__(self) -> None:
        self._courier_count = 0
        self.reset()

    def reset(self) -> None:
        """Begin at zero with every lane idle and every slot free."""
        self.now_s = self._copy_free_s = self._read_free_s = self._shipped_until_s = 0.0
        self._shipped: list[Interval] = []
        self._slots_free_s = [(0.0, 0.0)] * self._courier_count

    def add_courier(self) -> CourierSlots:
        """A further pair of slots, both free."""
        self._slots_free_s.append((0.0, 0.0))
        self._courier_count += 1
        return CourierSlots(self._courier_count - 1)

    def compute(self, took_s: float) -> Interval:
        """Compute follows what was called before it."""
        start_s = self.now_s
        self.now_s = start_s + took_s
        return Interval(start_s, self.now_s)

    def copy(self, took_s: float) -> Interval:
        """Queue a copy of the host."""
        start_s = max(self._copy_free_s, self.now_s)
        # The host only ever asks for later gaps: what is over by now is looked at no more.
        self._shipped = [shipped for shipped in self._shipped if shipped.end_s > start_s]
        for shipped in self._shipped:
            if start_s + took_s <= shipped.start_s:
                break
            start_s = max(start_s, shipped.end_s)
        self._copy_free_s = start_s + took_s
        return Interval(start_s, self._copy_free_s)

    def copy_now(self, took_s: float) -> Interval:
        """Make a copy of the host that the host, and so the next read, waits for."""
        copied = self.copy(took_s)
        self.now_s = max(self.now_s, copied.end_s)
        self.catch_up()
        return copied

    def ship(self, slots: CourierSlots, read_s: float, copy_s: float) -> tuple[Interval, Interval]:
        """Queue a read into the slot of ``slots`` that is free first, with the copy from there. Returns both."""
        older_s, newer_s = self._slots_free_s[slots]
        read_start_s = max(self._read_free_s, older_s)
        self._read_free_s = read_start_s + read_s
        copy_start_s = max(self._copy_free_s, self.now_s, self._read_free_s, self._shipped_until_s)
        copied = Interval(copy_start_s, copy_start_s + copy_s)
        self._shipped.append(copied)
        self._shipped_until_s = copied.end_s
        self._slots_free_s[slots] = (newer_s, copied.end_s)
        return Interval(read_start_s, self._read_free_s), copied

    def wait(self, end_s: float) -> None:
        """Compute goes on at ``end_s`` at the earliest. The host runs ahead: reads do not wait."""
        self.now_s = max(self.now_s, end_s)

    def catch_up(self) -> None:
        """The host waits for compute: no read begins before it is done."""
        self._read_free_s = max(self._read_free_s, self.now_s)

    def finish(self) -> None:
        """The host waits for everything."""
        self.wait(max(self._copy_free_s, self._shipped_until_s))
        self.catch_up()
