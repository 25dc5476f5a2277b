"""How many forwards of the denoiser an observed step can have made, by what the card's link can carry. Pure.

A step of a request without guidance makes one forward instead of two, and tables seldom say which it was. What streams
is copied in every forward, so that a time in which the link cannot carry that often shows that fewer were made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.fidelity.passes import find_denoisers, forwards_per_step
from autotune.model_facts import ModelFacts
from autotune.observed.observation import Observation, ObservedLatency, Scope
from runtime.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwards:
    """Forwards of the denoiser in one step, and why they are not the model's own; empty where they are."""

    count: int
    why: str = ""


def choose_forwards(
    runs: Sequence[tuple[Observation, Plan]], facts: ModelFacts, link_bytes_per_s: float, stated: int | None
) -> Forwards:
    """The largest number, the model's own at most, that every run of one set-up had the time for; at least one.

    Args:
        runs: of the set-up, with their plans.
        facts: of the model, with its own number of forwards.
        link_bytes_per_s: the most that the link can carry to the card.
        stated: what the runs' source says, which wins; None where it says nothing.
    """
    if stated is not None:
        return Forwards(count=stated)
    own = forwards_per_step(facts)
    needed = {run.name: _needed_bytes_per_s(run, plan, facts) for run, plan in runs}
    fastest = max(needed, key=lambda name: needed[name], default=None)
    if fastest is None or needed[fastest] <= link_bytes_per_s:
        return Forwards(count=own)
    count = max(1, math.floor(own * link_bytes_per_s / needed[fastest]))
    if count == own:
        return Forwards(count=own)
    return Forwards(
        count=count,
        why=f"{count} forward{'s' if count > 1 else ''} a step instead of {own}: {fastest} would else have copied "
        f"{needed[fastest] / 1e9:.0f} GB/s, and the card's link carries {link_bytes_per_s / 1e9:.0f}",
    )


def _needed_bytes_per_s(run: Observation, plan: Plan, facts: ModelFacts) -> float:
    """Bytes per second that the streamed layers of the denoisers need in the shortest time that covers their passes."""
    return max((_count_copied_bytes(latency, plan, facts) / latency.seconds for latency in run.latencies), default=0.0)


def _count_copied_bytes(latency: ObservedLatency, plan: Plan, facts: ModelFacts) -> float:
    names = set(find_denoisers(facts))
    if latency.scope is not Scope.REQUEST:
        names &= set(latency.component.split("+"))
    if latency.scope is Scope.MOVE_DOWN:
        return 0.0
    total = 0.0
    for use in facts.request.uses:
        if use.component not in names:
            continue
        main = max(use.groups, key=lambda group: group.passes)
        component = facts.model.component(use.component)
        placement = plan.placement(use.component)
        layer_bytes = sum(
            component.stack(name).layers[layer].run_bytes
            for name in main.stacks
            for layer in placement.streamed_layers(len(component.stack(name).layers))
        )
        total += layer_bytes * main.passes
    return total / facts.workload.steps if latency.scope is Scope.STEP else total
