"""From a target and facts to a decision: the exact optimum, what it is compared with, and what would change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator
from autotune.exact import DEFAULT_TIE_RATIO, ExactSolution, ExactSolver
from autotune.fidelity.peak_margin import SAFE_QUANTILE, derive_margins
from autotune.fidelity.prior import derive_uncertainty
from autotune.fidelity.spread import LatencySpreads, derive_spreads
from autotune.host_reads import count_disk_bytes
from autotune.memory_model import DEFAULT_RESERVE_BYTES, MemoryModel, MemorySettings
from autotune.model_facts import ModelFacts
from autotune.server_default import PerformanceMode, choose_default
from autotune.space import SearchSpace
from autotune.study import StudySettings, run_study
from autotune.study_sampler import make_sampler
from autotune.study_space import StudySpace
from autotune.uncertainty import Uncertainty
from autotune.workflows.alternatives import Alternative
from autotune.workflows.planned import NothingFits, Planned
from autotune.workflows.target import Target
from runtime.engines.registry import DEFAULT_ENGINE, find_engine
from runtime.errors import UnsupportedError
from runtime.plan import Placement, Plan
from runtime.plan_document import TuningGain, WhatIf
from runtime.residency import Lifetime, Mode, Policy
from runtime.units import GIB

Notify = Callable[[str], None]

_MORE_VRAM_BYTES = 2 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningSettings:
    """How to search.

    Attributes:
        engine: whose behaviour is simulated.
        space: what is searched.
        tie_ratio: plans this close to the optimum count as equally fast.
        reserve_bytes: the least device memory that is kept free on purpose.
        peak_quantile: share of the cases in which the peak is to stay within what is charged.
        study: the Optuna sweep; None for none.
    """

    engine: str = DEFAULT_ENGINE
    space: SearchSpace = field(default_factory=SearchSpace)
    tie_ratio: float = DEFAULT_TIE_RATIO
    reserve_bytes: int = DEFAULT_RESERVE_BYTES
    peak_quantile: float = SAFE_QUANTILE
    study: StudySettings | None = None


def choose_uncertainty(facts: ModelFacts, target: Target) -> Uncertainty:
    """How far predictions of ``facts`` may be off: from observed runs, or else from where the figures come."""
    return target.uncertainty or derive_uncertainty(facts, target.rates, target.device)


def build_evaluator(facts: ModelFacts, target: Target, settings: PlanningSettings) -> Evaluator:
    """What predicts plans of ``facts`` on ``target``.

    Raises:
        InputError: no quantile to plan with.
        UnsupportedError: several ranks under an engine that runs on one card.
    """
    if facts.tp_size > 1 and not settings.engine.startswith("sglang@"):
        raise UnsupportedError(
            f"--tp-size {facts.tp_size}: the engine {settings.engine} runs on one card; plan for a server, e.g. "
            f"--engine {DEFAULT_ENGINE}, or leave out --tp-size"
        )
    memory = MemorySettings(
        context_bytes=target.context_bytes,
        reserve_bytes=settings.reserve_bytes,
        margin_bytes=derive_margins(facts, choose_uncertainty(facts, target), settings.peak_quantile),
    )
    costs = CostModel(facts, target.rates)
    return Evaluator(costs, MemoryModel(facts, memory), find_engine(settings.engine), target.host_memory)


def server_default_plan(facts: ModelFacts, target: Target, settings: PlanningSettings) -> Plan | None:
    """What the server chooses by itself on ``target``; None when it has no known configuration for the model."""
    if facts.model.deployment is None or not settings.engine.startswith("sglang@"):
        return None
    return choose_default(
        facts.model,
        device_total_bytes=target.device.memory_bytes,
        device_free_bytes=target.free_bytes,
        performance_mode=PerformanceMode.AUTO,
    )


def streamed_plan(facts: ModelFacts, engine: str) -> Plan:
    """Everything with layers streams with the server's default knobs; what it keeps resident by default stays so."""
    placements = []
    for component in facts.model.components:
        streams = component.max_layers > 0 and component.default_mode != Mode.RESIDENT
        mode = Mode.LAYERWISE_OFFLOAD if streams else Mode.RESIDENT
        placements.append(Placement(component=component.name, mode=mode))
    return Plan(engine=engine, placements=tuple(placements))


def resident_plan(facts: ModelFacts, engine: str) -> Plan:
    """Every component resident."""
    placements = (Placement(component=component.name, mode=Mode.RESIDENT) for component in facts.model.components)
    return Plan(engine=engine, placements=tuple(placements))


def make_plan(
    facts: ModelFacts,
    target: Target,
    settings: PlanningSettings,
    *,
    alternatives: tuple[Alternative, ...] = (),
    notify: Notify = lambda _: None,
    study_progress: Callable[[int, int], None] | None = None,
) -> Planned | NothingFits:
    """Search ``facts`` on ``target``.

    ``alternatives`` are looked at only when tuning does not pay for ``facts`` themselves.
    """
    space = StudySpace(facts.model, settings.space, settings.engine)
    if settings.study is not None:
        make_sampler(settings.study.sampler, space, settings.study.seed)  # refuses too large a grid before the work
    evaluator = build_evaluator(facts, target, settings)
    cap = target.cap.effective_bytes
    notify("predicting every placement of every component")
    limit = max(cap, target.device.usable_vram_bytes) + _MORE_VRAM_BYTES
    solver = ExactSolver(evaluator, settings.space, limit_bytes=limit)
    solution = solver.solve(cap, settings.tie_ratio)
    if solution is None:
        return NothingFits(cap_bytes=cap, nearest=evaluator.evaluate(solver.nearest(cap)))
    study = None
    if settings.study is not None:
        notify("running the Optuna study")
        seeds = _seeds(facts, solution, settings)
        study = run_study(space, evaluator.score, cap, settings.study, seeds=seeds, progress=study_progress)
    resident = evaluator.evaluate(resident_plan(facts, settings.engine))
    default = server_default_plan(facts, target, settings)
    streamed = streamed_plan(facts, settings.engine)
    unresident = _drop_disk_residents(evaluator, solution.chosen)
    richer = solver.solve(cap + _MORE_VRAM_BYTES, settings.tie_ratio)
    plans = (
        solution.chosen,
        solution.optimum,
        streamed,
        resident.plan,
        *(plan for plan in (default, unresident) if plan is not None),
        *((richer.optimum,) if richer is not None else ()),
    )
    spreads = derive_spreads(evaluator, choose_uncertainty(facts, target), plans)
    planned = Planned(
        solution=solution,
        chosen=evaluator.evaluate(solution.chosen),
        streamed=evaluator.evaluate(streamed),
        server_default=evaluator.evaluate(default) if default is not None else None,
        unresident=evaluator.evaluate(unresident) if unresident is not None else None,
        resident=resident,
        curve=solver.trade_off(),
        what_ifs=_say_what_if(solution, richer, spreads),
        tuning_gains=(),
        study=study,
        spreads=spreads,
    )
    if not planned.gain.is_tie or not alternatives:
        return planned
    return replace(planned, tuning_gains=_ask_where_tuning_pays(target, settings, alternatives, notify))


def _drop_disk_residents(evaluator: Evaluator, plan: Plan) -> Plan | None:
    """``plan`` without residents in components that read from disk, which shows what they save; None if it has none."""
    reads = count_disk_bytes(evaluator, plan)
    placements = tuple(
        replace(placement, resident=0, policy=Policy.LEADING, lifetime=Lifetime.FORWARD)
        if reads[placement.component] and placement.resident
        else placement
        for placement in plan.placements
    )
    return replace(plan, placements=placements) if placements != plan.placements else None


def _seeds(facts: ModelFacts, solution: ExactSolution, settings: PlanningSettings) -> list[tuple[str, Plan]]:
    """The exact plans, the server's knob defaults, and neighbours of the chosen plan."""
    seeds = [
        ("exact optimum", solution.optimum),
        ("chosen plan", solution.chosen),
        ("everything streamed", streamed_plan(facts, settings.engine)),
    ]
    for placement in solution.chosen.placements:
        component = facts.model.component(placement.component)
        if placement.mode is not Mode.LAYERWISE_OFFLOAD:
            continue
        for resident in (placement.resident - 1, placement.resident + 1):
            if 0 <= resident <= component.max_layers:
                neighbour = replace(placement, resident=resident)
                placements = tuple(
                    neighbour if other.component == placement.component else other
                    for other in solution.chosen.placements
                )
                plan = Plan(engine=settings.engine, placements=placements)
                seeds.append((f"neighbour: {placement.component}.resident={resident}", plan))
    return seeds


def _say_what_if(now: ExactSolution, richer: ExactSolution | None, spreads: LatencySpreads) -> tuple[WhatIf, ...]:
    if richer is None:
        return ()
    return (
        WhatIf(
            change="2 GiB more VRAM",
            now_s=now.optimum_score.latency_s,
            then_s=richer.optimum_score.latency_s,
            difference_sd_s=spreads.difference(now.optimum, richer.optimum).spread.sd,
        ),
    )


def _ask_where_tuning_pays(
    target: Target, settings: PlanningSettings, alternatives: tuple[Alternative, ...], notify: Notify
) -> tuple[TuningGain, ...]:
    gains = []
    # One layer ahead: this is a hint where to look, and the whole range takes eight times as long.
    space = replace(settings.space, max_prefetch=1)
    for alternative in alternatives:
        notify(f"looking whether tuning would pay for {alternative.setting}")
        facts = alternative.facts()
        evaluator = build_evaluator(facts, target, settings)
        solution = ExactSolver(evaluator, space, limit_bytes=target.cap.effective_bytes).solve(
            target.cap.effective_bytes, settings.tie_ratio
        )
        if solution is None:
            continue
        streamed = streamed_plan(facts, settings.engine)
        spreads = derive_spreads(evaluator, choose_uncertainty(facts, target), (streamed, solution.optimum))
        gains.append(
            TuningGain(
                setting=alternative.setting,
                streamed_s=evaluator.score(streamed).latency_s,
                best_s=solution.optimum_score.latency_s,
                difference_sd_s=spreads.difference(streamed, solution.optimum).spread.sd,
            )
        )
    return tuple(gains)
