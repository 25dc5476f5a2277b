"""Puts a planning run into the plan document: decision, predictions with their parts, and what they rest on."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime

from autotune.bounds import compute_use_bounds_s
from autotune.evaluate import Evaluation, Evaluator
from autotune.fidelity.causes import describe_cause
from autotune.fidelity.peak_margin import derive_peak_spreads
from autotune.fidelity.spread import LatencySpreads
from autotune.host_reads import count_disk_bytes
from autotune.memory_model import ACTIVATION_RESERVED_RATIO, WORKSPACE_BYTES
from autotune.profile import Profile
from autotune.workflows.basis import ESTIMATED, INTERFERENCE_FIGURE, describe_basis
from autotune.workflows.comparisons import list_comparisons
from autotune.workflows.doubt import describe_doubt
from autotune.workflows.findings import list_findings
from autotune.workflows.planned import Planned
from autotune.workflows.planning import PlanningSettings, build_evaluator
from autotune.workflows.ranks import describe_ranks, list_rank_assumptions, warn_of_ranks
from autotune.workflows.target import Target
from autotune.workflows.variant_choice import variant_findings
from runtime.engines.host_rules import ComponentHosting
from runtime.hosting import HostTier, PinBudget, StackHosting
from runtime.model_spec import ComponentSpec, StackSpec
from runtime.plan_document import PlanDocument
from runtime.prediction import HostPrediction, PassPrediction, Prediction, UsePrediction
from runtime.target_summary import DeviceSummary
from runtime.units import format_gib, format_percent

PROGRAM = "layerstream-autotune"

UNKNOWN_INTERFERENCE = "slower compute while copies run (interference): unknown for this device, taken as none"

NOT_MODELLED = (
    UNKNOWN_INTERFERENCE,
    "host-side work between layers, prompt tokenisation, latents, and encoding the output file",
    "reads of mapped weights by other programs, and a drive that slows down under load",
    "loaders of the server that decide one by one whether weights stay mapped: one answer for all is assumed",
    "time to load the checkpoint",
)


def list_not_modelled(device: DeviceSummary) -> tuple[str, ...]:
    """What predictions for ``device`` leave out."""
    knows = INTERFERENCE_FIGURE in device.figures
    return tuple(item for item in NOT_MODELLED if not (knows and item == UNKNOWN_INTERFERENCE))


def program_version() -> str:
    """Name and version of this program."""
    try:
        return f"{PROGRAM} {importlib.metadata.version(PROGRAM)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{PROGRAM} (not installed)"


def build_document(
    planned: Planned,
    profile: Profile,
    target: Target,
    settings: PlanningSettings,
    *,
    command: str,
    created: datetime,
) -> PlanDocument:
    """The plan document of one planning run."""
    evaluator = build_evaluator(profile.facts, target, settings)
    return PlanDocument(
        created=created.isoformat(timespec="seconds"),
        program=program_version(),
        command=command,
        model=profile.facts.model,
        request=profile.facts.request,
        workload=describe_workload(profile),
        device=target.device,
        host=target.host,
        cap=target.cap,
        plan=planned.chosen.plan,
        prediction=build_prediction(
            planned.chosen,
            evaluator,
            describe_basis(profile.facts, target.device),
            spreads=planned.spreads,
            peak_quantile=settings.peak_quantile,
        ),
        findings=(
            *list_findings(planned, evaluator, target),
            *describe_ranks(planned.chosen, target),
            *host_findings(planned.chosen, target),
            *variant_findings(profile.facts, target),
        ),
        comparisons=list_comparisons(planned, target),
        what_ifs=planned.what_ifs,
        tuning_gains=planned.tuning_gains,
        assumptions=list_assumptions(profile, target, settings),
        not_modelled=list_not_modelled(target.device),
        profile_id=profile.digest,
        variant=profile.facts.variant,
        advice=planned.advice,
        tp_size=profile.facts.tp_size,
    )


def describe_workload(profile: Profile) -> dict[str, int | str]:
    """The workload as plain values."""
    return {
        name: value if isinstance(value, int) else str(value) for name, value in asdict(profile.facts.workload).items()
    }


def build_prediction(
    evaluation: Evaluation,
    evaluator: Evaluator,
    source: str = ESTIMATED,
    *,
    spreads: LatencySpreads | None = None,
    peak_quantile: float | None = None,
) -> Prediction:
    """An evaluation by ``evaluator`` as it stands in documents.

    Args:
        evaluation: what was predicted.
        evaluator: what predicted it.
        source: what it rests on.
        spreads: how far latencies may be off, that of the evaluated plan among them; None where nobody asked.
        peak_quantile: what the evaluator keeps free device memory for.
    """
    costs, plan = evaluator.cost_model, evaluation.plan
    bounds_s = compute_use_bounds_s(evaluator.lifecycle.build_program(plan), plan, evaluator.costs_of(plan))
    uses = tuple(
        UsePrediction(
            component=use.component,
            start_s=use.start_s,
            end_s=use.end_s,
            fill_s=use.fill_s,
            compute_s=costs.use_compute_s(index),
            bound_s=bounds_s[index],
            passes=tuple(
                PassPrediction(count=part.count, first_s=part.first_s, steady_s=part.steady_s, total_s=part.total_s)
                for part in use.passes
            ),
        )
        for index, use in enumerate(evaluation.uses)
    )
    prediction = Prediction(
        source=source,
        latency_s=evaluation.latency_s,
        first_latency_s=evaluation.first_latency_s,
        compute_s=costs.compute_s(),
        uses=uses,
        phases=evaluation.phases,
        host_bytes=dict(evaluation.host_bytes),
        hosting=_predict_hosting(evaluation, evaluator),
        disk_read_bytes=sum(count_disk_bytes(evaluator, plan).values()),
        peak_quantile=peak_quantile,
    )
    return prediction if spreads is None else _with_spreads(prediction, evaluation, evaluator, spreads)


def _with_spreads(
    prediction: Prediction, evaluation: Evaluation, evaluator: Evaluator, spreads: LatencySpreads
) -> Prediction:
    """``prediction`` with how far its latency and its peak may be off, and what most of that comes from."""
    uncertainty, latency = spreads.uncertainty, spreads.spread_of(evaluation.plan)
    low_s, high_s = spreads.interval_of(evaluation.plan)
    peaks = derive_peak_spreads(evaluator.cost_model.facts, uncertainty)
    peak = peaks[evaluation.phases.index(evaluation.peak)]
    return replace(
        prediction,
        latency_sd_s=latency.sd,
        latency_low_s=low_s,
        latency_high_s=high_s,
        latency_cause=describe_cause(latency.cause, uncertainty),
        peak_sd_bytes=round(peak.sd),
        peak_cause=describe_cause(peak.cause, uncertainty),
    )


def _predict_hosting(evaluation: Evaluation, evaluator: Evaluator) -> tuple[HostPrediction, ...]:
    """Where the layers of every streamed stack wait."""
    hosting = evaluation.hosting
    components = zip(evaluator.lifecycle.model.components, hosting.components, hosting.budgets, strict=True)
    return tuple(
        HostPrediction(
            component=component.name,
            stack=stack.name,
            layers=len(stack.layers),
            pinned=found.count(HostTier.PINNED),
            pageable=found.count(HostTier.PAGEABLE),
            mapped=found.count(HostTier.MAPPED),
            pinned_bytes=found.pinned_bytes,
            pageable_bytes=found.pageable_bytes + found.mapped_copied_bytes,
            mapped_bytes=found.mapped_bytes,
            spendable_bytes=spendable_bytes,
        )
        for component, hosting, budget in components
        for stack, found, spendable_bytes in _list_budgets(component, hosting, budget)
    )


def _list_budgets(
    component: ComponentSpec, hosting: ComponentHosting, budget: PinBudget
) -> Iterator[tuple[StackSpec, StackHosting, int]]:
    """The stacks of one streamed component, with what could be pinned when each was hosted: larger ones go first."""
    left = budget.spendable_bytes
    spendable = {}
    for stack, found in sorted(
        zip(component.stacks, hosting.stacks, strict=False), key=lambda item: -item[0].run_bytes
    ):
        spendable[stack.name] = left
        left -= found.pinned_bytes
    for stack, found in zip(component.stacks, hosting.stacks, strict=False):
        yield stack, found, max(spendable[stack.name], 0)


def list_assumptions(profile: Profile, target: Target, settings: PlanningSettings) -> tuple[str, ...]:
    """What was assumed, the device and the host first."""
    memory = (
        f"charged against the cap besides live tensors: {format_gib(target.context_bytes)} context, "
        f"{format_gib(WORKSPACE_BYTES)} library workspaces, {format_percent(ACTIVATION_RESERVED_RATIO - 1)} of the "
        "activations for the allocator, and what is kept free"
    )
    return (
        f"device: {target.device.origin}",
        *list_rank_assumptions(target),
        f"host memory: {target.host.origin}; pins are charged at their exact size, as the server registers memory, and "
        "components that are moved whole with the rounding of torch's pinned allocator",
        memory,
        *describe_doubt(profile.facts, target, settings),
        f"engine: {settings.engine}; a request is a later one, after load and the first request",
        *(f"fixed by the user, not searched: {fixed.describe()}" for fixed in settings.space.fixed),
        *profile.facts.notes,
    )


def host_findings(evaluation: Evaluation, target: Target) -> tuple[str, ...]:
    """Warnings about host memory: too little for the plan or for all ranks, and what was found on this machine."""
    short = evaluation.hosting.short_bytes
    found = [*target.host.warnings, *warn_of_ranks(evaluation, target)]
    if short:
        found.append(
            f"The host lacks {format_gib(short)} for this plan: {format_gib(evaluation.hosting.held_bytes)} of copies "
            f"cannot be dropped, {format_gib(target.host_memory.available_bytes)} are there for weights"
            f"{' of each rank' if target.ranks > 1 else ''}. The system would swap or end the server"
        )
    return tuple(found)
