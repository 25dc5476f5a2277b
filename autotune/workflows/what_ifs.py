"""What another machine, or half of the steps, would give: both sides by the same coarse search."""

from __future__ import annotations

from dataclasses import replace

from autotune.evaluate import Evaluation, Score
from autotune.model_facts import ModelFacts
from autotune.rates import Rates
from autotune.workflows.host import change_host
from autotune.workflows.planning import PlanningSettings
from autotune.workflows.target import Target
from autotune.workflows.variant_choice import find_fast_score
from runtime.hosting import HostTier
from runtime.plan_document import WhatIf
from runtime.units import GIB

MORE_HOST_BYTES = 16 * GIB
HALF_STEPS = "half the steps"


def ask_for_machine(
    chosen: Evaluation, facts: ModelFacts, target: Target, settings: PlanningSettings, now: Score
) -> tuple[WhatIf, ...]:
    """More host memory, where pins are allowed and do not hold everything; half the link.

    Args:
        chosen: the plan that the search chose.
        facts, target, settings: what it was made for, and how.
        now: the fastest plan as the machine is, by the same search as those of the changed one.
    """
    changed: list[tuple[str, Target]] = []
    unpinned = sum(
        hosting.count(tier) for hosting in chosen.hosting.components for tier in (HostTier.PAGEABLE, HostTier.MAPPED)
    )
    if unpinned and target.host.pins:
        richer = replace(target, host=change_host(target.host, added_bytes=MORE_HOST_BYTES))
        changed.append((f"{MORE_HOST_BYTES // GIB} GiB more host memory", richer))
    slower = replace(target, rates=halve_link(target.rates))
    changed.append(("half the link rate (PCIe x8 where x16 is now)", slower))
    found = ((change, find_fast_score(facts, other, settings)) for change, other in changed)
    return tuple(
        WhatIf(change=change, now_s=now.latency_s, then_s=then.latency_s) for change, then in found if then is not None
    )


def halve_link(rates: Rates) -> Rates:
    """``rates`` with half of the lanes: pageable copies are made in parts and keep their rate below the new link's."""
    link = rates.pinned_bytes_per_s / 2
    return replace(
        rates,
        pinned_bytes_per_s=link,
        d2h_bytes_per_s=rates.d2h_bytes_per_s / 2,
        pageable_bytes_per_s=min(rates.pageable_bytes_per_s, link),
    )
