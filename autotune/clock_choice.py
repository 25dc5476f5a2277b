"""Which clock replays a program."""

from __future__ import annotations

from autotune.interfering_clock import InterferingClock, InterferingTieredClock
from autotune.replay_core import Clock, Costs
from autotune.tiered_clock import TieredClock


def make_clock(costs: Costs, *, fresh: bool = False) -> Clock:
    """The clock that ``costs`` need."""
    if costs.interference.is_none:
        return Clock(costs, fresh=fresh) if costs.tiers is None else TieredClock(costs, costs.tiers, fresh=fresh)
    if costs.tiers is None:
        return InterferingClock(costs, fresh=fresh)
    return InterferingTieredClock(costs, costs.tiers, fresh=fresh)
