"""The exact solver against brute force over every plan of a small space."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import INTERFERENCES, all_plans, small_evaluators

from autotune.exact import DEFAULT_TIE_RATIO, ExactSolver
from autotune.options import changed_settings
from autotune.space import SearchSpace
from autotune.study import StudySettings, run_study
from autotune.study_space import StudySpace

SPACE = SearchSpace(max_prefetch=2)
ROUNDING = 1 + 1e-9


def count_changes(evaluator, plan):
    return sum(changed_settings(evaluator, index, placement) for index, placement in enumerate(plan.placements))


@settings(max_examples=80)
@given(small_evaluators() | small_evaluators(interferences=INTERFERENCES), st.randoms(use_true_random=False))
def test_the_solver_s_answers_are_those_of_brute_force(evaluator, random):
    solver = ExactSolver(evaluator, SPACE)
    scored = [(plan, evaluator.score(plan)) for plan in all_plans(evaluator, SPACE)]
    charges = sorted({score.charged_bytes for _, score in scored})
    assert solver.solve(charges[0] - 1) is None
    assert solver.smallest()[1].charged_bytes == charges[0]
    for cap in (charges[0], random.choice(charges), charges[-1]):
        fitting = [(plan, score) for plan, score in scored if score.charged_bytes <= cap]
        solution = solver.solve(cap)
        assert solution.optimum_score == evaluator.score(solution.optimum)
        assert solution.optimum_score.latency_s == pytest.approx(min(score.latency_s for _, score in fitting), rel=1e-9)
        limit_s = solution.optimum_score.latency_s * (1 + DEFAULT_TIE_RATIO)
        tied = [(plan, score) for plan, score in fitting if score.latency_s <= limit_s * ROUNDING]
        least_bytes = min(score.charged_bytes for _, score in tied)
        fewest = min(count_changes(evaluator, plan) for plan, score in tied if score.charged_bytes == least_bytes)
        assert solution.chosen_score == evaluator.score(solution.chosen)
        assert solution.chosen_score.latency_s <= limit_s * ROUNDING
        assert solution.chosen_score.charged_bytes == least_bytes <= cap
        assert count_changes(evaluator, solution.chosen) == fewest


@given(small_evaluators())
def test_more_vram_never_makes_the_optimum_slower(evaluator):
    solver = ExactSolver(evaluator, SPACE)
    smallest, largest = solver.smallest()[1].charged_bytes, int(solver.charged_bytes.max())
    caps = [smallest + (largest - smallest) * step // 20 for step in range(21)]
    latencies = [solver.solve(cap).optimum_score.latency_s for cap in caps]
    assert all(more <= less * ROUNDING for less, more in pairwise(latencies))


@given(small_evaluators())
def test_the_trade_off_is_the_optimum_at_each_of_its_corners(evaluator):
    solver = ExactSolver(evaluator, SPACE)
    points = solver.trade_off()
    assert [point.charged_bytes for point in points] == sorted({point.charged_bytes for point in points})
    for before, after in pairwise(points):
        assert after.latency_s < before.latency_s
    for point in points:
        assert point.latency_s == pytest.approx(solver.solve(point.charged_bytes).optimum_score.latency_s)


@given(small_evaluators())
def test_the_same_question_has_the_same_answer(evaluator):
    cap = int(ExactSolver(evaluator, SPACE).charged_bytes.max()) * 3 // 4
    assert ExactSolver(evaluator, SPACE).solve(cap) == ExactSolver(evaluator, SPACE).solve(cap)


@settings(max_examples=10)
@given(small_evaluators(), st.integers(0, 2**31))
def test_a_seeded_study_ends_at_the_exact_optimum(evaluator, seed):
    solver = ExactSolver(evaluator, SPACE)
    cap = (solver.smallest()[1].charged_bytes + int(solver.charged_bytes.max())) // 2
    solution = solver.solve(cap)
    space = StudySpace(evaluator.cost_model.facts.model, SPACE, evaluator.engine.name)
    sweep = StudySettings(trials=15, seed=seed)
    one, other = (
        run_study(space, evaluator.score, cap, sweep, seeds=[("exact optimum", solution.optimum)]) for _ in range(2)
    )
    assert one == other
    assert one.best.score.latency_s == pytest.approx(solution.optimum_score.latency_s, rel=1e-9)
    assert all(record.score.charged_bytes <= cap for record in one.records if record.feasible)
