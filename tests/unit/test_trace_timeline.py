"""The timeline of a replayed request: names, order, overlap, live bytes by owner."""

from itertools import pairwise

import pytest
from builders import build_component, build_evaluator, build_plan, moved, streamed

from autotune.trace_timeline import trace_request
from runtime.timeline import Lane


@pytest.fixture
def timeline():
    evaluator = build_evaluator({"encoder": build_component(4, copy_ms=2.0, passes=5)})
    plan = build_plan(streamed("encoder"))
    return evaluator.evaluate(plan), trace_request(evaluator, plan).timeline


def test_every_layer_runs_once_per_replayed_pass_and_the_rest_is_left_out(timeline):
    evaluation, traced = timeline
    runs = [span for span in traced.spans if span.lane is Lane.COMPUTE and span.layer is not None]
    left_out = sum(repeat.times for repeat in traced.repeats)
    assert len(runs) == 4 * (5 - left_out)
    assert max(span.end_s for span in runs) <= evaluation.latency_s
    assert {(span.component, span.stack) for span in runs} == {("encoder", "blocks")}


def test_copies_overlap_compute_but_never_each_other(timeline):
    _, traced = timeline
    copies = [span for span in traced.spans if span.lane is Lane.H2D]
    computes = [span for span in traced.spans if span.lane is Lane.COMPUTE]
    for one, other in pairwise(copies):
        assert one.end_s <= other.start_s + 1e-12
    assert any(copy.start_s < compute.end_s and compute.start_s < copy.end_s for copy in copies for compute in computes)


def test_live_bytes_return_to_where_the_request_began_and_peak_with_two_layers(timeline):
    evaluation, traced = timeline
    totals = [sum(entry.by_component.values()) for entry in traced.live]
    assert totals[0] == totals[-1] == 0
    assert max(totals) == max(
        phase.streamed_bytes for phase in evaluation.phases if phase.phase == "later request: encoder"
    )
    assert sum(traced.live_at(-1.0).values()) == 0


def test_the_first_wait_of_the_request_is_named_a_stall(timeline):
    evaluation, traced = timeline
    assert traced.stalls[0].start_s == 0
    assert traced.stalls[0].end_s - traced.stalls[0].start_s == pytest.approx(evaluation.uses[0].fill_s)


def test_a_wait_names_the_stack_or_the_component_whose_copies_it_is_for():
    evaluator = build_evaluator({"encoder": build_component(4, passes=3), "vae": build_component(2)})
    traced = trace_request(evaluator, build_plan(streamed("encoder"), moved("vae"))).timeline
    waits = {(stall.component, stall.stack) for stall in traced.stalls if stall.layer is None}
    assert ("encoder", "blocks") in waits  # the drain before the first layer
    assert ("vae", None) in waits  # the move of the whole component
    assert all(stall.component is not None for stall in traced.stalls)


def test_passes_lie_end_to_end_within_their_uses():
    evaluator = build_evaluator({"encoder": build_component(4, passes=5)})
    traced = trace_request(evaluator, build_plan(streamed("encoder")))
    first, *others = traced.passes
    (times,) = traced.evaluation.uses[0].passes
    assert first.end_s - first.start_s == pytest.approx(times.first_s)
    assert others[-1].end_s - others[-1].start_s == pytest.approx(times.steady_s)
    assert all(one.end_s == other.start_s for one, other in pairwise(traced.passes))
    assert {(one.use, one.group) for one in traced.passes} == {(0, 0)}
