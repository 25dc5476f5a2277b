"""Predicts one given plan and puts it beside everything streamed."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.evaluate import Evaluator
from autotune.fidelity.spread import derive_spreads
from autotune.profile import Profile
from autotune.workflows.basis import describe_basis
from autotune.workflows.document import build_prediction, describe_workload, host_findings, list_assumptions
from autotune.workflows.planning import PlanningSettings, choose_uncertainty
from autotune.workflows.ranks import describe_ranks
from autotune.workflows.target import Target
from autotune.workflows.variant_choice import variant_findings
from reports.differences import describe_difference
from runtime.plan import Plan
from runtime.prediction import Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """One plan's prediction, with what it was made for.

    Attributes:
        variant: in which of its catalog's other ways the model runs; empty for as released.
        tp_size: cards that answer a request together; every figure is of one of them.
        fits: whether the peak stays within the cap and the host has memory for the copies.
        streamed_latency_s: a later request with everything streamed, for comparison.
        streamed_difference_s: by how much everything streamed is slower.
        streamed_difference_sd_s: standard deviation of that.
        beside: which of the two is faster, in words; nothing where they are one plan.
        warnings: what makes the figures too good.
        notes: what several ranks hold together; which measurements the figures rest on, or how to have some.
    """

    engine: str
    workload: dict[str, int | str]
    device: str
    host: str
    cap: str
    placements: dict[str, str]
    prediction: Prediction
    fits: bool
    streamed_latency_s: float
    streamed_difference_s: float
    streamed_difference_sd_s: float
    beside: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
    variant: str = ""
    tp_size: int = 1


def simulate_plan(
    evaluator: Evaluator, plan: Plan, streamed: Plan, target: Target, profile: Profile, settings: PlanningSettings
) -> Simulation:
    """Evaluate ``plan``; a plan that does not fit is an outcome, not an error."""
    evaluation = evaluator.evaluate(plan)
    spreads = derive_spreads(evaluator, choose_uncertainty(profile.facts, target), (plan, streamed))
    slower = spreads.difference(streamed, plan)
    beside = describe_difference("everything streamed", "this plan", slower.difference_s, slower.spread.sd)
    return Simulation(
        engine=settings.engine,
        workload=describe_workload(profile),
        device=target.device.origin,
        host=target.host.origin,
        cap=target.cap.reason,
        placements={placement.component: placement.describe() for placement in plan.placements},
        prediction=build_prediction(
            evaluation,
            evaluator,
            describe_basis(profile.facts, target.device),
            spreads=spreads,
            peak_quantile=settings.peak_quantile,
        ),
        fits=evaluation.fits(target.cap.effective_bytes),
        streamed_latency_s=evaluator.score(streamed).latency_s,
        streamed_difference_s=slower.difference_s,
        streamed_difference_sd_s=slower.spread.sd,
        beside=(beside,) if plan.placements != streamed.placements else (),
        warnings=(*host_findings(evaluation, target), *variant_findings(profile.facts, target)),
        notes=(*describe_ranks(evaluation, target), *target.notes),
        assumptions=list_assumptions(profile, target, settings),
        variant=profile.facts.variant,
        tp_size=profile.facts.tp_size,
    )
