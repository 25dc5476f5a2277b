"""Puts a planning run into the plan document: decision, predictions with their parts, and what they rest on."""

from __future__ import annotations

import importlib.metadata
from dataclasses import asdict
from datetime import datetime

from autotune.bounds import compute_use_bounds_s
from autotune.evaluate import Evaluation, Evaluator
from autotune.memory_model import ACTIVATION_RESERVED_RATIO, WORKSPACE_BYTES
from autotune.profile import Profile
from autotune.workflows.findings import list_findings
from autotune.workflows.planning import Planned, PlanningSettings, build_evaluator
from autotune.workflows.target import Target
from runtime.plan import Plan
from runtime.plan_document import (
    Comparison,
    PassPrediction,
    PlanDocument,
    Prediction,
    UsePrediction,
)
from runtime.residency import Mode
from runtime.units import format_gib, format_percent

PROGRAM = "layerstream-autotune"

NOT_MODELLED = (
    "slower compute while copies run (interference): unknown for this device, taken as none",
    "host-side work between layers, prompt tokenisation, latents, and encoding the output file",
    "host memory other than pinned: what the server maps or copies from pageable memory when pins run out",
    "time to load the checkpoint",
)


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
    evaluator = build_evaluator(profile.facts, target.rates, target.context_bytes, settings)
    costs = evaluator.cost_model
    return PlanDocument(
        created=created.isoformat(timespec="seconds"),
        program=program_version(),
        command=command,
        model=profile.facts.model,
        workload=describe_workload(profile),
        device=target.device,
        host=target.host,
        cap=target.cap,
        plan=planned.chosen.plan,
        prediction=build_prediction(planned.chosen, evaluator),
        findings=(*host_findings(planned.chosen, target), *list_findings(planned, costs, target)),
        comparisons=_compare(planned, target),
        what_ifs=planned.what_ifs,
        tuning_gains=planned.tuning_gains,
        assumptions=list_assumptions(profile, target, settings),
        not_modelled=NOT_MODELLED,
        profile_id=profile.digest,
    )


def describe_workload(profile: Profile) -> dict[str, int | str]:
    """The workload as plain values."""
    return {
        name: value if isinstance(value, int) else str(value) for name, value in asdict(profile.facts.workload).items()
    }


def build_prediction(evaluation: Evaluation, evaluator: Evaluator) -> Prediction:
    """An evaluation by ``evaluator`` as it stands in documents."""
    costs, plan = evaluator.cost_model, evaluation.plan
    bounds_s = compute_use_bounds_s(evaluator.lifecycle.build_program(plan), plan, costs.costs_of(plan))
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
        source="estimated: work read from the model's classes, rates from datasheets and public measurements",
        latency_s=evaluation.latency_s,
        first_latency_s=evaluation.first_latency_s,
        compute_s=costs.compute_s(),
        uses=uses,
        phases=evaluation.phases,
        host_bytes=dict(evaluation.host_bytes),
    )


def list_assumptions(profile: Profile, target: Target, settings: PlanningSettings) -> tuple[str, ...]:
    """What was assumed, the device and the host first."""
    memory = (
        f"charged against the cap besides live tensors: {format_gib(target.context_bytes)} context, "
        f"{format_gib(WORKSPACE_BYTES)} library workspaces, {format_percent(ACTIVATION_RESERVED_RATIO - 1)} of the "
        f"activations for the allocator, {format_gib(settings.reserve_bytes)} reserve"
    )
    return (
        f"device: {target.device.origin}",
        f"host memory: {target.host.origin}; host copies are taken as pinned up to it",
        memory,
        f"engine: {settings.engine}; a request is a later one, after load and the first request",
        *profile.facts.notes,
    )


def host_findings(evaluation: Evaluation, target: Target) -> tuple[str, ...]:
    """A warning when the plan's host copies exceed the host memory."""
    needed = sum(evaluation.host_bytes.values())
    if needed <= target.host.memory_bytes:
        return ()
    return (
        f"Host copies need {format_gib(needed)}, more than the {format_gib(target.host.memory_bytes)} of host memory: "
        "the server would then map or copy some layers from pageable memory, which is slower and not modelled yet, so "
        "the predicted times are too good",
    )


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
            fits=peak <= cap,
            placements={item.component: item.describe() for item in evaluation.plan.placements},
        )

    optimum = planned.solution.optimum_score
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
