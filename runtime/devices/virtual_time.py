"""The arithmetic of virtual time: a compute lane, copy lanes both ways and a read lane, with no thread and no clock.

====================  ==================================================================================================
``now_s``             when all compute that was called so far is done; also how far the host has come
``link_s``            the same instant in the own time of the copies to the device, and of the reads
``copy_free_s``       when the copies that the host queued are over
``read_free_s``       when the couriers' next read may begin
====================  ==================================================================================================

A copy of the host begins in the first gap between couriers' copies that holds it. A courier's copy begins when its
read, the host's copies queued so far and the couriers' last copy are over; it does not hold up a copy that the host
queues later, as long as that one fits in before it. Copies that are queued to the host have a lane of their own.

Copies are planned when they are queued, in the own time of their lane (``runtime.interference.LaneTime``): it stands
still for a part of the time in which compute, or a copy the other way, slows the lane. What is slowed is known only
when compute is called, or waits; ``VirtualLanes`` then goes from one change to the next. Where several slow one copy,
their factors multiply. A read that goes on meanwhile is slowed like the copy beside it. All values are emulated seconds
since ``reset``.
"""

from __future__ import annotations

import math
from bisect import insort
from typing import NamedTuple, NewType

from runtime.devices.protocol import CopySpan
from runtime.interference import NO_INTERFERENCE, Interference, LaneTime
from runtime.timeline import Lane

CourierSlots = NewType("CourierSlots", int)
"""Whose pair of slots: a courier's number."""


class Interval(NamedTuple):
    """From when to when one lane works, in its own time."""

    start_s: float
    end_s: float


class LaneWork(NamedTuple):
    """What one lane does for a copy; its span is known when everything has been waited for."""

    lane: Lane
    planned: Interval
    time: LaneTime

    def span(self) -> CopySpan:
        """When it is done, on the device's clock."""
        return CopySpan(self.lane, self.time.at_s(self.planned.start_s), self.time.at_s(self.planned.end_s))


class Link:
    """One direction of copies: when it is busy, in its own time, and how that lies on the device's clock.

    Attributes:
        own_s: its own time now.
        awaited_s: an instant at which somebody waits for it to arrive.
        time: its own time against the device's clock.
    """

    def __init__(self) -> None:
        self.own_s = 0.0
        self.awaited_s = math.inf
        self.time = LaneTime()
        self._busy: list[Interval] = []

    @property
    def is_busy(self) -> bool:
        """Whether a copy is on its way now."""
        return bool(self._busy) and self._busy[0].start_s <= self.own_s

    @property
    def next_s(self) -> float:
        """When something changes, if time goes on."""
        if not self._busy:
            return self.awaited_s
        return min(self._busy[0].end_s if self.is_busy else self._busy[0].start_s, self.awaited_s)

    def book(self, work: Interval) -> None:
        """It is busy then."""
        if work.end_s > work.start_s:
            insort(self._busy, work)

    def arrive(self, own_s: float) -> None:
        """Its own time advances to ``own_s``, which lies beyond no change."""
        self.own_s = own_s
        while self._busy and self._busy[0].end_s <= own_s:
            self._busy.pop(0)


class VirtualLanes:
    """See the module.

    Args:
        interference: of copies to the device and compute.
        duplex_slowdown_ratio: by this share of itself a copy takes longer while one goes the other way.
    """

    def __init__(self, interference: Interference = NO_INTERFERENCE, duplex_slowdown_ratio: float = 0.0) -> None:
        self._compute_stretch = 1 + interference.compute_slowdown_ratio
        self._copy_stretch = 1 + interference.copy_slowdown_ratio
        self._duplex_stretch = 1 + duplex_slowdown_ratio
        self._is_slowed = not interference.is_none or duplex_slowdown_ratio > 0
        self._courier_count = 0
        self.reset()

    def reset(self) -> None:
        """Begin at zero with every lane idle and every slot free."""
        self.now_s = self._copy_free_s = self._back_free_s = self._read_free_s = self._shipped_until_s = 0.0
        self._link, self._back = Link(), Link()
        self._shipped: list[Interval] = []
        self._slots_free_s = [(0.0, 0.0)] * self._courier_count

    @property
    def link_s(self) -> float:
        """Now, in the own time of the copies to the device."""
        return self._link.own_s

    def work(self, lane: Lane, planned: Interval) -> LaneWork:
        """What ``lane`` does at ``planned``."""
        return LaneWork(lane, planned, self._back.time if lane is Lane.D2H else self._link.time)

    def add_courier(self) -> CourierSlots:
        """A further pair of slots, both free."""
        self._slots_free_s.append((0.0, 0.0))
        self._courier_count += 1
        return CourierSlots(self._courier_count - 1)

    def compute(self, took_s: float) -> Interval:
        """Compute follows what was called before it, and lasts ``took_s`` unless copies slow it. On the clock."""
        start_s = self.now_s
        if self._is_slowed:
            self._compute_slowed(took_s)
        else:
            self._jump(start_s + took_s)
        return Interval(start_s, self.now_s)

    def copy(self, took_s: float) -> Interval:
        """Queue a copy of the host."""
        start_s = max(self._copy_free_s, self.link_s)
        # The host only ever asks for later gaps: what is over by now is looked at no more.
        self._shipped = [shipped for shipped in self._shipped if shipped.end_s > start_s]
        for shipped in self._shipped:
            if start_s + took_s <= shipped.start_s:
                break
            start_s = max(start_s, shipped.end_s)
        self._copy_free_s = start_s + took_s
        return self._book(self._link, Interval(start_s, self._copy_free_s))

    def copy_now(self, took_s: float) -> Interval:
        """Make a copy of the host that the host, and so the next read, waits for."""
        copied = self.copy(took_s)
        self.wait(copied.end_s)
        self.catch_up()
        return copied

    def copy_back(self, took_s: float) -> Interval:
        """Queue a copy to the host."""
        start_s = max(self._back_free_s, self._back.own_s)
        self._back_free_s = start_s + took_s
        return self._book(self._back, Interval(start_s, self._back_free_s))

    def ship(self, slots: CourierSlots, read_s: float, copy_s: float) -> tuple[Interval, Interval]:
        """Queue a read into the slot of ``slots`` that is free first, with the copy from there. Returns both."""
        older_s, newer_s = self._slots_free_s[slots]
        read_start_s = max(self._read_free_s, older_s)
        self._read_free_s = read_start_s + read_s
        copy_start_s = max(self._copy_free_s, self.link_s, self._read_free_s, self._shipped_until_s)
        copied = self._book(self._link, Interval(copy_start_s, copy_start_s + copy_s))
        self._shipped.append(copied)
        self._shipped_until_s = copied.end_s
        self._slots_free_s[slots] = (newer_s, copied.end_s)
        return Interval(read_start_s, self._read_free_s), copied

    def wait(self, end_s: float, lane: Lane = Lane.H2D) -> None:
        """Compute goes on when ``lane`` has come to ``end_s``, at the earliest. The host runs ahead: no read waits."""
        link = self._back if lane is Lane.D2H else self._link
        if not self._is_slowed:
            self._jump(max(self.now_s, end_s))
            return
        link.awaited_s = end_s
        while link.own_s < end_s:
            self._step(math.inf, computes=False)
        link.awaited_s = math.inf

    def catch_up(self) -> None:
        """The host waits for compute: no read begins before it is done."""
        self._read_free_s = max(self._read_free_s, self.link_s)

    def finish(self) -> None:
        """The host waits for everything."""
        self.wait(max(self._copy_free_s, self._shipped_until_s))
        self.wait(self._back_free_s, Lane.D2H)
        self.catch_up()

    def _book(self, link: Link, planned: Interval) -> Interval:
        if self._is_slowed:
            link.book(planned)
        return planned

    def _jump(self, to_s: float) -> None:
        self.now_s = self._link.own_s = self._back.own_s = to_s

    def _compute_slowed(self, took_s: float) -> None:
        left_s = took_s
        while left_s > 0:
            stretch = self._compute_stretch if self._link.is_busy else 1.0
            wanted_s = left_s * stretch
            passed_s = self._step(wanted_s, computes=True)
            left_s = 0.0 if passed_s == wanted_s else left_s - passed_s / stretch

    def _step(self, most_s: float, *, computes: bool) -> float:
        """Go on for ``most_s``, or until the next change of either link; returns for how long."""
        link, back = self._link, self._back
        duplex = self._duplex_stretch if link.is_busy and back.is_busy else 1.0
        beside = self._copy_stretch if link.is_busy and computes else 1.0
        stretches = ((link, duplex * beside), (back, duplex))
        changes = [(each.next_s - each.own_s) * stretch for each, stretch in stretches]
        passed_s = min(most_s, *changes)
        for (each, stretch), change_s in zip(stretches, changes, strict=True):
            # A change is met exactly: a rest of rounding would make steps that no longer move the clock.
            own_s = each.next_s if change_s == passed_s else each.own_s + passed_s / stretch
            if stretch > 1:
                each.time.pass_slowly((each.own_s, self.now_s), (own_s, self.now_s + passed_s))
            each.arrive(own_s)
        self.now_s += passed_s
        return passed_s
