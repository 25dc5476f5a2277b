"""Puts a server's command beside the server's own choice and the best plan under the same cap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.evaluate import Evaluation
from autotune.export.server_command import ServerCommand, explain_unknown
from autotune.fidelity.spread import Difference, derive_spreads
from autotune.model_facts import ModelFacts
from autotune.profile import Profile
from autotune.server_default import choose_default
from autotune.workflows.command_plan import CommandPlan, plan_command
from autotune.workflows.planned import NothingFits
from autotune.workflows.planning import (
    PlanningSettings,
    build_evaluator,
    choose_uncertainty,
    make_plan,
    streamed_plan,
)
from autotune.workflows.simulation import Simulation, simulate_plan
from autotune.workflows.target import Target
from reports.command import ComparedPlan
from runtime.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReport:
    """What a command costs, and what else could be had.

    Attributes:
        model_path, performance_mode: as the command says.
        chosen_by_server: components whose placement it leaves to the server.
        unknown: what the server of the simulated version does not know, one sentence each.
        notes: what the prediction does not follow, and what the server would ignore.
        ignored: options that the prediction does not depend on.
        simulation: the prediction.
        plans: the command's plan, the server's own choice where it is known, and the best plan if any fits.
    """

    model_path: str
    performance_mode: str
    chosen_by_server: tuple[str, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    ignored: tuple[str, ...]
    simulation: Simulation
    plans: tuple[ComparedPlan, ...]


def plan_on_target(command: ServerCommand, facts: ModelFacts, target: Target) -> CommandPlan:
    """The plan that ``command`` gives on ``target``.

    Raises:
        FlagError, UnsupportedError: as ``plan_command``.
    """
    return plan_command(
        command, facts, device_total_bytes=target.device.memory_bytes, device_free_bytes=target.free_bytes
    )


def report_command(
    command: ServerCommand,
    planned: CommandPlan,
    profile: Profile,
    target: Target,
    settings: PlanningSettings,
    *,
    notify: Callable[[str], None] = lambda _: None,
) -> CommandReport:
    """Predict ``planned``, the plan of ``command``, and what it is compared with."""
    facts = profile.facts
    evaluator = build_evaluator(facts, target, settings)
    simulation = simulate_plan(
        evaluator, planned.plan, streamed_plan(facts, settings.engine), target, profile, settings
    )
    found = [("this command", "what the command gives", evaluator.evaluate(planned.plan))]
    default = _choose_default(command, facts, target)
    if default is not None:
        meaning = (
            f"what the server chooses in performance mode {command.performance_mode} when no option places anything"
        )
        found.append(("server default", meaning, evaluator.evaluate(default)))
    best = _find_best(facts, target, settings, notify)
    if best is not None:
        found.append(("best plan", "the fastest plan under the same cap", best))
    plans = [evaluation.plan for _, _, evaluation in found]
    spreads = derive_spreads(evaluator, choose_uncertainty(facts, target), plans)
    compared = tuple(
        _compare(name, meaning, evaluation, target, spreads.difference(evaluation.plan, plans[0]) if index else None)
        for index, (name, meaning, evaluation) in enumerate(found)
    )
    notes = planned.notes
    if best is None:
        notes = (*notes, "no plan at all fits under the cap; autotune search says what is missing")
    return CommandReport(
        model_path=command.model_path,
        performance_mode=command.performance_mode,
        chosen_by_server=planned.chosen_by_server,
        unknown=tuple(explain_unknown(command)),
        notes=notes,
        ignored=command.ignored,
        simulation=simulation,
        plans=compared,
    )


def _choose_default(command: ServerCommand, facts: ModelFacts, target: Target) -> Plan | None:
    if facts.model.deployment is None:
        return None
    return choose_default(
        facts.model,
        device_total_bytes=target.device.memory_bytes,
        device_free_bytes=target.free_bytes,
        performance_mode=command.performance_mode,
    )


def _find_best(
    facts: ModelFacts,
    target: Target,
    settings: PlanningSettings,
    notify: Callable[[str], None],
) -> Evaluation | None:
    answer = make_plan(facts, target, settings, notify=notify)
    return None if isinstance(answer, NothingFits) else answer.chosen


def _compare(
    name: str, meaning: str, evaluation: Evaluation, target: Target, difference: Difference | None
) -> ComparedPlan:
    charged_bytes = evaluation.peak.charged_bytes
    return ComparedPlan(
        name=name,
        meaning=meaning,
        latency_s=evaluation.latency_s,
        charged_bytes=charged_bytes,
        host_bytes=sum(evaluation.host_bytes.values()),
        fits=evaluation.fits(target.cap.effective_bytes),
        placements={item.component: item.describe() for item in evaluation.plan.placements},
        difference_s=difference.difference_s if difference is not None else None,
        difference_sd_s=difference.spread.sd if difference is not None else None,
    )
