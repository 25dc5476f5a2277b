"""Puts a planning run into the plan document: decision, predictions with their parts, and what they rest on."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime

from autotune.bounds import compute_use_bounds_s
from autotune.evaluate import Evaluation, Evaluator
from autotune.host_reads import count_disk_bytes
from autotune.memory_model import ACTIVATION_RESERVED_RATIO, WORKSPACE_BYTES
from autotune.profile import Profile
from autotune.workflows.basis import ESTIMATED, INTERFERENCE_FIGURE, describe_basis
from autotune.workflows.findings import list_findings
from autotune.workflows.planning import Planned, PlanningSettings, build_evaluator
from autotune.workflows.ranks import describe_ranks, list_rank_assumptions, warn_of_ranks
from autotune.workflows.target import Target
from autotune.workflows.variant_choice import variant_findings
from runtime.engines.host_rules import ComponentHosting
from runtime.hosting import HostTier, PinBudget, StackHosting
from runtime.model_spec import ComponentSpec, StackSpec
from runtime.plan import Plan
from runtime.plan_document import (
    Comparison,
    DeviceSummary,
    HostPrediction,
    PassPrediction,
    PlanDocument,
    Prediction,
    UsePrediction,
)
from runtime.residency import Mode
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
        prediction=build_prediction(planned.chosen, evaluator, describe_basis(profile.facts, target.device)),
        findings=(
            *list_findings(planned, evaluator, target),
            *describe_ranks(planned.chosen, target),
            *host_findings(planned.chosen, target),
            *variant_findings(profile.facts, target),
        ),
        comparisons=_compare(planned, target),
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


def build_prediction(evaluation: Evaluation, evaluator: Evaluator, source: str = ESTIMATED) -> Prediction:
    """An evaluation by ``evaluator`` as it stands in documents; ``source`` says what it rests on."""
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
    return Prediction(
        source=source,
        latency_s=evaluation.latency_s,
        first_latency_s=evaluation.first_latency_s,
        compute_s=costs.compute_s(),
        uses=uses,
        phases=evaluation.phases,
        host_bytes=dict(evaluation.host_bytes),
        hosting=_predict_hosting(evaluation, evaluator),
        disk_read_bytes=sum(count_disk_bytes(evaluator, plan).values()),
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
        f"activations for the allocator, {format_gib(settings.reserve_bytes)} reserve"
    )
    return (
        f"device: {target.device.origin}",
        *list_rank_assumptions(target),
        f"host memory: {target.host.origin}; pins are charged at their exact size, as the server registers memory, and "
        "components that are moved whole with the rounding of torch's pinned allocator",
        memory,
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


def _describe_default(default: Evaluation, cap_bytes: int) -> str:
    """The server's own choice in words, and whether it would run."""
    modes: dict[str, list[str]] = {}
    for placement in default.plan.placements:
        modes.setdefault(placement.describe(), []).append(placement.component)
    text = "; ".join(f"{', '.join(names)}: {mode}" for mode, names in modes.items())
    if default.peak.charged_bytes > cap_bytes:
        text += f"; out of memory, {format_gib(default.peak.charged_bytes - cap_bytes)} too much"
    elif default.hosting.short_bytes:
        text += f"; the host lacks {format_gib(default.hosting.short_bytes)} for it"
    return f"what the server chooses by itself (performance mode auto): {text}"


def describe_streamed(plan: Plan) -> str:
    """What the streamed plan is, with the components that it keeps."""
    kept = [placement.component for placement in plan.placements if placement.mode is Mode.RESIDENT]
    text = "streamed with the server's default knobs: one layer ahead, none resident"
    return f"{text}; {', '.join(kept)} resident as by default" if kept else text


def _compare(planned: Planned, target: Target) -> tuple[Comparison, ...]:
    cap = target.cap.effective_bytes

    def compare(name: str, meaning: str, evaluation: Evaluation) -> Comparison:
        peak = evaluation.peak.charged_bytes
        return Comparison(
            name=name,
            meaning=meaning,
            latency_s=evaluation.latency_s,
            charged_bytes=peak,
            fits=evaluation.fits(cap),
            placements={item.component: item.describe() for item in evaluation.plan.placements},
        )

    optimum = planned.solution.optimum_score
    default = planned.server_default
    own = () if default is None else (compare("server default", _describe_default(default, cap), default),)
    return (
        compare("plan", "the chosen plan: of the equally fast, least VRAM, then fewest changes", planned.chosen),
        Comparison(
            name="optimum",
            meaning="the fastest plan under the cap, before ties are broken",
            latency_s=optimum.latency_s,
            charged_bytes=optimum.charged_bytes,
            fits=True,
            placements={item.component: item.describe() for item in planned.solution.optimum.placements},
        ),
        *own,
        compare("streamed", describe_streamed(planned.streamed.plan), planned.streamed),
        Comparison(
            name="everything resident",
            meaning="bound: compute alone",
            latency_s=planned.resident_s,
            charged_bytes=planned.resident_bytes,
            fits=planned.resident_bytes <= cap,
            placements=None,
        ),
    )
