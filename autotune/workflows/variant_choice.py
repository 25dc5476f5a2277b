"""Which way of running a catalog model is the fastest: a search that is coarse enough to ask for several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from autotune.catalog.entry import CatalogEntry
from autotune.catalog.registry import find_model
from autotune.catalog.variants import Variant
from autotune.evaluate import Score
from autotune.exact import ExactSolution, ExactSolver
from autotune.model_facts import ModelFacts
from autotune.space import SearchSpace
from autotune.workflows.planning import PlanningSettings, build_evaluator
from autotune.workflows.target import Target
from runtime.errors import InputError, UnsupportedError
from runtime.model_spec import ComponentSpec
from runtime.plan import Placement
from runtime.residency import Mode
from runtime.units import format_gib, format_seconds

AUTO_VARIANT = "auto"
"""Typed in place of a variant's name: take the fastest one with the same output."""

COARSE_WORDS = "plans with one layer ahead and at most some 26 counts of resident layers"
"""What ``find_fast_solution`` looks at, for people."""

# On MiniMax-H3 with 32 to 96 GB of host memory under 12 to 24 GiB these come within 2.5 % of all counts, most within
# 0.2 %, in less than half of the time.
_RESIDENT_COUNTS = 26


def find_fast_score(facts: ModelFacts, target: Target, settings: PlanningSettings) -> Score | None:
    """What the plan of ``find_fast_solution`` takes; compare its answers with one another only."""
    solution = find_fast_solution(facts, target, settings)
    return solution.optimum_score if solution is not None else None


def find_fast_solution(facts: ModelFacts, target: Target, settings: PlanningSettings) -> ExactSolution | None:
    """The fastest of a coarse choice of plans; None when none fits, or when the model is too large to ask.

    Coarse means: one layer ahead, and in a long stack not every count of resident layers.
    """
    space, cap_bytes = replace(settings.space, max_prefetch=1), target.cap.effective_bytes
    allowed = {component.name: _thin_out(space, component) for component in facts.model.components}
    try:
        solver = ExactSolver(build_evaluator(facts, target, settings), space, allowed, limit_bytes=cap_bytes)
        return solver.solve(cap_bytes, settings.tie_ratio)
    except UnsupportedError:
        return None


def _thin_out(space: SearchSpace, component: ComponentSpec) -> tuple[Placement, ...]:
    rows = space.placements(component)
    counts = sorted({row.resident for row in rows if row.mode is Mode.LAYERWISE_OFFLOAD})
    step = max(1, -(-len(counts) // _RESIDENT_COUNTS))
    kept = {*counts[::step], *counts[-1:]}
    return tuple(row for row in rows if row.mode is not Mode.LAYERWISE_OFFLOAD or row.resident in kept)


def runs_on(variant: Variant, target: Target) -> bool:
    """Whether the card computes in the variant's types, and the cap leaves it the room that loading takes."""
    has_rates = all(dtype in target.rates.matmul_flops_per_s for dtype in variant.dtypes)
    return has_rates and variant.load_device_bytes + target.context_bytes <= target.cap.effective_bytes


def variant_findings(facts: ModelFacts, target: Target) -> tuple[str, ...]:
    """A warning, where loading the variant that was asked for takes more than there is."""
    if not facts.variant:
        return ()
    variant = find_model(facts.model.name).find_variant(facts.variant)
    if variant.load_device_bytes + target.context_bytes <= target.cap.effective_bytes:
        return ()
    return (
        f"Variant {variant.name} cannot be loaded here: the server needs {format_gib(variant.load_device_bytes)} of "
        f"device memory while it loads, and the cap is {format_gib(target.cap.effective_bytes)}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantChoice:
    """Which variant was taken and what the others take.

    Attributes:
        name: of the variant; empty for the model as released.
        latency_s: per candidate, the empty name for the model as released; None where nothing fits.
    """

    name: str
    latency_s: Mapping[str, float | None]

    def describe(self) -> str:
        """The choice in one sentence."""
        if len(self.latency_s) == 1:
            return f"--variant {AUTO_VARIANT}: no other way to run the model has the same output and is possible here"
        others = "; ".join(
            f"{_call(name)} {_describe_time(time_s)}" for name, time_s in self.latency_s.items() if name != self.name
        )
        chosen = _describe_time(self.latency_s[self.name])
        return f"--variant {AUTO_VARIANT} took {_call(self.name)}: {chosen}; {others} ({COARSE_WORDS})"


def _call(name: str) -> str:
    return f"variant {name}" if name else "the model as released"


def _describe_time(time_s: float | None) -> str:
    return "has no plan that fits" if time_s is None else f"takes {format_seconds(time_s)} a request"


def choose_variant(
    entry: CatalogEntry,
    released: ModelFacts,
    target: Target,
    settings: PlanningSettings,
    notify: Callable[[str], None] = lambda _: None,
) -> VariantChoice:
    """The fastest of the model as released and its variants with the same output and no other checkpoint.

    A variant must beat the model as released by more than the tie ratio, since it needs flags of its own.
    """
    candidates = {"": released}
    for variant in entry.variants:
        if variant.same_output and not variant.needs_checkpoint and runs_on(variant, target):
            try:
                candidates[variant.name] = entry.derive_facts(released, variant.name)
            except InputError:  # the server refuses it for this request
                continue
    latency_s: dict[str, float | None] = {}
    for name, facts in candidates.items():
        if len(candidates) > 1:
            notify(f"looking at {_call(name)}")
        score = find_fast_score(facts, target, settings) if len(candidates) > 1 else None
        latency_s[name] = score.latency_s if score is not None else None
    times = {name: time_s for name, time_s in latency_s.items() if time_s is not None}
    best = min(times, key=lambda name: times[name], default="")
    if "" in times and times[""] <= times[best] * (1 + settings.tie_ratio):
        best = ""
    return VariantChoice(name=best, latency_s=latency_s)
