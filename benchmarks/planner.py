"""How fast the planner is, and how far Optuna stays behind the exact optimum.

Measured, on whatever machine runs it:

- on two hosts: one on which every layer is pinned, and one of 64 GB, where layers wait in pageable memory or mapped and
  the search is refined instead of proven.
- evaluations per second: distinct random whole-request plans, each put together from its components' host programs and
  replayed in full (latency of a later request) with its peak over the whole life. No result is reused; what is kept
  between plans is the host program and the phase bytes of a component's placement, which do not depend on the others.
  Both processes start cold, with the cycle collector paused as the solver pauses it. One process and two are reported.
- exact solve: building the tables of all placements (prefetch 1 to 8) that stay within the card and 2 GiB more, as a
  search does, from nothing; then solving each cap.
- reference loop: ten million additions in plain Python, before and after everything else. Machines that share their
  cores change speed within minutes; times of two runs compare only as multiples of it.
- Optuna: gap of the best feasible trial to the exact optimum after 100 and 300 trials, cold (median and worst of three
  seeds) and seeded with the exact plan.

Protocol: facts come from the cache and are loaded before the clock starts; wall-clock times by ``perf_counter``; the
last line is one JSON object. Run it on an idle machine: ``make bench``.
"""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from autotune.capture_cache import load_model_facts
from autotune.collector import paused_collector
from autotune.evaluate import Evaluator
from autotune.exact import ExactSolver
from autotune.space import SearchSpace
from autotune.study import StudySettings, run_study
from autotune.study_space import StudySpace
from autotune.workflows.host import HostWish
from autotune.workflows.planning import PlanningSettings, build_evaluator
from autotune.workflows.target import resolve_target
from runtime.engines.registry import DEFAULT_ENGINE
from runtime.plan import Plan
from runtime.units import GIB

DEVICE = "rtx-5090"
MODELS = ("H3", "Qwen-Image")
HOSTS = {"ample": 192 * GIB, "64 GB": 64 * 10**9}
CAPS_GIB = (12, 16, 24, 32)
PLANS = 6_000
SEEDS = (0, 1, 2)


def make_evaluator(model: str, host: str) -> Evaluator:
    """A fresh evaluator: nothing is kept from an earlier one."""
    wish = HostWish(memory_bytes=HOSTS[host])
    target = resolve_target(device=DEVICE, detection=None, vram_cap_bytes=None, host=wish, pinned_bytes_per_s=None)
    return build_evaluator(load_model_facts(model), target, PlanningSettings())


def draw_plans(model: str, count: int, seed: int) -> list[Plan]:
    """Distinct random plans of the whole search space."""
    space, components = SearchSpace(), load_model_facts(model).model.components
    choices = [space.placements(component) for component in components]
    rng = random.Random(seed)
    plans: dict[Plan, None] = {}
    while len(plans) < count:
        plans[Plan(engine=DEFAULT_ENGINE, placements=tuple(rng.choice(options) for options in choices))] = None
    return list(plans)


def score_all(job: tuple[str, str, int, int]) -> float:
    """Seconds to score ``count`` plans of ``model`` on ``host`` from cold."""
    model, host, count, seed = job
    plans, evaluator = draw_plans(model, count, seed), make_evaluator(model, host)
    with paused_collector():
        begin = time.perf_counter()
        for plan in plans:
            evaluator.score(plan)
        return time.perf_counter() - begin


def measure_evaluations(model: str, host: str) -> dict[str, float]:
    """Plans per second in one process, and in two that run at once."""
    one_s = score_all((model, host, PLANS, 0))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        both = list(pool.map(score_all, [(model, host, PLANS, 1), (model, host, PLANS, 2)]))
    return {"one_process_per_s": PLANS / one_s, "two_processes_per_s": 2 * PLANS / max(both)}


def measure_exact(model: str, host: str) -> tuple[ExactSolver, dict[str, float]]:
    """Build and solve; the solver serves the Optuna part too."""
    evaluator = make_evaluator(model, host)
    gc.collect()  # what the part before has left is not this part's
    begin = time.perf_counter()
    solver = ExactSolver(evaluator, SearchSpace(), limit_bytes=(CAPS_GIB[-1] + 2) * GIB)
    built_s = time.perf_counter() - begin
    begin = time.perf_counter()
    for cap in CAPS_GIB:
        solver.solve(cap * GIB)
    return solver, {
        "build_s": built_s,
        "solve_four_caps_s": time.perf_counter() - begin,
        "combinations": len(solver.bound_s),
    }


def measure_optuna(model: str, solver: ExactSolver) -> dict[str, dict[str, float | str | None]]:
    """Gap to the exact optimum, cap by cap."""
    space = StudySpace(load_model_facts(model).model, SearchSpace(), DEFAULT_ENGINE)
    found: dict[str, dict[str, float | str | None]] = {}
    for cap in CAPS_GIB:
        solution = solver.solve(cap * GIB)
        if solution is None:
            found[f"{cap}GiB"] = {"outcome": "nothing fits"}
            continue
        best_s = solution.optimum_score.latency_s
        gaps: dict[str, float | str | None] = {}
        for trials in (100, 300):
            cold = [
                measure_gap(space, solver, cap * GIB, StudySettings(trials=trials, seed=seed), best_s) for seed in SEEDS
            ]
            gaps[f"cold_{trials}_median"] = statistics.median(cold)
            gaps[f"cold_{trials}_worst"] = max(cold)
        start = [("exact optimum", solution.optimum)]
        gaps["seeded_100"] = measure_gap(space, solver, cap * GIB, StudySettings(trials=100), best_s, seeds=start)
        found[f"{cap}GiB"] = {
            name: value if isinstance(value, str) or value != float("inf") else None for name, value in gaps.items()
        }
    return found


def measure_gap(
    space: StudySpace,
    solver: ExactSolver,
    cap_bytes: int,
    settings: StudySettings,
    best_s: float,
    *,
    seeds: Sequence[tuple[str, Plan]] = (),
) -> float:
    """Share by which the best feasible trial is slower than the optimum; infinite when no trial was feasible."""
    best = run_study(space, solver.evaluator.score, cap_bytes, settings, seeds=seeds).best
    return float("inf") if best is None or best.score is None else best.score.latency_s / best_s - 1


def measure_reference_loop() -> float:
    """Seconds for ten million additions."""
    begin = time.perf_counter()
    total = 0
    for number in range(10_000_000):
        total += number
    return time.perf_counter() - begin


def main() -> None:
    """Measure everything, say it line by line, and print one JSON object last."""
    result: dict[str, object] = {
        "benchmark": "planner",
        "device": DEVICE,
        "cores": os.cpu_count(),
        "python": sys.version,
    }
    result["reference_loop_before_s"] = measure_reference_loop()
    for model in MODELS:
        load_model_facts(model)
        for host in HOSTS:
            evaluations = measure_evaluations(model, host)
            solver, exact = measure_exact(model, host)
            optuna = measure_optuna(model, solver)
            print(f"{model}, host {host}: {evaluations}")
            print(f"{model}, host {host}: exact {exact}")
            for cap, gaps in optuna.items():
                print(f"{model}, host {host}: optuna at {cap}: {gaps}")
            result[f"{model}, host {host}"] = {"evaluations": evaluations, "exact": exact, "optuna": optuna}
    result["reference_loop_after_s"] = measure_reference_loop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
