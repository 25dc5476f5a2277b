"""What searches and documents make of how far predictions may be off."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from builders import build_component, build_facts
from planning_builders import SETTINGS, build_target
from spread_builders import build_uncertainty

from autotune.profile import Profile
from autotune.workflows.alternatives import Alternative
from autotune.workflows.document import build_document
from autotune.workflows.findings import list_findings
from autotune.workflows.host import HostWish
from autotune.workflows.planned import NothingFits
from autotune.workflows.planning import build_evaluator, choose_uncertainty, make_plan
from autotune.workflows.target import target_of_profile

COPY_BOUND = build_facts({"transformer": build_component(8, compute_ms=1.0, copy_ms=10.0, passes=50, is_dit=True)})
COMPUTE_BOUND = build_facts({"transformer": build_component(8, compute_ms=10.0, copy_ms=1.0, passes=50, is_dit=True)})
HALF_BYTES = 50_000
TWO_LAYERS_BYTES = 21_000


def plan_for(facts, sds, *, settings=SETTINGS, repeat_ratio=0.02, cap_bytes=HALF_BYTES, **options):
    """A plan under ``cap_bytes``, and its document."""
    target = replace(build_target(cap_bytes), uncertainty=build_uncertainty(sds, repeat_ratio=repeat_ratio))
    planned = make_plan(facts, target, settings, **options)
    profile = Profile(facts=facts, rates=target.rates, context_bytes=0, device=target.device)
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return planned, build_document(planned, profile, target, settings, command="autotune", created=created)


def test_tuning_pays_where_the_plan_is_faster_by_more_than_the_noise():
    _, document = plan_for(COPY_BOUND, {"copy": 0.1})
    assert document.findings[0].startswith("Tuning pays")
    assert "the plan is faster than everything streamed by" in document.findings[0]
    streamed = next(item for item in document.comparisons if item.name == "streamed")
    assert streamed.difference_s == pytest.approx(streamed.latency_s - document.prediction.latency_s)
    assert 0 < streamed.difference_sd_s < streamed.difference_s


def test_a_gain_that_noise_could_be_is_a_tie_and_the_default_knobs_stay():
    _, document = plan_for(COMPUTE_BOUND, {"copy": 0.1})
    assert document.findings[0].startswith("Copies are hidden behind compute")
    assert "are a tie" in document.findings[0]
    assert "Keep the server's default knobs" in document.findings[0]


def test_waits_that_no_placement_hides_are_not_called_hidden():
    _, document = plan_for(COPY_BOUND, {"copy": 0.1}, cap_bytes=TWO_LAYERS_BYTES)
    assert document.findings[0].startswith("No placement under this cap hides the")


def test_a_gain_of_which_too_little_is_known_is_a_tie_that_says_what_to_measure():
    _, document = plan_for(COPY_BOUND, {"copy": 4.0})
    assert document.findings[0].startswith("Whether tuning pays is not known")
    assert "mostly from copies from and to pinned memory (estimated)" in document.findings[0]


def test_where_tuning_would_pay_is_asked_only_when_the_plan_is_a_tie():
    asked = []
    alternative = Alternative(setting="other", facts=lambda: asked.append("other") or COPY_BOUND)
    plan_for(COPY_BOUND, {"copy": 0.1}, alternatives=(alternative,))
    assert not asked
    planned, document = plan_for(COMPUTE_BOUND, {"copy": 0.1}, alternatives=(alternative,))
    assert asked == ["other"]
    assert planned.tuning_gains[0].difference_sd_s > 0
    assert document.findings[1].startswith("Tuning pays where copies weigh more")


def test_a_plan_says_what_its_latency_and_peak_may_be_off_by_and_from_what():
    _, document = plan_for(COPY_BOUND, {"copy": 0.1, "base_bytes": 1000.0})
    prediction = document.prediction
    assert prediction.latency_low_s < prediction.latency_s < prediction.latency_high_s
    assert prediction.latency_cause == "copies from and to pinned memory (estimated)"
    assert prediction.peak_sd_bytes == 1000
    assert prediction.peak_quantile == 0.5
    assert any("two plans are a tie" in item for item in document.assumptions)


def test_a_higher_quantile_keeps_the_expected_peak_farther_below_the_cap():
    sds = {"base_bytes": 6000.0}
    expected = [
        plan_for(COPY_BOUND, sds, settings=replace(SETTINGS, peak_quantile=quantile))[1].prediction.peak
        for quantile in (0.5, 0.95)
    ]
    assert [phase.kept_free_bytes for phase in expected] == [0, 9870]
    assert expected[1].expected_bytes < expected[0].expected_bytes
    assert expected[1].charged_bytes <= build_target(HALF_BYTES).cap.effective_bytes


def test_what_fits_in_expectation_may_not_fit_in_all_cases_but_one_in_twenty():
    target = replace(build_target(HALF_BYTES), uncertainty=build_uncertainty({"base_bytes": 60_000.0}))
    safe = make_plan(COPY_BOUND, target, replace(SETTINGS, peak_quantile=0.95))
    assert isinstance(safe, NothingFits)
    assert safe.nearest.peak.kept_free_bytes > safe.short_bytes > 0
    assert not isinstance(make_plan(COPY_BOUND, target, SETTINGS), NothingFits)


@pytest.mark.parametrize(("missing_bytes", "verb"), [(1, "may run"), (1646, "runs")])
def test_a_default_over_the_cap_runs_out_of_memory_or_may_by_what_is_expected(missing_bytes, verb):
    settings = replace(SETTINGS, peak_quantile=0.95)
    target = replace(build_target(HALF_BYTES), uncertainty=build_uncertainty({"base_bytes": 1000.0}))
    planned = make_plan(COPY_BOUND, target, settings)
    planned = replace(planned, server_default=planned.resident)
    cap = replace(target.cap, effective_bytes=planned.resident.peak.charged_bytes - missing_bytes)
    findings = list_findings(planned, build_evaluator(COPY_BOUND, target, settings), replace(target, cap=cap))
    assert any(f"Left to itself the server {verb} out of memory" in finding for finding in findings)


def test_a_rate_that_is_typed_takes_the_place_of_what_runs_said_of_it():
    target = build_target(HALF_BYTES)
    known = build_uncertainty({"copy": 0.01, "disk": 0.01}, covariance={("copy", "disk"): 5e-5})
    profile = Profile(facts=COPY_BOUND, rates=target.rates, context_bytes=0, device=target.device, uncertainty=known)

    def read(pinned_bytes_per_s):
        found = target_of_profile(profile, vram_cap_bytes=None, host=HostWish(), pinned_bytes_per_s=pinned_bytes_per_s)
        return choose_uncertainty(COPY_BOUND, found)

    assert read(None) == known
    assert read(2e6).sd_of("copy") > 0.1
    assert read(2e6).sd_of("disk") == pytest.approx(0.01)
    assert read(2e6).covariance[0][1] == 0.0
