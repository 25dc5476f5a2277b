"""Stalls by layer and compute, the passes that a timeline leaves out counted, are all of a request's time."""

import pytest
from builders import build_component, build_evaluator, build_plan, moved, streamed
from hypothesis import given
from hypothesis import strategies as st

from autotune.trace_timeline import trace_request
from autotune.workflows.run_replay import sum_stalls
from runtime.hosting import HostMemory
from runtime.interference import Interference
from runtime.residency import Policy
from runtime.timeline import Lane
from runtime.units import GIB

SLOWDOWNS = st.sampled_from([0.0, 0.3, 1.0])
COUNTS, TIMES_MS, PASSES = st.integers(1, 7), st.integers(1, 9), st.integers(1, 30)
HOSTS = st.sampled_from([10**9, 4 * GIB + 20_000, 40_000])  # everything pinned, some of it, next to nothing


@given(
    counts=st.tuples(COUNTS, COUNTS),
    copies_ms=st.tuples(TIMES_MS, TIMES_MS),
    passes=st.tuples(PASSES, PASSES),
    slowdowns=st.tuples(SLOWDOWNS, SLOWDOWNS),
    host_bytes=HOSTS,
    settings=st.tuples(st.booleans(), st.integers(1, 3), st.sampled_from(list(Policy))),
)
def test_stalls_and_compute_add_up_to_the_latency(counts, copies_ms, passes, slowdowns, host_bytes, settings):
    is_moved, prefetch, policy = settings
    components = {
        "encoder": build_component(counts[0], copy_ms=copies_ms[0], passes=passes[0]),
        "transformer": build_component(counts[1], copy_ms=copies_ms[1], passes=passes[1], is_dit=True),
    }
    interference = Interference(compute_slowdown_ratio=slowdowns[0], copy_slowdown_ratio=slowdowns[1])
    host = HostMemory(available_bytes=host_bytes)
    evaluator = build_evaluator(components, interference=interference, host=host)
    plan = build_plan(
        moved("encoder") if is_moved else streamed("encoder"),
        streamed(prefetch=prefetch, resident=1, policy=policy),
    )
    trace = trace_request(evaluator, plan)
    waits_s = sum(stall.stall_s for stall in sum_stalls(trace.timeline))
    computes_s = sum(
        (span.end_s - span.start_s) * (1 + sum(part.times for part in trace.timeline.repeats if _holds(part, span)))
        for span in trace.timeline.spans
        if span.lane is Lane.COMPUTE
    )
    assert waits_s + computes_s == pytest.approx(trace.evaluation.latency_s)


def _holds(repeats, span):
    return repeats.at_s - repeats.period_s - 1e-9 <= span.start_s and span.end_s <= repeats.at_s + 1e-9
