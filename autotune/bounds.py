"""Proven lower limits on time: no schedule on one copy engine and one compute engine beats them under a given plan.

Why they hold:

- One compute engine: layers run one after another, so no interval is shorter than the compute inside it.
- One copy engine: copies run one after another, so no interval is shorter than the copies that start and end inside it.
- A streamed layer is released after it ran, so each of its runs needs a copy of its own. In a steady state the device
  looks the same after every period of passes, so each period starts and ends one copy per streamed layer and pass:
  a steady pass takes at least the larger of its compute and its copies. (The first passes of a use can be faster: the
  head was copied before.)
- In a use, a run of a layer that was not on the device, or on its way, when the use began needs a copy that is queued
  in the use. No copy starts before the compute that was queued earlier is done, so it starts inside the use; the layer
  runs after it has landed, so it ends inside the use, too.
- A whole component moves while nothing computes, so such moves add to both sums; so do copies from pageable memory.
- Copies and compute that slow each other down only add to this: beside each other they take at least as long as
  ``Interference.least_s`` says, whatever else is copied and computed meanwhile.
- One lane of reads: those of a use, of layers that were not on their way when it began, start and end inside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autotune.replay_core import Costs
from runtime.interference import NO_INTERFERENCE, Interference
from runtime.plan import Plan
from runtime.program import Action, Op, Program, RequestProgram, Segment, UseProgram

_TAKES = frozenset({Op.H2D, Op.H2D_BLOCKING, Op.PLACE})


def compute_steady_bound_s(
    compute_s: Iterable[float],
    copy_s_of_streamed: Iterable[float],
    interference: Interference = NO_INTERFERENCE,
) -> float:
    """The least that one steady pass takes.

    Args:
        compute_s: of every layer of the pass; of all its stacks, where several run one after another, and of the work
            between them.
        copy_s_of_streamed: of every layer of the pass that the plan streams.
        interference: of the device.
    """
    return interference.least_s(sum(compute_s), sum(copy_s_of_streamed))


def compute_use_bounds_s(program: Program, plan: Plan, costs: Costs) -> tuple[float, ...]:
    """The least that each use of a later request takes, in the order of its uses.

    Args:
        program: of ``plan``, under any engine; it says how often each layer runs and what is live when a use begins.
        plan: decides how many copies those runs need.
        costs: of the program's actions.
    """
    live: set[int] = set()
    _follow(program.load.actions, live)
    _follow_request(program.first, live)
    bounds = []
    for use in program.later.uses:
        bounds.append(_bound_use_s(program, plan, costs, use, live))
        _follow_use(use, live)
    return tuple(bounds)


def compute_request_bound_s(program: Program, plan: Plan, costs: Costs) -> float:
    """The least that a later request takes: its uses, and whole components moved between them."""
    moves = [action for use in program.later.uses[:-1] for action in use.after.actions]
    return sum(compute_use_bounds_s(program, plan, costs)) + _move_s(moves, costs)


def _bound_use_s(program: Program, plan: Plan, costs: Costs, use: UseProgram, live: set[int]) -> float:
    compute_s = moved_s = 0.0
    runs: Counter[int] = Counter()
    for segment in use.segments:
        compute_s += segment.repeat * _compute_s(segment, costs)
        moved_s += segment.repeat * _move_s(segment.actions, costs)
        for op, slot in segment.actions:
            if op == Op.RUN:
                runs[slot] += segment.repeat
    streamed = _streamed_slots(program, plan, use.component)
    copy_s = read_s = sync_s = 0.0
    for slot, count in runs.items():
        copies = (count if slot in streamed else 1) - (slot in live)
        copy_s += copies * costs.copy_s[slot]
        if costs.tiers is not None:
            read_s += copies * min(costs.tiers.read_s[slot], costs.tiers.first_read_s[slot])
            sync_s += copies * costs.tiers.sync_s[slot]
    return max(costs.interference.least_s(compute_s, copy_s) + sync_s, read_s) + moved_s


def _compute_s(segment: Segment, costs: Costs) -> float:
    run_s = sum(costs.compute_s[slot] for op, slot in segment.actions if op == Op.RUN)
    return run_s + sum(costs.work_s[work] for op, work in segment.actions if op == Op.WORK)


def _move_s(actions: Iterable[Action], costs: Costs) -> float:
    """Seconds of the moves of whole components among ``actions``."""
    total_s = 0.0
    for op, component in actions:
        if op in (Op.UP, Op.DOWN):
            total_s += (costs.up_s if op == Op.UP else costs.down_s)[component]
    return total_s


def _streamed_slots(program: Program, plan: Plan, component: int) -> set[int]:
    """Slots of the layers of ``component`` that need a copy for every run."""
    placement = plan.placement(program.components[component])
    return {
        stack.first_slot + layer
        for stack in program.stacks
        if stack.component == component
        for layer in placement.streamed_layers(stack.layer_count)
    }


def _follow_request(request: RequestProgram, live: set[int]) -> None:
    for use in request.uses:
        _follow_use(use, live)
    _follow(request.ending.actions, live)


def _follow_use(use: UseProgram, live: set[int]) -> None:
    """Once per segment is enough: a repeated pass leaves live what it found live."""
    for segment in (*use.segments, use.after):
        _follow(segment.actions, live)


def _follow(actions: Iterable[Action], live: set[int]) -> None:
    for op, slot in actions:
        if op in _TAKES:
            live.add(slot)
        elif op == Op.RELEASE:
            live.discard(slot)
