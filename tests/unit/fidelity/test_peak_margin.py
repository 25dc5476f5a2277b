"""How far peaks may be off, and what a quantile keeps free."""

import math
from dataclasses import replace

import pytest
from builders import build_component, build_facts
from spread_builders import build_uncertainty

from autotune.fidelity.peak_margin import check_quantile, derive_margins, derive_peak_spreads
from autotune.memory_model import ACTIVATION_RESERVED_RATIO, MemoryModel, MemorySettings
from autotune.phases import phase_names
from runtime.errors import InputError

FACTS = build_facts({"vae": build_component(0, outside_ms=1.0, activation_bytes=10_000)})
USE = phase_names(FACTS.request).index("later request: vae")
IDLE = phase_names(FACTS.request).index("later request: idle")
SDS = {"base_bytes": 3000.0, "activations.vae": 0.25, "copy": 0.2}
RESERVED = 10_000 * ACTIVATION_RESERVED_RATIO


def test_a_phase_is_off_by_base_bytes_and_by_what_is_reserved_for_its_activations():
    spreads = derive_peak_spreads(FACTS, build_uncertainty(SDS))
    assert spreads[IDLE].sd == pytest.approx(3000.0)
    assert spreads[USE].sd == pytest.approx(math.hypot(3000.0, 0.25 * RESERVED))
    assert (spreads[IDLE].cause, spreads[USE].cause) == ("base_bytes", "activations.vae")


def test_activations_of_which_more_is_known_to_be_reserved_are_off_by_more():
    known = replace(FACTS, work=tuple(replace(work, reserved_ratio=2.0) for work in FACTS.work))
    spreads = derive_peak_spreads(known, build_uncertainty({"activations.vae": 0.25}))
    assert spreads[USE].sd == pytest.approx(0.25 * 2.0 * 10_000)


def test_the_margin_is_the_quantile_of_a_normal_distribution():
    margins = derive_margins(FACTS, build_uncertainty({"base_bytes": 1000.0}), 0.95)
    assert set(margins) == {1645}
    assert set(derive_margins(FACTS, build_uncertainty(SDS), 0.5)) == {0}


def test_what_is_kept_free_is_the_larger_of_reserve_and_margin():
    margins = derive_margins(FACTS, build_uncertainty({"activations.vae": 0.25}), 0.95)
    settings = MemorySettings(context_bytes=0, reserve_bytes=2000, margin_bytes=margins)
    memory = MemoryModel(FACTS, settings)
    assert memory.kept_free_bytes[IDLE] == 2000
    assert memory.kept_free_bytes[USE] == margins[USE] > 2000
    least = MemoryModel(FACTS, replace(settings, reserve_bytes=0, margin_bytes=()))
    added = [high - low for high, low in zip(memory.charged_overhead_bytes, least.charged_overhead_bytes, strict=True)]
    assert tuple(added) == memory.kept_free_bytes


@pytest.mark.parametrize("quantile", [0.49, 1.0, -1.0, math.nan, 95])
def test_a_quantile_below_the_expectation_or_of_every_case_is_refused(quantile):
    with pytest.raises(InputError, match="--peak-quantile"):
        check_quantile(quantile)


def test_factors_of_times_do_not_matter_to_peaks():
    spreads = derive_peak_spreads(FACTS, build_uncertainty({"copy": 0.5, "compute.vae": 0.5}))
    assert [spread.sd for spread in spreads] == [0.0] * len(spreads)
