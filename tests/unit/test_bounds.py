import pytest
from builders import SGLANG, build_component, build_evaluator, build_plan, kept, moved, streamed

from autotune.bounds import compute_request_bound_s, compute_steady_bound_s, compute_use_bounds_s
from runtime.interference import Interference
from runtime.residency import Lifetime


def bounds(component, placement, *, engine=SGLANG, **traits):
    evaluator = build_evaluator({"transformer": component}, engine=engine, **traits)
    plan = build_plan(placement, engine=engine)
    program = evaluator.lifecycle.build_program(plan)
    costs = evaluator.cost_model.costs_of(plan)
    bound_s = compute_request_bound_s(program, plan, costs)
    assert sum(compute_use_bounds_s(program, plan, costs)) == bound_s
    assert evaluator.evaluate(plan).latency_s >= bound_s - 1e-12
    return bound_s * 1e3


def test_a_steady_pass_is_bounded_by_the_larger_of_compute_and_copies():
    assert compute_steady_bound_s([3.0] * 40, [5.96] * 40) == pytest.approx(238.4)
    assert compute_steady_bound_s([6.0] * 40, [3.0] * 40) == pytest.approx(240)
    assert compute_steady_bound_s([], []) == 0


def test_every_pass_of_a_use_needs_its_own_copies():
    stack = build_component(4, compute_ms=1, copy_ms=5, passes=10, is_dit=True)
    assert bounds(stack, streamed()) == pytest.approx(10 * 4 * 5)


def test_copies_that_compute_can_hide_slow_it_down():
    disturbed = Interference(compute_slowdown_ratio=0.5, copy_slowdown_ratio=1.0)
    # 80 s of copies take 160 beside compute, of which compute loses a third.
    assert compute_steady_bound_s([300.0], [80.0], disturbed) == pytest.approx(300 + 160 / 3)
    stack = build_component(4, compute_ms=6, copy_ms=2, passes=10, is_dit=True)
    assert bounds(stack, streamed(), interference=disturbed) > bounds(stack, streamed())


def test_copies_that_cost_more_than_they_hide_are_best_made_alone():
    disturbed = Interference(compute_slowdown_ratio=3.0, copy_slowdown_ratio=3.0)
    assert compute_steady_bound_s([300.0], [80.0], disturbed) == pytest.approx(380)


def test_a_resident_that_is_released_between_requests_is_copied_once_per_use():
    stack = build_component(4, compute_ms=1, copy_ms=50, passes=10)
    assert bounds(stack, streamed(resident=4)) == pytest.approx(4 * 50)
    assert bounds(stack, streamed(resident=4, lifetime=Lifetime.PERMANENT)) == pytest.approx(10 * 4)


def test_a_moved_component_computes_only_between_its_moves():
    assert bounds(build_component(4, compute_ms=3, copy_ms=6, passes=2), moved()) == pytest.approx(24 + 2 * 24)


def test_a_resident_component_is_bounded_by_its_compute():
    assert bounds(build_component(4, compute_ms=3, passes=2, outside_ms=5), kept()) == pytest.approx(29)


def test_a_head_copied_ahead_is_not_counted_in_the_use_that_it_is_for():
    components = {
        "text_encoder": build_component(1, compute_ms=100, copy_ms=1),
        "transformer": build_component(2, compute_ms=1, copy_ms=10, is_dit=True),
    }
    evaluator = build_evaluator(components)
    plan = build_plan(kept("text_encoder"), streamed("transformer"))
    program = evaluator.lifecycle.build_program(plan)
    costs = evaluator.cost_model.costs_of(plan)
    assert compute_use_bounds_s(program, plan, costs) == pytest.approx((0.1, 0.01))


def test_a_component_moved_up_between_two_uses_is_counted():
    components = {
        "text_encoder": build_component(1, compute_ms=1, copy_ms=1),
        "transformer": build_component(2, compute_ms=1, copy_ms=10, is_dit=True),
    }
    evaluator = build_evaluator(components)
    plan = build_plan(kept("text_encoder"), moved("transformer"))
    program = evaluator.lifecycle.build_program(plan)
    bound_s = compute_request_bound_s(program, plan, evaluator.cost_model.costs_of(plan))
    assert bound_s == pytest.approx(0.001 + 0.020 + 0.002 + 0.020)
    assert evaluator.evaluate(plan).latency_s == pytest.approx(bound_s)
