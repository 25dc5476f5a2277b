"""From a target and facts to a decision: the exact optimum, what it is compared with, and what would change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autotune.cost_model import CostModel
from autotune.evaluate import Evaluation, Evaluator, Score
from autotune.exact import DEFAULT_TIE_RATIO, CurvePoint, ExactSolution, ExactSolver
from autotune.host_reads import count_disk_bytes
from autotune.memory_model import DEFAULT_RESERVE_BYTES, MemoryModel, MemorySettings
from autotune.model_facts import ModelFacts
from autotune.server_default import PerformanceMode, choose_default
from autotune.space import SearchSpace
from autotune.study import StudySettings, run_study
from autotune.study_records import StudyResult
from autotune.study_sampler import make_sampler
from autotune.study_space import StudySpace
from autotune.workflows.target import Target
from autotune.workload import Workload
from runtime.engines.registry import DEFAULT_ENGINE, find_engine
from runtime.errors import UnsupportedError
from runtime.plan import Placement, Plan
from runtime.plan_document import Advice, TuningGain, WhatIf
from runtime.residency import Lifetime, Mode, Policy
from runtime.units import GIB

Notify = Callable[[str], None]

# The spread that public repeats of one configuration show: 269.5 and 273.8 s (PM045), 19.95 and 19.97 s (PM100). A
# predicted gain below it could not be told from no gain.
UNCERTAINTY_RATIO = 0.02

_MORE_VRAM_BYTES = 2 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningSettings:
    """How to search.

    Attributes:
        engine: whose behaviour is simulated.
        space: what is searched.
        tie_ratio: plans this close to the optimum count as equally fast.
        reserve_bytes: device memory kept free on purpose.
        study: the Optuna sweep; None for none.
    """

    engine: str = DEFAULT_ENGINE
    space: SearchSpace = field(default_factory=SearchSpace)
    tie_ratio: float = DEFAULT_TIE_RATIO
    reserve_bytes: int = DEFAULT_RESERVE_BYTES
    study: StudySettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingFits:
    """The answer when no plan stays within the cap: the one that comes nearest, and what it needs."""

    cap_bytes: int
    nearest: Evaluation

    @property
    def short_bytes(self) -> int:
        """Device memory that is missing; 0 when only the host has too little."""
        return max(0, self.nearest.peak.charged_bytes - self.cap_bytes)

    @property
    def host_short_bytes(self) -> int:
        """Host memory that is missing."""
        return self.nearest.hosting.short_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The answer when something fits.

    Attributes:
        solution: optimum and chosen plan.
        chosen: the chosen plan, in full.
        streamed: the plan of ``streamed_plan``, with which the others are compared.
        server_default: what the server chooses by itself; None when that is not known.
        unresident: the chosen plan without residents in the components that read from disk; None when none does.
        resident_s: compute alone, the bound that everything resident would reach.
        resident_bytes: what everything resident would be charged.
        curve: the trade-off between latency and VRAM.
        what_ifs, tuning_gains: what would change the answer, and where tuning would pay.
        study: the Optuna sweep, if one was asked for.
        advice: switches outside the search, if they were asked for.
    """

    solution: ExactSolution
    chosen: Evaluation
    streamed: Evaluation
    server_default: Evaluation | None
    unresident: Evaluation | None
    resident_s: float
    resident_bytes: int
    curve: tuple[CurvePoint, ...]
    what_ifs: tuple[WhatIf, ...]
    tuning_gains: tuple[TuningGain, ...]
    study: StudyResult | None
    advice: tuple[Advice, ...] = ()

    @property
    def gain_ratio(self) -> float:
        """Share of the streamed plan's latency that the optimum saves."""
        return 1 - self.solution.optimum_score.latency_s / self.streamed.latency_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another setting in which to ask whether tuning pays: what it is, and the facts under it."""

    setting: str
    facts: Callable[[], ModelFacts]


def build_evaluator(facts: ModelFacts, target: Target, settings: PlanningSettings) -> Evaluator:
    """What predicts plans of ``facts`` on ``target``.

    Raises:
        UnsupportedError: several ranks under an engine that runs on one card.
    """
    if facts.tp_size > 1 and not settings.engine.startswith("sglang@"):
        raise UnsupportedError(
            f"--tp-size {facts.tp_size}: the engine {settings.engine} runs on one card; plan for a server, e.g. "
            f"--engine {DEFAULT_ENGINE}, or leave out --tp-size"
        )
    memory = MemorySettings(context_bytes=target.context_bytes, reserve_bytes=settings.reserve_bytes)
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
    resident = evaluator.score(resident_plan(facts, settings.engine))
    default = server_default_plan(facts, target, settings)
    planned = Planned(
        solution=solution,
        chosen=evaluator.evaluate(solution.chosen),
        streamed=evaluator.evaluate(streamed_plan(facts, settings.engine)),
        server_default=evaluator.evaluate(default) if default is not None else None,
        unresident=_evaluate_unresident(evaluator, solution.chosen),
        resident_s=resident.latency_s,
        resident_bytes=resident.charged_bytes,
        curve=solver.trade_off(),
        what_ifs=_ask_what_if(solver, target, settings, solution.optimum_score),
        tuning_gains=(),
        study=study,
    )
    if planned.gain_ratio >= UNCERTAINTY_RATIO or not alternatives:
        return planned
    return replace(planned, tuning_gains=_ask_where_tuning_pays(target, settings, alternatives, notify))


def _evaluate_unresident(evaluator: Evaluator, plan: Plan) -> Evaluation | None:
    """``plan`` without the residents of components that read from disk, which shows what they save."""
    reads = count_disk_bytes(evaluator, plan)
    placements = tuple(
        replace(placement, resident=0, policy=Policy.LEADING, lifetime=Lifetime.FORWARD)
        if reads[placement.component] and placement.resident
        else placement
        for placement in plan.placements
    )
    return evaluator.evaluate(replace(plan, placements=placements)) if placements != plan.placements else None


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


def _ask_what_if(solver: ExactSolver, target: Target, settings: PlanningSettings, now: Score) -> tuple[WhatIf, ...]:
    more = solver.solve(target.cap.effective_bytes + _MORE_VRAM_BYTES, settings.tie_ratio)
    found = []
    if more is not None:
        found.append(WhatIf(change="2 GiB more VRAM", now_s=now.latency_s, then_s=more.optimum_score.latency_s))
    return tuple(found)


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
        streamed = evaluator.score(streamed_plan(facts, settings.engine))
        gains.append(
            TuningGain(
                setting=alternative.setting,
                streamed_s=streamed.latency_s,
                best_s=solution.optimum_score.latency_s,
            )
        )
    return tuple(gains)


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
