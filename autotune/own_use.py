"""Replays single uses of one component, with what others or the component itself copied ahead."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.clock_choice import make_clock
from autotune.cost_model import Cached, Hostings, read_cache
from autotune.evaluate import Evaluator
from autotune.replay_passes import run_segment
from runtime.engines.host_rules import ComponentHosting
from runtime.plan import Placement
from runtime.program import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One component under one placement, with its host copies where they wait; None when all are pinned."""

    component: int
    placement: Placement
    hosting: ComponentHosting | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAhead:
    """What one component queues while the use at ``position`` begins, for its own use at ``wanted_at``."""

    position: int
    wanted_at: int
    block: Block
    option: Option

    @property
    def key(self) -> tuple[int, tuple[int, ...], ComponentHosting | None]:
        """Equal for equal copies at the same place."""
        return self.position, tuple(self.block.moves), self.option.hosting

    def is_part_of(self, other: CopyAhead) -> bool:
        """Whether ``other`` queues the same layers, or more, at the same place and from the same memory."""
        return (
            self.position == other.position
            and self.option.hosting == other.option.hosting
            and set(self.block.moves) <= set(other.block.moves)
        )


def copies_ahead(evaluator: Evaluator, option: Option) -> tuple[CopyAhead, ...]:
    """What the component copies while others are in use in a later request."""
    script = evaluator.lifecycle.script(option.component, option.placement, explicit=True).requests[-1]
    return tuple(
        CopyAhead(
            position=position, wanted_at=min(own for own in script.begin if own > position), block=block, option=option
        )
        for position, block in script.ahead.items()
    )


def replay_use(
    evaluator: Evaluator,
    option: Option,
    position: int,
    *,
    met: CopyAhead | None = None,
    in_flight: CopyAhead | None = None,
    backlog_s: float = 0.0,
) -> tuple[float, float]:
    """Replay the component's own use at ``position`` of a later request.

    Args:
        met: what another component queues at the beginning of this use.
        in_flight: what this component copied ahead for this use, if that is still being copied when the use begins.
        backlog_s: how long the copy engine is still busy with earlier copies when the use begins.

    Returns:
        When the use ends and when the copy engine is free, in seconds from its beginning.
    """
    lifecycle = evaluator.lifecycle
    script = lifecycle.script(option.component, option.placement, explicit=True).requests[-1]
    hostings = _join_hostings(evaluator, option, met.option if met is not None else None)
    clock = make_clock(evaluator.cost_model.costs_of_one(option.component, option.placement, hostings))
    clock.copy_free_s = backlog_s
    if in_flight is not None:
        clock.run(in_flight.block.timed)
    clock.run(script.begin[position].timed)
    if met is not None:
        clock.run(met.block.timed)
    clock.run(lifecycle.mark(position).timed)
    for segment in script.visits[position]:
        run_segment(clock, segment)
    return clock.compute_free_s, clock.engine_free_s


def replay_own_uses(evaluator: Evaluator, option: Option) -> float:
    """Seconds of all own uses of a later request, and of own moves after others, while no other component copies."""
    script = evaluator.lifecycle.script(option.component, option.placement, explicit=True).requests[-1]
    total_s = sum(replay_use(evaluator, option, position)[0] for position in script.begin)
    for block in script.after.values():
        clock = make_clock(evaluator.cost_model.costs_of_one(option.component, option.placement))
        clock.run(block.timed)
        total_s += clock.compute_free_s
    return total_s


def _join_hostings(evaluator: Evaluator, option: Option, other: Option | None) -> Hostings | None:
    """Where the layers of the two components wait; None when all of both are pinned."""
    components = evaluator.lifecycle.model.components
    hostings: list[tuple[ComponentHosting, Cached] | None] = [None] * len(components)
    for part in (option, other):
        if part is not None and part.hosting is not None:
            cached = read_cache(part.hosting, evaluator.search_room_bytes, evaluator.all_view_bytes)
            hostings[part.component] = (part.hosting, cached)
    return tuple(hostings) if any(hosting is not None for hosting in hostings) else None
