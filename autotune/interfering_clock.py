"""Clocks for devices on which copies and compute slow each other down (``runtime.interference``).

The rules are those of the other clocks; they hold in the own time of the copy engine, which stands still for a part of
the time in which copies and compute are both under way. So nothing that was planned for the engine is ever planned
anew: compute advances both times, and what the engine's own time loses is its *lag*.

Simplified: the reads of couriers share the engine's own time, so a read that goes on beside a slowed copy is slowed
like it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from autotune.replay_core import Clock, Costs
from autotune.tiered_clock import TieredClock
from runtime.interference import LaneTime
from runtime.program import Action, Op

_H2D, _RUN, _WORK = int(Op.H2D), int(Op.RUN), int(Op.WORK)


class LaggingClock(Clock):
    """A clock whose copy engine has a time of its own; what its two kinds share.

    Attributes:
        lag_s: how far the copy engine's own time is behind.
        time: what ``time_of`` knows; None unless it will be asked.
        took_s: how long the last compute took.
    """

    # No slots: a class can inherit them from one base only, and the other clocks have them.

    lag_s: float
    time: LaneTime | None
    took_s: float

    @property
    def compute_free_s(self) -> float:
        """As every clock's."""
        return self.now_s + self.lag_s

    @property
    def engine_free_s(self) -> float:
        """As every clock's."""
        return super().engine_free_s + self.lag_s

    def last_compute_s(self, action: Action) -> float:
        """As every clock's."""
        return self.took_s if action[0] in (_RUN, _WORK) else 0.0

    def trace_copies(self) -> None:
        """As every clock's."""
        if self.time is None:
            self.time = LaneTime(self.now_s, self.compute_free_s)

    def time_of(self, own_s: float) -> float:
        """As every clock's."""
        return own_s + self.lag_s if self.time is None else self.time.at_s(own_s)

    def settle(self) -> None:
        """As every clock's."""
        super().settle()
        self.lag_s = self.took_s = 0.0
        self.time = None


class InterferingClock(LaggingClock):
    """``Clock`` with interference."""

    def __init__(self, costs: Costs, *, fresh: bool = False) -> None:
        between = costs.interference
        self._factors = (
            1 + between.compute_slowdown_ratio,
            between.compute_loss_ratio,
            1 + between.copy_slowdown_ratio,
            between.copy_loss_ratio,
        )
        super().__init__(costs, fresh=fresh)

    def run(self, actions: Iterable[Action]) -> None:
        """Perform ``actions`` once; the frequent ones in one flat loop, where ``Interference.meet`` is written out."""
        costs = self.costs
        compute_stretch, compute_loss, copy_stretch, copy_loss = self._factors
        copy_s, compute_s, stack_of_slot = costs.copy_s, costs.compute_s, costs.stack_of_slot
        landed, last_copy = self.landed_s, self.last_copy_s
        now, copy, stall, lag, took = self.now_s, self.copy_free_s, self.stall_s, self.lag_s, self.took_s
        for action in actions:
            op, argument = action
            if op == _RUN:
                ready = landed[argument]
                if ready > now:
                    stall += ready - now
                    now = ready
                took = compute_s[argument]
            elif op == _H2D:
                if copy_s[argument]:
                    copy = (copy if copy > now else now) + copy_s[argument]
                    landed[argument] = last_copy[stack_of_slot[argument]] = copy
                continue
            elif op == _WORK:
                took = costs.work_s[argument]
            else:
                self.now_s, self.copy_free_s, self.stall_s = now, copy, stall
                super().run((action,))
                now, copy, stall = self.now_s, self.copy_free_s, self.stall_s
                continue
            if copy > now:
                slowed, backlog = took * compute_stretch, (copy - now) * copy_stretch
                overlap = slowed if slowed < backlog else backlog
                took += overlap * compute_loss
                if copy_loss:
                    delay = overlap * copy_loss
                    if self.time is not None:
                        self.time.pass_slowly((now, now + lag), (now + overlap - delay, now + lag + overlap))
                    lag += delay
                    now -= delay
            now += took
        self.now_s, self.copy_free_s, self.stall_s, self.lag_s, self.took_s = now, copy, stall, lag, took


class InterferingTieredClock(LaggingClock, TieredClock):
    """``TieredClock`` with interference.

    Attributes:
        busy_s: from when to when the copy engine works, in order; what is over is left out when it is looked at.
    """

    busy_s: list[tuple[float, float]]

    def run(self, actions: Iterable[Action]) -> None:
        """Perform ``actions`` once."""
        for action in actions:
            op, argument = action
            if op == _RUN:
                waits_s = self.landed_s[argument] - self.now_s
                if waits_s > 0:
                    self.stall_s += waits_s
                    self.now_s = self.landed_s[argument]
                self._compute(self.costs.compute_s[argument])
            elif op == _WORK:
                self._compute(self.costs.work_s[argument])
            else:
                super().run((action,))
                if op == _H2D:
                    self._note_copies(action)

    def settle(self) -> None:
        """As every clock's."""
        super().settle()
        self.busy_s = []

    def relative_state(self) -> tuple[float, ...]:
        """As every clock's, with the gaps between copies."""
        now = self.now_s
        busy = (max(part - now, 0.0) for span in self.busy_s if span[1] > now for part in span)
        return (*super().relative_state(), *busy)

    def shift(self, delta_s: float) -> None:
        """As every clock's."""
        super().shift(delta_s)
        self.busy_s = [(begin + delta_s, end + delta_s) for begin, end in self.busy_s]

    def _note_copies(self, queued: Action) -> None:
        for lane, begin, end in self.last_spans(queued, has_moved=True):
            if lane == 1 and end > begin and end > self.now_s:
                insort(self.busy_s, (begin, end))

    def _compute(self, compute_s: float) -> None:
        """Compute beside the copies that are on their way, and at full speed in the gaps between them."""
        began_s, left_s = self.compute_free_s, compute_s
        between = self.costs.interference
        while left_s > 0 and self.busy_s:
            begin, end = self.busy_s[0]
            if end <= self.now_s:
                self.busy_s.pop(0)
                continue
            if begin - self.now_s >= left_s:
                break
            if begin > self.now_s:
                left_s -= begin - self.now_s
                self.now_s = begin
            overlap_s, took_s, delay_s = between.meet(left_s, end - self.now_s)
            at_s = self.compute_free_s
            # What compute gets done beside this copy is what it would take less what the rest of it takes alone.
            left_s = took_s - overlap_s
            done_s = end if left_s > 0 else self.now_s + overlap_s - delay_s
            if delay_s and self.time is not None:
                self.time.pass_slowly((self.now_s, at_s), (done_s, at_s + overlap_s))
            self.now_s = done_s
            self.lag_s += delay_s
        self.now_s += left_s
        self.took_s = self.compute_free_s - began_s
