"""The profile that comes of a calibration says where each figure is from, and predicts the runs it was fitted to."""

from dataclasses import replace

import pytest
from calibration_builders import PLANS, build_ground, build_prior, observe

from autotune.fidelity.calibrated_profile import build_calibrated_profile, describe_runs, find_unseen_bytes
from autotune.fidelity.calibration import calibrate
from autotune.fidelity.case import Case, Ground
from autotune.profile import Profile, encode_profile, load_profile
from runtime.target_summary import DeviceSummary, Figure

GROUND = build_ground()
HIDDEN = {"copy": 0.2, "compute.transformer": -0.3, "base_bytes": 2e9, "activations.vae": 0.1}
RUNS = tuple(observe(plan, GROUND, HIDDEN, f"run {index}") for index, plan in enumerate(PLANS))
NAMES = tuple(case.observation.name for case in RUNS)
FIGURES = {
    "pinned_bytes_per_s": GROUND.rates.pinned_bytes_per_s,
    "d2h_pinned_bytes_per_s": GROUND.rates.d2h_bytes_per_s,
    "pageable_bytes_per_s": GROUND.rates.pageable_bytes_per_s,
    "disk_bytes_per_s": GROUND.rates.disk_bytes_per_s,
    "context_bytes": float(GROUND.context_bytes),
}
BASE = Profile(
    facts=GROUND.facts,
    rates=GROUND.rates,
    context_bytes=GROUND.context_bytes,
    device=DeviceSummary(
        name="toy",
        title="Toy",
        origin="a test",
        memory_bytes=2**40,
        usable_vram_bytes=2**40,
        figures={name: Figure(value=value, unit="1", source="datasheet") for name, value in FIGURES.items()},
        measured=("pinned_bytes_per_s", "disk_bytes_per_s"),
    ),
)


@pytest.fixture(scope="module")
def calibration():
    return calibrate(RUNS, build_prior(pageable=0.3, disk=0.3))


@pytest.fixture(scope="module")
def profile(calibration):
    return build_calibrated_profile(BASE, calibration, NAMES)


def test_determined_figures_are_marked_calibrated_with_their_runs(profile):
    figures = profile.device.figures
    assert figures["pinned_bytes_per_s"].source == "calibrated: fitted to 6 observed runs"
    assert figures["d2h_pinned_bytes_per_s"].source.startswith("calibrated")
    assert figures["pinned_bytes_per_s"].value == profile.rates.pinned_bytes_per_s
    assert profile.rates.pinned_bytes_per_s == pytest.approx(1e12 / 1.2214, rel=0.03)


def test_figures_that_runs_do_not_speak_of_keep_value_and_source(profile):
    for name in ("pageable_bytes_per_s", "disk_bytes_per_s"):
        assert profile.device.figures[name] == BASE.device.figures[name]
    assert profile.device.measured == ("disk_bytes_per_s",)


def test_ratios_of_components_say_whether_they_were_fitted_or_follow(profile, calibration):
    assert profile.facts.source == "calibrated"
    assert all(use.outside.flops == 0 for use in profile.facts.work)
    ratio = profile.device.figures["compute_ratio.transformer"]
    assert ratio.value == pytest.approx(0.741, rel=0.05)
    assert ratio.source.startswith("calibrated")
    for factor in calibration.factors:
        if factor.name.startswith("activations."):
            figure = profile.device.figures[f"activations_ratio.{factor.name.partition('.')[2]}"]
            assert figure.source.startswith("calibrated" if factor.is_determined else "estimated")


def test_profile_predicts_the_runs_it_was_fitted_to(profile, calibration):
    ground = Ground(
        facts=profile.facts,
        rates=profile.rates,
        context_bytes=profile.context_bytes,
        host=GROUND.host,
        engine=GROUND.engine,
    )
    for case in RUNS:
        again = Case(case.observation, case.plan, ground)
        observed = [latency.seconds for latency in case.observation.latencies]
        assert again.predict_latencies_s(ground.build_evaluator({})) == pytest.approx(observed, rel=0.02)
        before = case.predict_latencies_s(GROUND.build_evaluator(calibration.values))
        assert again.predict_latencies_s(ground.build_evaluator({})) == pytest.approx(before)


def test_profile_survives_its_file(profile, tmp_path):
    path = tmp_path / "profile.json"
    path.write_bytes(encode_profile(profile))
    assert load_profile(path) == profile
    assert load_profile(path).digest == profile.digest != BASE.digest


def test_digest_knows_the_uncertainty(profile):
    assert replace(profile, uncertainty=None).digest != profile.digest


def test_profile_that_is_calibrated_again_stays_where_it_is(profile):
    unseen_bytes = find_unseen_bytes(profile)
    assert unseen_bytes == GROUND.context_bytes
    ground = Ground(
        facts=profile.facts,
        rates=profile.rates,
        context_bytes=profile.context_bytes,
        host=GROUND.host,
        engine=GROUND.engine,
        unseen_bytes=unseen_bytes,
    )
    again = calibrate([Case(case.observation, case.plan, ground) for case in RUNS], profile.uncertainty)
    assert max(abs(item.before / item.observed - 1) for item in again.residuals) < 0.02
    assert again.values["copy"] == pytest.approx(0.0, abs=0.03)
    assert again.values["base_bytes"] == pytest.approx(0.0, abs=1e9)
    assert again.uncertainty.sd_of("copy") <= 1.1 * profile.uncertainty.sd_of("copy")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["A"], "the observed run A"),
        (["A", "B"], "the observed runs A, B"),
        (["A", "B", "C", "D", "E"], "5 observed runs"),
    ],
)
def test_runs_in_words(names, words):
    assert describe_runs(names) == words
