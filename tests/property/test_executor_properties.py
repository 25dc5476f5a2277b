"""Live modules on the emulated accelerator against the planner: actions, times, bytes, and every bit of the result."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import INTERFERENCES, UNDISTURBED, evaluators_with_plan, plans_of
from test_host_properties import hosted_evaluators, small_reserves
from toy_modules import TOY_LINK, build_modules, run_on_device, run_request, virtual_device

from autotune.cost_model import Cached, view_hosting
from runtime.hosting import HostTier
from runtime.residency import Mode

PAGE_CACHE = {Cached.NOTHING: "nothing", Cached.STREAM: "stream", Cached.ALL: "all"}


def can_be_called(request):
    """Whether calls of modules tell one use from the next: those without passes are not called."""
    called = [use.component for use in request.uses if use.groups]
    return bool(called) and all(before != after for before, after in pairwise(called))


def assert_executes_as_planned(evaluator, plan, **device):
    """Two requests of live modules take the planned actions, exactly the replayed time, and the planned bytes."""
    evaluation = evaluator.evaluate(plan)
    most = max(phase.streamed_bytes + phase.standing_bytes for phase in evaluation.phases)
    accelerator = virtual_device(evaluator, plan, capacity_bytes=most, poison=True, delay_seed=1, **device)
    outputs, report, actions = run_on_device(evaluator, plan, accelerator)

    plain = build_modules(evaluator.lifecycle.model)
    for output in outputs:
        assert torch.equal(output, run_request(plain, evaluator.lifecycle.request))
    program = evaluator.lifecycle.build_program(plan)
    planned = [*program.load.actions, *program.first.actions(), *program.later.actions()]
    assert actions == [program.name(action) for action in planned]
    # Doubles of different sums of the same times differ by less.
    latencies_s = [request.latency_s for request in report.requests]
    assert latencies_s == pytest.approx([evaluation.first_latency_s, evaluation.latency_s], rel=0, abs=1e-9)
    measured = [(phase.phase, phase.peak_weight_bytes) for phase in report.phases]
    assert measured == [(phase.phase, phase.streamed_bytes + phase.standing_bytes) for phase in evaluation.phases]
    assert all(size == 0 for size in accelerator.memory().live_bytes.values())


@settings(max_examples=150)
@given(evaluators_with_plan())
def test_the_executor_does_what_was_planned_in_the_time_that_was_predicted(pair):
    evaluator, plan = pair
    assume(can_be_called(evaluator.lifecycle.request))
    assert_executes_as_planned(evaluator, plan)


@settings(max_examples=150)
@given(evaluators_with_plan(interferences=INTERFERENCES))
def test_the_same_where_copies_and_compute_slow_each_other_down(pair):
    evaluator, plan = pair
    assume(can_be_called(evaluator.lifecycle.request))
    assert_executes_as_planned(evaluator, plan, interference=evaluator.cost_model.rates.interference)


@settings(max_examples=120)
@given(st.data())
def test_the_same_on_hosts_that_cannot_pin_everything(data):
    with small_reserves():
        evaluator = data.draw(hosted_evaluators(interferences=UNDISTURBED | INTERFERENCES))
        plan = data.draw(plans_of(evaluator))
        assume(can_be_called(evaluator.lifecycle.request))
        # Whole moves are pinned by torch's allocator, whatever the budget: the replay takes them as pinned.
        assume(all(placement.mode is not Mode.COMPONENT_OFFLOAD for placement in plan.placements))
        views = view_hosting(evaluator.hosting_of(plan))
        cached = {part[1] for part in views if part is not None and part[0].count(HostTier.MAPPED)}
        assume(len(cached) <= 1)
        page_cache = PAGE_CACHE[Cached(next(iter(cached), Cached.NOTHING))]
        interference = evaluator.cost_model.rates.interference
        rates = replace(TOY_LINK, page_cache=page_cache)
        assert_executes_as_planned(evaluator, plan, rates=rates, interference=interference)
