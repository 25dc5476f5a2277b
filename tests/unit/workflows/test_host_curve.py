"""The fastest plans on other hosts: one point per host, from the same candidates, never worse with more memory."""

from dataclasses import replace

import pytest
from builders import build_component, build_facts, build_plan, streamed
from planning_builders import SETTINGS, build_target

from autotune.workflows.host_curve import HOST_SIZES, find_host_curve
from autotune.workflows.planning import build_evaluator, make_plan
from runtime.units import GIB

CAP = 20_000_000_000


def big_facts():
    """Layers of 8 GB: 128 GB of weights, which only the larger hosts pin."""
    return build_facts({"transformer": build_component(16, compute_ms=3e6, copy_ms=8e6, passes=4, is_dit=True)})


def curve(host_bytes=64 * GIB, known=None, **target):
    facts, target = big_facts(), build_target(CAP, host_bytes=host_bytes, **target)
    plans = [build_plan(streamed())] if known is None else known
    return find_host_curve(facts, target, SETTINGS, plans)


def test_every_host_is_answered_once_and_the_own_one_is_marked():
    points = curve(host_bytes=60 * GIB)
    assert [point.host_bytes for point in points] == sorted({*HOST_SIZES, 60 * GIB})
    assert [point.host_bytes for point in points if point.is_own] == [60 * GIB]
    assert len(curve(host_bytes=64 * GIB)) == len(HOST_SIZES)


def test_more_host_memory_is_never_slower_and_needs_fewer_reads():
    points = [point for point in curve() if point.latency_s is not None]
    times_s = [point.latency_s for point in points]
    assert times_s == sorted(times_s, reverse=True)
    assert times_s[0] > times_s[-1]
    assert points[0].disk_read_bytes > points[-1].disk_read_bytes == 0


def test_the_own_point_is_at_least_as_fast_as_what_the_search_found():
    facts, target = big_facts(), build_target(CAP, host_bytes=192 * GIB)
    found = make_plan(facts, target, SETTINGS).solution
    (own,) = (point for point in find_host_curve(facts, target, SETTINGS, [found.optimum]) if point.is_own)
    assert own.latency_s == pytest.approx(found.optimum_score.latency_s)
    assert own.charged_bytes <= target.cap.effective_bytes


def test_a_host_on_which_nothing_fits_has_no_latency():
    facts, target = big_facts(), build_target(1_000, host_bytes=64 * GIB)
    points = find_host_curve(facts, target, SETTINGS, [build_plan(streamed())])
    assert {(point.latency_s, point.charged_bytes, point.disk_read_bytes) for point in points} == {(None, None, 0)}


def test_points_are_what_a_replay_on_that_host_says():
    plan, facts, target = build_plan(streamed()), big_facts(), build_target(CAP, host_bytes=192 * GIB)
    settings = replace(SETTINGS, space=replace(SETTINGS.space, max_prefetch=1))
    (own,) = (point for point in find_host_curve(facts, target, settings, [plan]) if point.is_own)
    assert own.latency_s <= build_evaluator(facts, target, settings).score(plan).latency_s
