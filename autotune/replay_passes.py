"""Replays passes that repeat: one by one until time and state repeat, then all the others at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autotune.recorder import Recorder
from autotune.replay_core import Clock
from runtime.program import Action, Segment

# Two passes whose relative times differ by less than this share of a pass are one steady state: far above the rounding
# of doubles (1e-16 per step, some thousand steps), far below anything that a clock could measure.
_SAME_STATE_RATIO = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTimes:
    """How long some passes took.

    Attributes:
        count: how many.
        first_s: its first pass.
        steady_s: its last pass; the mean over one period where the steady state repeats over several passes.
        total_s: all passes.
        settled_after: passes until the steady state.
    """

    count: int
    first_s: float
    steady_s: float
    total_s: float
    settled_after: int


def run_segment(clock: Clock, segment: Segment, recorder: Recorder | None = None) -> PassTimes:
    """Replay ``segment`` with its repeats: simulated until time and state repeat, then extended."""
    begin = clock.compute_free_s
    if segment.repeat == 1 and recorder is None:
        for block in segment.blocks:
            clock.run(block.timed)
        took = clock.compute_free_s - begin
        return PassTimes(count=1, first_s=took, steady_s=took, total_s=took, settled_after=1)
    actions = (
        segment.actions if recorder is not None else [action for block in segment.blocks for action in block.timed]
    )
    durations: list[float] = []
    # A pass that leaves what it found is steady: the state before the first one counts, too.
    states = [clock.relative_state()]
    while len(durations) < segment.repeat:
        before = clock.compute_free_s
        perform(clock, actions, recorder)
        if recorder is not None:
            recorder.note_pass(clock, segment, before)
        durations.append(clock.compute_free_s - before)
        state = clock.relative_state()
        tolerance = _SAME_STATE_RATIO * max(durations[-1], 1e-12)
        period = _period(states, state, tolerance)
        states.append(state)
        if period:
            return _extend(clock, segment, durations, period, begin, recorder)
    total = clock.compute_free_s - begin
    return PassTimes(
        count=segment.repeat,
        first_s=durations[0],
        steady_s=durations[-1],
        total_s=total,
        settled_after=len(durations),
    )


def perform(clock: Clock, actions: Iterable[Action], recorder: Recorder | None) -> None:
    """Perform ``actions`` on ``clock``, with notes if a recorder is given."""
    if recorder is None:
        clock.run(actions)
    else:
        recorder.run(clock, actions)


def join_passes(parts: list[PassTimes]) -> PassTimes:
    """Times of segments that follow each other, as one."""
    return PassTimes(
        count=sum(part.count for part in parts),
        first_s=parts[0].first_s,
        steady_s=parts[-1].steady_s,
        total_s=sum(part.total_s for part in parts),
        settled_after=sum(part.count for part in parts[:-1]) + parts[-1].settled_after,
    )


def _period(states: list[tuple[float, ...]], state: tuple[float, ...], tolerance: float) -> int:
    """How many passes ago the same relative state was seen; 0 when it never was."""
    for back, earlier in enumerate(reversed(states), start=1):
        if len(earlier) == len(state) and all(
            abs(one - other) <= tolerance for one, other in zip(earlier, state, strict=True)
        ):
            return back
    return 0


def _extend(
    clock: Clock, segment: Segment, durations: list[float], period: int, begin: float, recorder: Recorder | None
) -> PassTimes:
    cycle = durations[-period:]
    whole, rest = divmod(segment.repeat - len(durations), period)
    if recorder is not None:
        recorder.skipped.append((clock.compute_free_s, sum(cycle), whole))
        if whole:
            # Copies that are on their way now are made during the next passes, which may slow them.
            for _ in range(period):
                clock.run(segment.actions)
            recorder.place_copies(clock)
            whole -= 1
    clock.shift(whole * sum(cycle))
    for _ in range(rest):
        before = clock.compute_free_s
        perform(clock, segment.actions, recorder)
        if recorder is not None:
            recorder.note_pass(clock, segment, before)
    return PassTimes(
        count=segment.repeat,
        first_s=durations[0],
        steady_s=sum(cycle) / period,
        total_s=clock.compute_free_s - begin,
        settled_after=len(durations) - period,
    )
