"""The fastest plan on hosts with less and with more memory, under the cap of one planning run.

Every host is treated alike: the fastest of the same candidates, moved to better neighbours. Candidates are the plans
that the run's own search found, and those of a coarse search (``autotune.workflows.variant_choice``) on a few hosts
that do not pin every layer; the full search on each would take as long as the run itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from autotune.evaluate import Evaluator
from autotune.host_reads import count_disk_bytes
from autotune.model_facts import ModelFacts
from autotune.refine import Climber
from autotune.workflows.host import change_host
from autotune.workflows.planning import PlanningSettings, build_evaluator
from autotune.workflows.target import Target
from autotune.workflows.variant_choice import find_fast_solution
from reports.run_data import HostPoint
from runtime.plan import Plan
from runtime.units import GIB

HOST_SIZES = tuple(size * GIB for size in (32, 48, 64, 96, 128, 192))
"""What desktops and small servers are sold with."""

# A coarse search of MiniMax-H3 takes half a second on one core, all of this together at most 2.4 s. What these hosts
# find is the best between them, too: with one more searched no answer changed for H3, Qwen-Image and FLUX.1-dev.
_SEARCHED_SIZES = frozenset(size * GIB for size in (32, 64, 96, 128))


def find_host_curve(
    facts: ModelFacts,
    target: Target,
    settings: PlanningSettings,
    known: Iterable[Plan],
    notify: Callable[[str], None] = lambda _: None,
) -> tuple[HostPoint, ...]:
    """The fastest plan on each of ``HOST_SIZES`` and on the run's own host, the smallest host first.

    Args:
        facts, target, settings: of the run.
        known: plans that its search found.
        notify: told what is being done.
    """
    notify("looking at hosts with less and with more memory")
    targets = {size: _resize(target, size) for size in sorted({*HOST_SIZES, target.host.memory_bytes})}
    evaluators = {size: build_evaluator(facts, changed, settings) for size, changed in targets.items()}
    candidates = list(known)
    for size, evaluator in evaluators.items():
        if size in _SEARCHED_SIZES and not evaluator.always_pins:
            found = find_fast_solution(facts, targets[size], settings)
            candidates += [found.optimum] if found is not None else []
    placements = [settings.space.placements(component) for component in facts.model.components]
    cap_bytes = target.cap.effective_bytes
    points = []
    for size, evaluator in evaluators.items():
        best = _find_best(evaluator, Climber(evaluator, placements, cap_bytes), candidates, cap_bytes)
        points.append(_describe(evaluator, best, size, is_own=size == target.host.memory_bytes))
    return tuple(points)


def _resize(target: Target, memory_bytes: int) -> Target:
    """``target`` on a host of another size, of which the system and the server keep as much."""
    return replace(target, host=change_host(target.host, added_bytes=memory_bytes - target.host.memory_bytes))


def _find_best(evaluator: Evaluator, climber: Climber, candidates: list[Plan], cap_bytes: int) -> Plan | None:
    fitting = [
        plan
        for plan in candidates
        if evaluator.charged_bytes(plan) <= cap_bytes
        and (evaluator.never_runs_short or not evaluator.hosting_of(plan).short_bytes)
    ]
    if not fitting:
        return None
    start = min(fitting, key=lambda plan: evaluator.score(plan).latency_s)
    return climber.climb(start, lambda score: (score.latency_s,))


def _describe(evaluator: Evaluator, plan: Plan | None, size: int, *, is_own: bool) -> HostPoint:
    score = evaluator.score(plan) if plan is not None else None
    return HostPoint(
        host_bytes=size,
        latency_s=score.latency_s if score is not None else None,
        charged_bytes=score.charged_bytes if score is not None else None,
        disk_read_bytes=sum(count_disk_bytes(evaluator, plan).values()) if plan is not None else 0,
        is_own=is_own,
    )
