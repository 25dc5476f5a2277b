"""Other requests in which to ask whether tuning pays. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autotune.model_facts import ModelFacts
from autotune.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another setting in which to ask whether tuning pays: what it is, and the facts under it."""

    setting: str
    facts: Callable[[], ModelFacts]


def list_alternatives(
    workload: Workload, smaller: tuple[int, int] | None, load: Callable[[Workload], ModelFacts]
) -> tuple[Alternative, ...]:
    """Settings in which copies weigh more: a smaller canvas, fewer steps, both."""
    few_steps = 8
    wishes: list[tuple[str, Workload]] = []
    if smaller is not None and (workload.width, workload.height) != smaller:
        canvas = replace(workload, width=smaller[0], height=smaller[1])
        wishes.append((f"{smaller[0]}x{smaller[1]}", canvas))
        if workload.steps > few_steps:
            wishes.append((f"{smaller[0]}x{smaller[1]} in {few_steps} steps", replace(canvas, steps=few_steps)))
    if workload.steps > few_steps:
        wishes.append((f"{few_steps} steps", replace(workload, steps=few_steps)))
    return tuple(
        Alternative(setting=setting, facts=lambda wish=wish: load(wish))  # type: ignore[misc]
        for setting, wish in wishes
    )
