"""Switches outside the search, each with what it would give on this card, cap and host.

Both sides of a comparison are the fastest of the same coarse choice of plans. What is not modelled gets no figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from autotune.catalog.entry import CatalogEntry
from autotune.evaluate import Evaluation, Score
from autotune.export.recipe import recipe_flags
from autotune.model_facts import ModelFacts
from autotune.workflows.host import change_host
from autotune.workflows.planning import PlanningSettings
from autotune.workflows.target import Target
from autotune.workflows.variant_choice import find_fast_score, runs_on
from autotune.workflows.what_ifs import HALF_STEPS, ask_for_machine
from autotune.workload import Recipe, Workload
from runtime.errors import AutotuneError, InputError
from runtime.plan_document import Advice, WhatIf

# Half of fewer steps than this is below what any undistilled model of the catalog is run with.
_LEAST_STEPS_TO_HALVE = 16

UNMODELLED = (
    Advice(
        switch="caching of steps (SGLANG_CACHE_DIT_ENABLED)",
        same_output=False,
        note="cache-dit skips blocks of steps that change little",
    ),
    Advice(
        switch="--enable-torch-compile", same_output=False, note="torch.compile; fused kernels round in another way"
    ),
    Advice(
        switch="--num-gpus",
        same_output=False,
        note="sequence or guidance parallel over several cards (--tp-size plans for tensor parallel); sums round in "
        "another order",
    ),
)
"""What may help and is not modelled: named, without a figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Where the facts of other requests and variants of the planned model come from.

    Attributes:
        entry: of the model.
        load: facts under a workload, of a variant or (None) of the model as released.
    """

    entry: CatalogEntry
    load: Callable[[Workload, str | None], ModelFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceFound:
    """Switches, and changes of the machine and of the steps."""

    advice: tuple[Advice, ...]
    what_ifs: tuple[WhatIf, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Switch:
    """One switch that can be tried: the advice it gives without its figures, and what changes with it."""

    advice: Advice
    facts: Callable[[], ModelFacts]
    target: Target


def find_advice(
    chosen: Evaluation,
    facts: ModelFacts,
    target: Target,
    settings: PlanningSettings,
    *,
    catalog: Catalog | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> AdviceFound:
    """What would change the answer besides placement, the same output first, then by what it saves.

    Args:
        chosen: the plan that the search chose.
        facts: what it was made for.
        target: device, cap and host.
        settings: how it was searched; what is fixed stays fixed.
        catalog: None where the model is no catalog model; nothing is then said about other requests and variants.
        notify: told each switch that is tried.
    """
    notify("looking what other switches would give")
    now = find_fast_score(facts, target, settings)
    if now is None:
        return AdviceFound(advice=UNMODELLED, what_ifs=())
    tried = []
    for switch in _list_switches(facts, target, catalog):
        notify(f"looking what {switch.advice.switch} would give")
        then = _try(switch, settings)
        if then is not None and then.latency_s <= now.latency_s:
            tried.append(
                replace(switch.advice, now_s=now.latency_s, then_s=then.latency_s, charged_bytes=then.charged_bytes)
            )
    tried.sort(key=lambda advice: (not advice.same_output, advice.then_s or 0.0))
    halved = (item for item in tried if item.note == HALF_STEPS)
    fewer_steps = (WhatIf(change=HALF_STEPS, now_s=now.latency_s, then_s=item.then_s or 0.0) for item in halved)
    return AdviceFound(
        advice=(*tried, *UNMODELLED),
        what_ifs=(*ask_for_machine(chosen, facts, target, settings, now), *fewer_steps),
    )


def _try(switch: _Switch, settings: PlanningSettings) -> Score | None:
    """The fastest plan with ``switch``; None when there is none, or when the server refuses the switch here."""
    try:
        return find_fast_score(switch.facts(), switch.target, settings)
    except AutotuneError:
        return None


def _list_switches(facts: ModelFacts, target: Target, catalog: Catalog | None) -> Iterator[_Switch]:
    if not target.host.pins:
        yield _Switch(
            advice=Advice(
                switch="--pin-cpu-memory",
                same_output=True,
                flags=("--pin-cpu-memory", "true"),
                note="copies from pinned memory are faster and overlap with compute",
            ),
            facts=lambda: facts,
            target=replace(target, host=change_host(target.host, pins=True)),
        )
    if catalog is None:
        return
    yield from _list_variants(facts, target, catalog)
    yield from _list_requests(facts, target, catalog)


def _list_variants(facts: ModelFacts, target: Target, catalog: Catalog) -> Iterator[_Switch]:
    for variant in catalog.entry.variants:
        if variant.name == facts.variant or not runs_on(variant, target):
            continue
        needs = "; needs another checkpoint" if variant.needs_checkpoint else ""
        yield _Switch(
            advice=Advice(
                switch=f"--variant {variant.name}",
                same_output=variant.same_output,
                flags=variant.flags,
                note=f"{variant.title}{needs}",
            ),
            facts=lambda name=variant.name: catalog.load(facts.workload, name),  # type: ignore[misc]
            target=target,
        )


def _list_requests(facts: ModelFacts, target: Target, catalog: Catalog) -> Iterator[_Switch]:
    """Other requests: the fast recipe, fewer steps, a smaller canvas."""
    workload, variant = facts.workload, facts.variant or None

    def switch(text: str, note: str, wish: Workload, flags: tuple[str, ...] = ()) -> _Switch:
        # Not the same output, not even for the recipe: the server calls its default lossless, but batched products
        # round in another way.
        advice = Advice(switch=text, same_output=False, flags=flags, note=note)
        return _Switch(advice=advice, facts=lambda: catalog.load(wish, variant), target=target)

    if workload.recipe is not Recipe.DEFAULT and _has_fewer_passes(facts, catalog):
        yield switch(
            f"--recipe {Recipe.DEFAULT}",
            "the server's default quality, which it calls lossless: fewer passes",
            replace(workload, recipe=Recipe.DEFAULT),
            _changed_flags(facts),
        )
    if workload.steps >= _LEAST_STEPS_TO_HALVE:
        steps = workload.steps // 2
        yield switch(f"--steps {steps}", HALF_STEPS, replace(workload, steps=steps))
    width, height = catalog.entry.smaller_canvas
    if width * height < workload.width * workload.height:
        smaller = replace(workload, width=width, height=height)
        yield switch(f"--width {width} --height {height}", "a smaller canvas", smaller)


def _has_fewer_passes(facts: ModelFacts, catalog: Catalog) -> bool:
    """Whether the default recipe traverses the model in other passes than that of ``facts``."""
    try:
        other = catalog.load(replace(facts.workload, recipe=Recipe.DEFAULT), facts.variant or None)
    except InputError:
        return False
    return other.request != facts.request


def _changed_flags(facts: ModelFacts) -> tuple[str, ...]:
    """Options, each with one value, that the default recipe gives another value."""
    name = facts.model.name
    before, after = (recipe_flags(name, recipe).flags for recipe in (facts.workload.recipe, Recipe.DEFAULT))
    kept = set(zip(before[::2], before[1::2], strict=True))
    pairs = (pair for pair in zip(after[::2], after[1::2], strict=True) if pair not in kept)
    return tuple(token for pair in pairs for token in pair)
