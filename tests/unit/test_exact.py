"""The exact solver on cases worked out by hand, and on ones that it once got wrong."""

import pytest
from builders import ToyComponent, build_component, build_evaluator, build_plan, build_stack, kept, moved, streamed
from strategies import all_plans

from autotune.exact import ExactSolver
from autotune.space import SearchSpace
from runtime.errors import UnsupportedError
from runtime.residency import Lifetime, Mode

SPACE = SearchSpace(max_prefetch=2)


def build_solver(components, *, space=SPACE, **choices):
    return ExactSolver(build_evaluator(components, **choices), space)


def largest(solver):
    return int(solver.charged_bytes.max())


def fastest_of_all(solver, space=SPACE):
    return min(solver.evaluator.score(plan).latency_s for plan in all_plans(solver.evaluator, space))


def test_everything_stays_where_everything_fits():
    solver = build_solver({"transformer": build_component(4, is_dit=True)})
    chosen = solver.solve(largest(solver)).chosen.placements[0]
    assert chosen.mode is Mode.RESIDENT or chosen.lifetime is Lifetime.PERMANENT
    assert solver.solve(largest(solver)).optimum_score.latency_s == pytest.approx(0.012)


def test_the_smallest_prefetch_wins_among_ties():
    # P1: depth cannot fix a rate mismatch, so one layer ahead is enough.
    toy = build_component(10, compute_ms=3, copy_ms=5.96, passes=50, is_dit=True)
    depths = tuple(streamed(prefetch=prefetch) for prefetch in (8, 4, 2, 1))
    solver = ExactSolver(build_evaluator({"transformer": toy}), SPACE, allowed={"transformer": depths})
    assert solver.solve(largest(solver)).chosen == build_plan(streamed())


def test_no_plan_under_the_floor_fits_and_the_closest_is_known():
    # S2: a cap of 1 where the least plan needs 2.
    solver = build_solver({"transformer": build_component(4, is_dit=True)})
    nearest, score = solver.smallest()
    assert solver.solve(score.charged_bytes - 1) is None
    assert solver.solve(score.charged_bytes).chosen == nearest
    assert score.charged_bytes == min(
        solver.evaluator.charged_bytes(plan) for plan in all_plans(solver.evaluator, SPACE)
    )


def test_a_placement_that_is_fixed_stays_fixed():
    components = {"transformer": build_component(4, is_dit=True), "vae": build_component(2)}
    fixed = (streamed("vae", resident=1),)
    solver = ExactSolver(build_evaluator(components), SPACE, allowed={"vae": fixed})
    assert {solver.solve(cap).chosen.placement("vae") for cap in (solver.smallest()[1].charged_bytes, 10**9)} == {
        fixed[0]
    }


def test_a_wider_tie_gives_up_time_for_vram():
    solver = build_solver({"transformer": build_component(6, compute_ms=6, copy_ms=3, passes=20, is_dit=True)})
    exact, loose = (solver.solve(largest(solver), tie_ratio=ratio) for ratio in (0.0, 0.05))
    assert exact.chosen_score.latency_s == exact.optimum_score.latency_s
    assert loose.chosen_score.charged_bytes < exact.chosen_score.charged_bytes
    assert loose.chosen_score.latency_s <= loose.optimum_score.latency_s * 1.05


def test_too_many_combinations_are_refused(monkeypatch):
    monkeypatch.setattr("autotune.exact._MOST_COMBINATIONS", 3)
    with pytest.raises(UnsupportedError, match="combinations of placements are left after pruning, more than 3"):
        build_solver({"transformer": build_component(4, is_dit=True), "vae": build_component(2)})


# Found by brute force: rows of one expert were dropped without the copies that the next one makes during its use.
def test_an_expert_is_judged_with_the_copies_of_the_next_one():
    solver = build_solver(
        {
            "text_encoder": ToyComponent(stacks={"blocks": build_stack(2, compute_ms=1, copy_ms=6, passes=2)}),
            "dit": build_component(1, compute_ms=0, copy_ms=2, passes=5, is_dit=True, outside_ms=3),
            "dit_2": build_component(1, compute_ms=5, copy_ms=5, is_dit=True, outside_ms=3),
        }
    )
    together = build_plan(kept("text_encoder"), kept("dit"), streamed("dit_2"))
    solution = solver.solve(solver.evaluator.charged_bytes(together), tie_ratio=0.0)
    assert solution.chosen == together


# Found by brute force: corners were missed where a copy ahead outlasts the use that it meets.
def test_the_trade_off_ends_with_everything_resident():
    components = {
        "text_encoder": build_component(1, compute_ms=2, copy_ms=1),
        "dit": build_component(1, compute_ms=1, copy_ms=5, is_dit=True),
    }
    solver = build_solver(components)
    points = solver.trade_off()
    assert points[-1].latency_s == pytest.approx(0.003)
    for point in points:
        assert point.latency_s == pytest.approx(solver.solve(point.charged_bytes).optimum_score.latency_s)


def test_a_use_without_passes_still_takes_its_time():
    components = {"vae": ToyComponent(stacks={}, rest_ms=10, outside_ms=7)}
    evaluator = build_evaluator(components)
    assert evaluator.evaluate(build_plan(kept("vae"))).latency_s == pytest.approx(0.007)
    assert evaluator.evaluate(build_plan(moved("vae"))).latency_s == pytest.approx(0.027)


def test_the_fastest_plan_wins_although_a_copy_ahead_outlasts_two_encoders():
    components = {
        "text_encoder": build_component(1, compute_ms=1, copy_ms=1),
        "text_encoder_2": build_component(2, compute_ms=1, copy_ms=2),
        "dit": build_component(3, compute_ms=2, copy_ms=13, is_dit=True, passes=2),
    }
    solver = build_solver(components)
    assert solver.solve(largest(solver)).optimum_score.latency_s == pytest.approx(fastest_of_all(solver))
    for cap in sorted({int(charge) for charge in solver.charged_bytes})[::40]:
        best = min(
            score.latency_s
            for score in map(solver.evaluator.score, all_plans(solver.evaluator, SPACE))
            if score.charged_bytes <= cap
        )
        assert solver.solve(cap).optimum_score.latency_s == pytest.approx(best)
