"""The run that is suggested does determine what was open."""

import pytest
from builders import build_plan, kept, streamed
from calibration_builders import PLANS, build_ground, build_prior, factors_of, observe

from autotune.fidelity.calibration import DETERMINED_RATIO, calibrate
from autotune.fidelity.next_run import suggest_runs

GROUND = build_ground()
HIDDEN = {"copy": 0.1, "compute.transformer": -0.1, "compute.text_encoder": 0.1, "compute.vae": 0.1}
PRIOR = build_prior()
STREAMED = observe(PLANS[0], GROUND, HIDDEN, "streamed")


def _make(run):
    """The run that a suggestion describes, with the hidden factors."""
    setting, _, value = run.partition("=")
    component, _, knob = setting.partition(".")
    placements = {item.component: item for item in PLANS[0].placements}
    placements[component] = kept(component) if value == "resident" else streamed(component, **{knob: int(value)})
    return observe(build_plan(*placements.values()), GROUND, HIDDEN, run)


@pytest.fixture(scope="module")
def suggestions():
    return {item.factor: item for item in suggest_runs([STREAMED], calibrate([STREAMED], PRIOR))}


def test_only_what_is_open_is_asked_for(suggestions):
    found = factors_of(calibrate([STREAMED], PRIOR))
    assert set(suggestions) == {name for name, factor in found.items() if not factor.is_determined}


def test_suggested_run_determines_the_factor_once_it_is_made(suggestions):
    settled = [item for item in suggestions.values() if "=" in item.run]
    assert settled
    for item in settled:
        found = factors_of(calibrate([STREAMED, _make(item.run)], PRIOR))
        assert found[item.factor].is_determined, item


def test_expected_narrowing_is_told_and_enough(suggestions):
    for item in suggestions.values():
        assert item.like == "streamed"
        assert item.sd_then <= DETERMINED_RATIO * PRIOR.sd_of(item.factor) if item.run else item.sd_then == item.sd


def test_nothing_is_suggested_where_everything_is_determined():
    runs = [observe(plan, GROUND, HIDDEN, f"run {index}") for index, plan in enumerate(PLANS)]
    calibration = calibrate(runs, build_prior(base_bytes=1.0))
    assert all(factor.is_determined for factor in calibration.factors)
    assert suggest_runs(runs, calibration) == ()


def test_factor_that_no_run_narrows_is_said_to_stay(suggestions):
    base = suggestions["base_bytes"]
    assert (base.run, base.sd_then) == ("", base.sd)
