"""What runs determine, what follows, and which run is off."""

from dataclasses import replace

import numpy as np
import pytest
from calibration_builders import PLANS, build_ground, build_prior, factors_of, observe, with_figures

from autotune.fidelity.calibration import CONFIDENCE, DRAWS, calibrate
from autotune.observed.observation import ObservedPeak, PeakKind
from autotune.uncertainty import is_memory_factor
from runtime.errors import InputError

GROUND = build_ground()
PRIOR = build_prior()
HIDDEN = {"copy": 0.2, "compute.transformer": -0.3, "pass_s": 0.001, "base_bytes": 2e9, "activations.vae": 0.1}
RUNS = tuple(observe(plan, GROUND, HIDDEN, f"run {index}") for index, plan in enumerate(PLANS))


def correlate(prior, first, second, common):
    """``prior`` with ``common`` as the covariance of two factors."""
    covariance = np.asarray(prior.covariance)
    one, other = prior.names.index(first), prior.names.index(second)
    covariance[one, other] = covariance[other, one] = common
    return replace(prior, covariance=tuple(map(tuple, covariance.tolist())))


def test_quiet_runs_give_the_hidden_factors_back():
    found = factors_of(calibrate(RUNS, PRIOR))
    for name in ("copy", "compute.transformer"):
        assert found[name].value == pytest.approx(HIDDEN[name], abs=0.03)
        assert found[name].is_determined
    assert all(item.low <= HIDDEN.get(name, 0.0) <= item.high for name, item in found.items())


def test_fitted_runs_are_predicted_better_than_before():
    residuals = calibrate(RUNS, PRIOR).residuals
    assert len(residuals) == len(RUNS) * 4
    assert [item.run for item in residuals[:4]] == ["run 0"] * 4
    assert max(abs(item.error_ratio) for item in residuals) < 0.02
    assert max(abs(item.before / item.observed - 1) for item in residuals) > 0.1


def test_calibration_is_the_same_every_time():
    assert calibrate(RUNS[:2], PRIOR) == calibrate(RUNS[:2], PRIOR)


def test_figure_that_never_binds_is_named_as_undetermined():
    hidden = [with_figures(case, latencies=case.observation.latencies) for case in RUNS[:1]]
    found = factors_of(calibrate(hidden, PRIOR))
    assert not found["compute.vae"].is_determined
    assert found["compute.vae"].high - found["compute.vae"].low > 2 * found["compute.vae"].sd_before


def test_use_that_copies_bind_speaks_of_copies_alone():
    use = tuple(item for item in RUNS[0].observation.latencies if item.component == "text_encoder")
    found = calibrate([with_figures(RUNS[0], latencies=use)], PRIOR)
    assert set(factors_of(found)) == {"copy"}
    assert {name for name, value in found.values.items() if value} == {"copy"}


def test_factor_that_shares_something_follows_the_fitted_one():
    prior = correlate(PRIOR, "compute.transformer", "compute.vae", 0.06)
    use = tuple(item for item in RUNS[4].observation.latencies if item.component == "transformer")
    found = calibrate([with_figures(RUNS[4], latencies=use)], prior)
    assert "compute.vae" not in factors_of(found)
    assert found.values["compute.transformer"] == pytest.approx(-0.3, abs=0.05)
    assert found.values["compute.vae"] == pytest.approx(found.values["compute.transformer"] * 0.06 / 0.09, rel=0.01)
    assert found.uncertainty.sd_of("compute.vae") < prior.sd_of("compute.vae")


def test_times_say_nothing_about_memory_and_peaks_nothing_about_time():
    times = calibrate([with_figures(case, latencies=case.observation.latencies) for case in RUNS], PRIOR)
    peaks = calibrate([with_figures(case, peak=case.observation.peak) for case in RUNS], PRIOR)
    assert not any(is_memory_factor(name) for name in factors_of(times))
    assert all(is_memory_factor(name) for name in factors_of(peaks))
    assert {name: times.values[name] for name in factors_of(peaks)} == dict.fromkeys(factors_of(peaks), 0.0)
    assert peaks.noise_ratio == PRIOR.repeat_ratio


def test_bad_figure_is_set_aside_and_named():
    slow = tuple(replace(item, seconds=2 * item.seconds) for item in RUNS[1].observation.latencies[:1])
    bad = with_figures(RUNS[1], latencies=slow + RUNS[1].observation.latencies[1:], peak=RUNS[1].observation.peak)
    found = calibrate([RUNS[0], bad, *RUNS[2:]], PRIOR)
    assert [(item.run, item.what) for item in found.residuals if item.is_outlier] == [("run 1", "request")]
    assert found.values["copy"] == pytest.approx(HIDDEN["copy"], abs=0.03)


def test_runs_without_figures_are_refused():
    peak = ObservedPeak(size_bytes=10**9, kind=PeakKind.DRIVER)
    ran_out = with_figures(RUNS[0], peak=peak, ran_out=True)
    with pytest.raises(InputError, match="neither a latency nor a peak"):
        calibrate([ran_out], PRIOR)


def test_what_a_run_had_when_it_ran_out_is_no_peak():
    peak = ObservedPeak(size_bytes=10**9, kind=PeakKind.DRIVER)
    assert calibrate([*RUNS[:2], with_figures(RUNS[2], peak=peak, ran_out=True)], PRIOR) == calibrate(RUNS[:2], PRIOR)


def test_draws_are_spread_as_the_uncertainty_says():
    found = calibrate(RUNS, PRIOR)
    assert len(found.draws) == DRAWS
    copies = np.array([draw["copy"] for draw in found.draws])
    assert copies.std() == pytest.approx(found.uncertainty.sd_of("copy"), rel=0.5)
    assert all(set(draw) == set(PRIOR.names) for draw in found.draws)


def test_sources_name_what_was_calibrated():
    found = calibrate(RUNS, PRIOR)
    determined = {factor.name for factor in found.factors if factor.is_determined}
    assert {name for name, source in found.uncertainty.sources.items() if source == "calibrated"} == determined


def test_intervals_of_times_and_memory_hold_together():
    found = calibrate(RUNS, PRIOR)
    of_each = [[item for item in found.factors if is_memory_factor(item.name) is kind] for kind in (False, True)]
    assert all(of_each)
    inside = [
        np.mean([all(item.low <= draw[item.name] <= item.high for item in items) for draw in found.draws])
        for items in of_each
    ]
    assert min(inside) >= CONFIDENCE - 0.04


def test_added_time_of_nothing_is_within_its_interval():
    quiet = [observe(plan, GROUND, {}, f"run {index}") for index, plan in enumerate(PLANS)]
    found = factors_of(calibrate(quiet, PRIOR))
    assert (found["pass_s"].low, found["use_s"].low) == (0.0, 0.0)
