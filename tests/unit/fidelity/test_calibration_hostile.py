"""Absurd, contradicting and single observations: the fit answers with figures, and sets aside what cannot be."""

from dataclasses import replace

import numpy as np
import pytest
from builders import build_plan, kept, moved
from calibration_builders import PLANS, build_ground, build_observation, build_prior, factors_of, observe, with_figures

from autotune.fidelity.calibration import calibrate
from autotune.fidelity.case import Case
from autotune.observed.observation import ObservedLatency, ObservedPeak, PeakKind, Scope
from runtime.hosting import HostMemory
from runtime.interference import Interference
from runtime.units import GIB

GROUND = build_ground()
PRIOR = build_prior()
HIDDEN = {"copy": 0.2, "compute.transformer": -0.3, "base_bytes": 2e9}
RUNS = tuple(observe(plan, GROUND, HIDDEN, f"run {index}") for index, plan in enumerate(PLANS))


def test_one_observation_is_fitted_and_leaves_most_open():
    request = RUNS[0].observation.latencies[:1]
    found = calibrate([with_figures(RUNS[0], latencies=request)], PRIOR)
    assert found.residuals[0].after == pytest.approx(request[0].seconds, rel=0.03)
    assert not factors_of(found)["compute.vae"].is_determined


def test_contradicting_runs_of_one_setting_are_answered_with_more_noise():
    fast, slow = (
        with_figures(RUNS[0], latencies=(replace(RUNS[0].observation.latencies[0], seconds=seconds),))
        for seconds in (0.3, 0.6)
    )
    found = calibrate([fast, slow], PRIOR)
    assert found.noise_ratio > 3 * PRIOR.repeat_ratio
    assert 0.3 < found.residuals[0].after < 0.6
    assert not any(item.is_outlier for item in found.residuals)


@pytest.mark.parametrize("seconds", [1e-6, 1e6])
def test_absurd_time_among_good_ones_is_set_aside(seconds):
    absurd = with_figures(RUNS[1], latencies=(replace(RUNS[1].observation.latencies[0], seconds=seconds),))
    found = calibrate([*RUNS, absurd], PRIOR)
    assert [item.observed for item in found.residuals if item.is_outlier] == [seconds]
    assert found.values["copy"] == pytest.approx(HIDDEN["copy"], abs=0.05)


@pytest.mark.parametrize("seconds", [1e-6, 1e6])
def test_absurd_time_alone_still_gives_figures(seconds):
    found = calibrate(
        [with_figures(RUNS[0], latencies=(ObservedLatency(seconds=seconds, scope=Scope.REQUEST),))], PRIOR
    )
    assert all(np.isfinite([item.value, item.sd, item.low, item.high]).all() for item in found.factors)


def test_peak_below_the_weights_is_set_aside():
    tiny = with_figures(RUNS[3], peak=ObservedPeak(size_bytes=10**9, kind=PeakKind.RESERVED))
    found = calibrate([*RUNS, tiny], PRIOR)
    assert [(item.run, item.observed) for item in found.residuals if item.is_outlier] == [("run 3", 1e9)]


def test_many_rows_of_one_setting_are_fitted_like_their_mean():
    random = np.random.default_rng(1)
    request = RUNS[0].observation.latencies[0]
    rows = [
        with_figures(RUNS[0], latencies=(replace(request, seconds=request.seconds * np.exp(random.normal(0, 0.03))),))
        for _ in range(2000)
    ]
    found = calibrate(rows, PRIOR)
    assert found.noise_ratio == pytest.approx(0.03, rel=0.15)
    assert found.residuals[0].after == pytest.approx(request.seconds, rel=0.02)


def test_moved_components_tell_the_rate_of_copies():
    plan = build_plan(moved("text_encoder"), kept("transformer"), kept("vae"))
    down = ObservedLatency(seconds=0.021 * 1.5, scope=Scope.MOVE_DOWN, component="text_encoder")
    case = Case(build_observation(GROUND, latencies=(down,)), plan, GROUND)
    found = factors_of(calibrate([case], PRIOR))
    assert set(found) == {"copy"}
    assert found["copy"].value == pytest.approx(np.log(1.5), abs=0.03)


def test_interference_is_fitted_although_planes_are_no_bound():
    slowed = replace(GROUND.rates, interference=Interference(compute_slowdown_ratio=0.25, copy_slowdown_ratio=0.5))
    ground = replace(GROUND, rates=slowed)
    runs = [observe(plan, ground, HIDDEN, f"run {index}") for index, plan in enumerate(PLANS)]
    found = calibrate(runs, PRIOR)
    assert max(abs(item.error_ratio) for item in found.residuals) < 0.05
    assert found.values["copy"] == pytest.approx(HIDDEN["copy"], abs=0.1)


@pytest.mark.parametrize(
    ("factor", "host"),
    [
        ("pageable", HostMemory(available_bytes=2**50, pins=False)),
        ("disk", HostMemory(available_bytes=35 * GIB, page_cache_room_bytes=0)),
    ],
)
def test_weights_that_are_not_pinned_tell_the_rate_that_they_move_at(factor, host):
    ground = build_ground(host=host)
    hidden = {"compute.transformer": 0.1, factor: 0.4}
    runs = [observe(plan, ground, hidden, f"run {index}") for index, plan in enumerate(PLANS[:3])]
    found = factors_of(calibrate(runs, build_prior(pageable=0.5, disk=0.6)))
    assert found[factor].is_determined
    assert found[factor].value == pytest.approx(0.4, abs=0.05)
