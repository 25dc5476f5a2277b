"""Plans that differ from a given one in one or two settings."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from autotune.space import SearchSpace
from runtime.model_spec import ComponentSpec, ModelSpec
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy

_STRIDES = (1, 2, 4, 8, 16)

# Drawing again this often finds an untried neighbour unless nearly all of them have been tried.
_DRAWS = 64


def draw_neighbour(
    model: ModelSpec, space: SearchSpace, plan: Plan, rng: random.Random, is_known: Callable[[Plan], bool]
) -> Plan | None:
    """A folded plan of ``space`` near ``plan`` that is not known yet; None when none is found."""
    for _ in range(_DRAWS):
        candidate = plan
        for _ in range(rng.choice((1, 2))):
            candidate = _change_one(model, space, candidate, rng)
        if not is_known(candidate):
            return candidate
    return None


def _change_one(model: ModelSpec, space: SearchSpace, plan: Plan, rng: random.Random) -> Plan:
    component = rng.choice(model.components)
    changed = space.settle(_change(plan.placement(component.name), component, space, rng), component)
    return plan.with_placement(changed)


def _change(placement: Placement, component: ComponentSpec, space: SearchSpace, rng: random.Random) -> Placement:
    longest = component.max_layers
    modes = space.modes_of(component)
    if placement.mode is not Mode.LAYERWISE_OFFLOAD:
        return Placement(component=component.name, mode=rng.choice(modes))
    match rng.choice(("resident", "resident", "resident", "prefetch", "policy", "lifetime", "mode")):
        case "resident":
            moved = placement.resident + rng.choice((-1, 1)) * rng.choice(_STRIDES)
            return replace(placement, resident=min(max(moved, 0), longest))
        case "prefetch":
            moved = placement.prefetch + rng.choice((-1, 1))
            return replace(placement, prefetch=min(max(moved, 1), longest, space.max_prefetch))
        case "policy":
            return replace(placement, policy=rng.choice(list(Policy)))
        case "lifetime":
            return replace(placement, lifetime=rng.choice(list(Lifetime)))
        case _:
            return Placement(component=component.name, mode=rng.choice(modes))
