"""What holds for every toy pipeline and plan when it is replayed."""

from dataclasses import replace
from itertools import pairwise

import pytest
from builders import build_plan, evaluate_stack, streamed
from hypothesis import given
from hypothesis import strategies as st
from strategies import ENGINES, INTERFERENCES, evaluators_with_plan, stacks

from autotune.bounds import compute_request_bound_s, compute_steady_bound_s, compute_use_bounds_s
from autotune.clock_choice import make_clock
from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator
from autotune.recorder import Recorder
from autotune.replay_passes import run_segment
from runtime.interference import NO_INTERFERENCE
from runtime.program import Op
from runtime.residency import Lifetime, Mode, Policy, resident_layers, streamed_layers

TINY_S = 1e-9
# On half of the devices copies and compute slow each other down.
CASES = evaluators_with_plan() | evaluators_with_plan(interferences=INTERFERENCES)


@given(st.integers(0, 32), st.integers(-2, 40), st.sampled_from(Policy))
def test_every_layer_stays_or_streams(count, resident, policy):
    stays, streams = resident_layers(count, resident, policy), streamed_layers(count, resident, policy)
    assert sorted([*stays, *streams]) == list(range(count))
    assert len(stays) == min(max(resident, 0), count)


@given(stacks(8, passes=st.just(40)), st.integers(1, 9), st.integers(0, 8), st.sampled_from(Policy), ENGINES)
def test_a_steady_pass_is_never_faster_than_its_bound(stack, prefetch, resident, policy, engine):
    placement = streamed(prefetch=prefetch, resident=min(resident, len(stack.copy_ms)), policy=policy)
    times, _ = evaluate_stack(0, engine=engine, stack=stack, placement=placement)
    copied_s = [stack.copy_ms[layer] / 1e3 for layer in placement.streamed_layers(len(stack.copy_ms))]
    assert times.steady_s >= compute_steady_bound_s([ms / 1e3 for ms in stack.compute_ms], copied_s) - TINY_S


@given(CASES)
def test_no_use_and_no_request_is_faster_than_its_bound(case):
    evaluator, plan = case
    evaluation = evaluator.evaluate(plan)
    program, costs = evaluator.lifecycle.build_program(plan), evaluator.cost_model.costs_of(plan)
    bounds = compute_use_bounds_s(program, plan, costs)
    for use, bound_s in zip(evaluation.uses, bounds, strict=True):
        assert use.total_s >= bound_s - TINY_S
    assert evaluation.latency_s >= compute_request_bound_s(program, plan, costs) - TINY_S
    assert evaluation.latency_s >= evaluator.cost_model.compute_s() - TINY_S


@given(evaluators_with_plan(interferences=INTERFERENCES))
def test_interference_makes_no_request_faster(case):
    evaluator, plan = case
    rates = replace(evaluator.cost_model.rates, interference=NO_INTERFERENCE)
    model = CostModel(evaluator.cost_model.facts, rates)
    undisturbed = Evaluator(model, evaluator.memory_model, evaluator.engine).score(plan).latency_s
    slowdowns = evaluator.cost_model.rates.interference
    most = (1 + slowdowns.compute_slowdown_ratio) * (1 + slowdowns.copy_slowdown_ratio)
    assert undisturbed - TINY_S <= evaluator.score(plan).latency_s <= undisturbed * most + TINY_S


@given(evaluators_with_plan())
def test_the_memory_of_a_plan_is_the_sum_of_its_components(case):
    evaluator, plan = case
    shares = [
        evaluator.component_phases(index, placement, explicit=plan.explicit)
        for index, placement in enumerate(plan.placements)
    ]
    phases = evaluator.evaluate(plan).phases
    assert [sum(column) for column in zip(*shares, strict=True)] == [
        phase.streamed_bytes + phase.standing_bytes for phase in phases
    ]
    assert max(phase.charged_bytes for phase in phases) == evaluator.charged_bytes(plan)


@given(evaluators_with_plan())
def test_the_peak_of_a_life_is_that_of_its_actions_one_by_one(case):
    evaluator, plan = case
    program, costs = evaluator.lifecycle.build_program(plan), evaluator.cost_model.costs_of(plan)
    live = peak = 0
    for actions in (program.load.actions, program.first.actions(), program.later.actions()):
        for action in actions:
            live += costs.live_change_bytes(action)
            assert live >= 0
            peak = max(peak, live)
    assert peak == max(phase.streamed_bytes for phase in evaluator.evaluate(plan).phases)


@given(evaluators_with_plan())
def test_nothing_is_copied_twice_or_run_or_released_while_it_is_not_there(case):
    evaluator, plan = case
    program = evaluator.lifecycle.build_program(plan)
    live = set()
    for actions in (program.load.actions, program.first.actions(), program.later.actions(), program.later.actions()):
        for op, slot in actions:
            if op in (Op.H2D, Op.H2D_BLOCKING, Op.PLACE):
                assert slot not in live
                live.add(slot)
            elif op == Op.RUN:
                assert slot in live
            elif op == Op.RELEASE:
                live.remove(slot)


@given(evaluators_with_plan())
def test_a_later_request_leaves_the_device_as_it_found_it(case):
    evaluator, plan = case
    program, costs = evaluator.lifecycle.build_program(plan), evaluator.cost_model.costs_of(plan)
    assert sum(costs.live_change_bytes(action) for action in program.later.actions()) == 0


@given(CASES)
def test_recording_changes_no_time(case):
    evaluator, plan = case
    plain, recorder = evaluator.evaluate(plan), Recorder()
    recorded = evaluator.evaluate(plan, recorder)
    assert recorded.latency_s == pytest.approx(plain.latency_s)
    assert recorded.phases == plain.phases
    for use, other in zip(recorded.uses, plain.uses, strict=True):
        assert use.fill_s == pytest.approx(other.fill_s)
        assert [times.steady_s for times in use.passes] == pytest.approx([times.steady_s for times in other.passes])


@given(CASES)
def test_spans_on_one_lane_do_not_overlap(case):
    evaluator, plan = case
    recorder = Recorder()
    evaluator.evaluate(plan, recorder)
    for lane in (0, 1):
        spans = [(start, end) for on, start, end, _ in recorder.spans if on == lane]
        assert all(before[1] <= after[0] + TINY_S for before, after in pairwise(spans))


@given(CASES)
def test_extending_a_steady_state_is_replaying_every_pass(case):
    evaluator, plan = case
    program, costs = evaluator.lifecycle.build_program(plan), evaluator.cost_model.costs_of(plan)
    extended, one_by_one = make_clock(costs), make_clock(costs)
    for use in program.later.uses:
        for segment in use.segments:
            run_segment(extended, segment)
            for _ in range(segment.repeat):
                one_by_one.run(segment.actions)
            assert extended.compute_free_s == pytest.approx(one_by_one.compute_free_s)
            assert extended.relative_state() == pytest.approx(one_by_one.relative_state(), abs=TINY_S)
        extended.run(use.after.actions)
        one_by_one.run(use.after.actions)


@given(stacks(6, passes=st.just(200)), st.integers(1, 6), st.integers(0, 6), st.sampled_from(Policy))
def test_extending_two_hundred_passes_of_one_stack_is_replaying_them(stack, prefetch, resident, policy):
    placement = streamed(prefetch=prefetch, resident=min(resident, len(stack.copy_ms)), policy=policy)
    times, evaluation = evaluate_stack(0, stack=stack, placement=placement)
    assert times.count == 200
    assert times.settled_after < 20
    assert times.total_s == pytest.approx(evaluation.first_uses[0].total_s, abs=sum(stack.copy_ms) / 1e3 + TINY_S)


@given(CASES)
def test_scoring_says_what_evaluating_says(case):
    evaluator, plan = case
    score, evaluation = evaluator.score(plan), evaluator.evaluate(plan)
    assert score.latency_s == pytest.approx(evaluation.latency_s)
    assert score.charged_bytes == evaluation.peak.charged_bytes


@given(evaluators_with_plan())
def test_the_first_request_after_load_is_no_reason_to_lose_layers(case):
    evaluator, plan = case
    program = evaluator.lifecycle.build_program(plan)
    for request in (program.first, program.later):
        runs = sorted(slot for op, slot in request.actions() if op == Op.RUN)
        expected = sorted(
            stack.first_slot + layer
            for stack in program.stacks
            if plan.streams(program.components[stack.component])
            for use in evaluator.lifecycle.request.uses
            if use.component == program.components[stack.component]
            for group in use.groups
            if stack.name in group.stacks
            for layer in list(range(stack.layer_count)) * group.passes
        )
        assert runs == expected


@given(evaluators_with_plan())
def test_host_copies_are_kept_for_all_that_can_leave_the_device(case):
    evaluator, plan = case
    spec_of = evaluator.cost_model.facts.model.component
    for name, host_bytes in evaluator.evaluate(plan).host_bytes.items():
        placement = plan.placement(name)
        if placement.mode is Mode.RESIDENT:
            assert host_bytes == 0
        elif placement.mode is Mode.COMPONENT_OFFLOAD:
            assert host_bytes == spec_of(name).run_bytes
        elif placement.lifetime is Lifetime.FORWARD:
            assert host_bytes == spec_of(name).stack_run_bytes


def test_a_plan_needs_no_flags_to_be_replayed():
    _, evaluation = evaluate_stack(3, placement=streamed(resident=1))
    assert evaluation.plan == build_plan(streamed(resident=1))
