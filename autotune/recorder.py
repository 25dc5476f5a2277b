"""Notes what happens when while a program is replayed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from autotune.replay_core import Clock
from runtime.program import Action, Op, Segment

_H2D, _RUN, _BLOCKING, _UP, _DOWN = int(Op.H2D), int(Op.RUN), int(Op.H2D_BLOCKING), int(Op.UP), int(Op.DOWN)


@dataclass(slots=True)
class Recorder:
    """Performs actions one by one on a clock and notes spans, stalls and memory events in host order.

    A *slot* of ``-2 - component`` stands for a move of that whole component, ``-1`` for work outside the stacks.

    Attributes:
        spans: ``(lane, start_s, end_s, slot)``; lane 0 is compute, 1 is h2d, 2 a courier's read.
        stalls: ``(start_s, end_s, action)`` in which compute waited, for the sake of ``action``.
        memory: ``(time_s, slot, bytes)`` taken (positive) or given back.
        skipped: ``(at_s, period_s, times)`` passes that repeat exactly and were not replayed one by one.
        passes: ``(group, start_s, end_s)`` of every pass that was replayed.
    """

    spans: list[tuple[int, float, float, int]] = field(default_factory=list)
    stalls: list[tuple[float, float, Action]] = field(default_factory=list)
    memory: list[tuple[float, int, int]] = field(default_factory=list)
    skipped: list[tuple[float, float, int]] = field(default_factory=list)
    passes: list[tuple[int, float, float]] = field(default_factory=list)
    _moving: list[tuple[int, float, float]] = field(default_factory=list)

    def run(self, clock: Clock, actions: Iterable[Action]) -> None:
        """Perform ``actions`` on ``clock``; the same as ``clock.run``, with notes."""
        clock.trace_copies()
        for action in actions:
            op, argument = action
            before_s = clock.compute_free_s
            moved = argument not in clock.unmoved
            clock.run((action,))
            after_s, took_s = clock.compute_free_s, clock.last_compute_s(action)
            if after_s - took_s > before_s:
                self.stalls.append((before_s, after_s - took_s, action))
            if took_s:
                self.spans.append((0, after_s - took_s, after_s, argument if op == _RUN else -1))
            if op in (_H2D, _BLOCKING, _UP, _DOWN):
                slot = -2 - argument if op in (_UP, _DOWN) else argument
                for lane, start_s, end_s in clock.last_spans(action, moved):
                    self._moving.append((len(self.spans), start_s, end_s))
                    self.spans.append((lane, start_s, end_s, slot))
            change_bytes = clock.costs.live_change_bytes(action)
            if change_bytes:
                self.memory.append((before_s, -2 - argument if op in (_UP, _DOWN) else argument, change_bytes))
        self.place_copies(clock)

    def note_pass(self, clock: Clock, segment: Segment, start_s: float) -> None:
        """Note that ``segment``, which began at ``start_s``, has just been replayed once, if it is a pass."""
        if segment.group >= 0:
            self.passes.append((segment.group, start_s, clock.compute_free_s))

    def place_copies(self, clock: Clock) -> None:
        """Note anew when copies that were not over were made: compute may have slowed them."""
        for index, start_s, end_s in self._moving:
            lane, _, _, slot = self.spans[index]
            self.spans[index] = (lane, clock.time_of(start_s), clock.time_of(end_s), slot)
        self._moving = [copy for copy in self._moving if copy[2] > clock.now_s]
