"""How far latencies may be off: toy pipelines of which the answer is known."""

import math
from dataclasses import replace

import pytest
from builders import build_component, build_evaluator, build_plan, kept, streamed
from calibration_builders import build_prior
from spread_builders import build_uncertainty

from autotune.fidelity.spread import REPEATS, derive_spreads

REPEAT = 0.02


def spreads_of(components, plans, uncertainty):
    return derive_spreads(build_evaluator(components), uncertainty, plans)


COMPUTE_BOUND = {"transformer": build_component(8, compute_ms=10.0, copy_ms=1.0, passes=50, is_dit=True)}
COPY_BOUND = {"transformer": build_component(8, compute_ms=0.1, copy_ms=10.0, passes=50, is_dit=True)}
STREAMED, KEPT = build_plan(streamed()), build_plan(kept())


def test_compute_alone_is_off_by_what_compute_is_off():
    found = spreads_of(COMPUTE_BOUND, [KEPT], build_uncertainty({"compute.transformer": 0.1}))
    assert found.slopes[KEPT].latency_s == pytest.approx(50 * 8 * 0.010)
    assert found.spread_of(KEPT).sd == pytest.approx(0.1 * 4.0, rel=1e-3)
    assert found.spread_of(KEPT).cause == "compute.transformer"


def test_streaming_that_waits_for_copies_is_off_by_what_copies_are_off():
    found = spreads_of(COPY_BOUND, [STREAMED], build_uncertainty({"copy": 0.2, "compute.transformer": 0.2}))
    assert found.spread_of(STREAMED).sd == pytest.approx(0.2 * found.slopes[STREAMED].latency_s, rel=0.02)
    assert found.spread_of(STREAMED).cause == "copy"


def test_seconds_are_added_by_every_pass_and_every_use():
    found = spreads_of(COMPUTE_BOUND, [KEPT], build_uncertainty({"pass_s": 0.003, "use_s": 0.02}))
    assert found.spread_of(KEPT).sd == pytest.approx(math.hypot(50 * 0.003, 0.02))
    assert found.spread_of(KEPT).cause == "pass_s"


def test_factors_that_vary_together_add_up():
    components = {name: build_component(0, outside_ms=100.0) for name in ("one", "other")}
    plan = build_plan(kept("one"), kept("other"))
    sds = {"compute.one": 0.1, "compute.other": 0.1}
    shared = {("compute.one", "compute.other"): 0.1**2}
    alone = spreads_of(components, [plan], build_uncertainty(sds)).spread_of(plan)
    together = spreads_of(components, [plan], build_uncertainty(sds, covariance=shared)).spread_of(plan)
    assert alone.sd == pytest.approx(math.sqrt(2) * 0.010, rel=1e-3)
    assert together.sd == pytest.approx(2 * 0.010, rel=1e-3)


def test_repeated_runs_differ_by_a_share_of_the_latency():
    found = spreads_of(COMPUTE_BOUND, [KEPT], build_uncertainty({"copy": 0.2}, repeat_ratio=REPEAT))
    assert found.spread_of(KEPT).sd == pytest.approx(REPEAT * 4.0)
    assert found.spread_of(KEPT).cause == REPEATS


def test_an_error_that_both_plans_share_cancels_in_their_difference():
    sds = {"compute.transformer": 0.3, "pass_s": 0.003}
    found = spreads_of(COMPUTE_BOUND, [STREAMED, KEPT], build_uncertainty(sds))
    difference = found.difference(STREAMED, KEPT)
    assert found.spread_of(STREAMED).sd > 1.0
    assert difference.difference_s == pytest.approx(found.slopes[STREAMED].latency_s - 4.0)
    assert difference.spread.sd < 0.01 * found.spread_of(STREAMED).sd


def test_plans_closer_than_two_runs_differ_are_a_tie():
    found = spreads_of(COMPUTE_BOUND, [STREAMED, KEPT], build_uncertainty({}, repeat_ratio=REPEAT))
    difference = found.difference(STREAMED, KEPT)
    assert difference.spread.sd == pytest.approx(REPEAT * math.hypot(4.0, 4.0), rel=0.01)
    assert 0 < difference.difference_s < difference.spread.sd
    assert difference.is_tie


def test_residents_are_faster_than_streaming_by_the_copies_that_they_save():
    found = spreads_of(COPY_BOUND, [STREAMED, KEPT], build_uncertainty({"copy": 0.25}, repeat_ratio=REPEAT))
    difference = found.difference(KEPT, STREAMED)
    assert difference.difference_s == -found.difference(STREAMED, KEPT).difference_s < 0
    assert difference.spread.cause == "copy"
    assert not difference.is_tie


def test_a_lane_that_may_begin_to_bind_counts_in_part():
    even = {"transformer": build_component(8, compute_ms=10.0, copy_ms=10.0, passes=50, is_dit=True)}
    found = spreads_of(even, [STREAMED], build_uncertainty({"copy": 0.2}))
    whole_s = 0.2 * found.slopes[STREAMED].latency_s
    assert 0.4 * whole_s < found.spread_of(STREAMED).sd < 0.6 * whole_s


def test_nine_cases_in_ten_lie_around_the_latency():
    found = spreads_of(COMPUTE_BOUND, [KEPT], build_uncertainty({"compute.transformer": 0.1}))
    low_s, high_s = found.interval_of(KEPT)
    assert low_s == pytest.approx(4.0 * math.exp(-1.645 * 0.1), rel=1e-2)
    assert high_s == pytest.approx(4.0 * math.exp(1.645 * 0.1), rel=1e-2)


def test_a_request_that_takes_almost_nothing_has_an_interval():
    nothing = {"vae": build_component(0, outside_ms=0.001)}
    plan = build_plan(kept("vae"))
    low_s, high_s = spreads_of(nothing, [plan], build_prior(use_s=0.02)).interval_of(plan)
    assert 0 <= low_s <= 1e-6
    assert high_s < 1.0


def test_an_exact_factor_changes_nothing():
    uncertainty = build_uncertainty({"copy": 0.0, "base_bytes": 1e9})
    found = spreads_of(COPY_BOUND, [STREAMED], replace(uncertainty, repeat_ratio=0.0))
    assert found.spread_of(STREAMED).sd == 0.0
    assert found.interval_of(STREAMED) == pytest.approx((found.slopes[STREAMED].latency_s,) * 2)
