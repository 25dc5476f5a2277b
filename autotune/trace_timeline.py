"""Turns a replay's notes into a timeline with names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TypedDict

from autotune.evaluate import Evaluation, Evaluator
from autotune.recorder import Recorder
from autotune.replay_core import Costs
from runtime.plan import Plan
from runtime.program import Action, Op, Program
from runtime.timeline import Lane, LiveBytes, Repeats, Span, Stall, Timeline

# Differences of sums of seconds round to about this; a wait so short is none.
_ROUNDING_S = 1e-9

_LANES = (Lane.COMPUTE, Lane.H2D, Lane.READ)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPass:
    """One pass on the timeline: of which use of the request, and of which of its pass groups."""

    use: int
    group: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A later request, replayed.

    Attributes:
        evaluation: times and memory of the plan.
        timeline: the request.
        passes: those on the timeline, in order; the ones that it leaves out are not among them.
    """

    evaluation: Evaluation
    timeline: Timeline
    passes: tuple[TracedPass, ...]


def trace_request(evaluator: Evaluator, plan: Plan) -> Trace:
    """A later request under ``plan``.

    Raises:
        PlanError: the plan was made for another model.
    """
    recorder = Recorder()
    evaluation = evaluator.evaluate(plan, recorder)
    program = evaluator.lifecycle.build_program(plan)
    live_before = _live_when_idle(program, evaluator.cost_model.stack_costs)
    return Trace(
        evaluation=evaluation,
        timeline=_build_timeline(program, recorder, live_before),
        passes=tuple(
            TracedPass(use=_find_use(evaluation, start_s, end_s), group=group, start_s=start_s, end_s=end_s)
            for group, start_s, end_s in recorder.passes
        ),
    )


def _find_use(evaluation: Evaluation, start_s: float, end_s: float) -> int:
    """The position of the use that holds a pass."""
    return next(
        position
        for position, use in enumerate(evaluation.uses)
        if use.start_s <= start_s + _ROUNDING_S and end_s <= use.end_s + _ROUNDING_S
    )


def _live_when_idle(program: Program, costs: Costs) -> Counter[str]:
    """Streamed bytes per component that are live between requests."""
    live: Counter[str] = Counter()
    for action in chain(program.load.actions, program.first.actions()):
        change_bytes = costs.live_change_bytes(action)
        if change_bytes:
            op, argument = action
            slot = -2 - argument if op in (Op.UP, Op.DOWN) else argument
            live[str(_owner(program, slot)["component"])] += change_bytes
    return live


def _build_timeline(program: Program, recorder: Recorder, live_before: Counter[str]) -> Timeline:
    spans = tuple(
        Span(lane=_LANES[lane], start_s=start_s, end_s=end_s, **_owner(program, slot))
        for lane, start_s, end_s, slot in recorder.spans
        if end_s > start_s
    )
    stalls = tuple(
        Stall(start_s=start_s, end_s=end_s, **_awaited(program, action))
        for start_s, end_s, action in recorder.stalls
        if end_s - start_s > _ROUNDING_S
    )
    repeats = tuple(
        Repeats(at_s=at_s, period_s=period_s, times=times) for at_s, period_s, times in recorder.skipped if times
    )
    return Timeline(
        spans=spans, stalls=stalls, repeats=repeats, live=tuple(_walk_memory(program, recorder, live_before))
    )


def _walk_memory(program: Program, recorder: Recorder, live_before: Counter[str]) -> list[LiveBytes]:
    live = Counter(live_before)
    found = [LiveBytes(at_s=0.0, by_component=dict(live))]
    for time_s, slot, size_bytes in recorder.memory:
        component = _owner(program, slot)["component"]
        live[str(component)] += size_bytes
        found.append(LiveBytes(at_s=time_s, by_component=dict(live)))
    return found


class _Owner(TypedDict):
    component: str | None
    stack: str | None
    layer: int | None


def _awaited(program: Program, action: Action) -> _Owner:
    """Whose copies compute waits for before, or because of, ``action``."""
    op, argument = action
    if op in (Op.RUN, Op.H2D, Op.H2D_BLOCKING):
        return _owner(program, argument)
    if op == Op.DRAIN:
        stack = program.stacks[argument]
        return _Owner(component=program.components[stack.component], stack=stack.name, layer=None)
    moved = program.components[argument] if op in (Op.UP, Op.DOWN, Op.END_USE) else None
    return _Owner(component=moved, stack=None, layer=None)


def _owner(program: Program, slot: int) -> _Owner:
    if slot < 0:
        moved = None if slot == -1 else program.components[-2 - slot]
        return _Owner(component=moved, stack=None, layer=None)
    stack = program.stacks[program.stack_of_slot[slot]]
    return _Owner(component=program.components[stack.component], stack=stack.name, layer=slot - stack.first_slot)
