"""What holds of spreads and margins whatever the pipeline and the plan."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spread_builders import build_uncertainty
from strategies import evaluators, evaluators_with_plan, plans_of

from autotune.fidelity.peak_margin import derive_margins, derive_peak_spreads
from autotune.fidelity.spread import derive_spreads
from autotune.memory_model import MemoryModel, MemorySettings

NAMES = ("copy", "pageable", "disk", "compute.dit", "compute.text_encoder", "pass_s", "use_s", "base_bytes",
         "activations.dit")  # fmt: skip
SIZES = {"pass_s": 0.002, "use_s": 0.002, "base_bytes": 5000.0}
SDS = st.fixed_dictionaries({name: st.floats(0, SIZES.get(name, 0.5)) for name in NAMES})
QUANTILES = st.floats(0.5, 0.999)


@settings(max_examples=60, deadline=None)
@given(found=evaluators_with_plan(), sds=SDS, name=st.sampled_from(NAMES), more=st.floats(1.0, 4.0))
def test_more_uncertainty_never_narrows_a_latency_or_a_peak(found, sds, name, more):
    evaluator, plan = found
    facts = evaluator.cost_model.facts
    before, after = (build_uncertainty(values) for values in (sds, {**sds, name: sds[name] * more}))
    latencies = [derive_spreads(evaluator, uncertainty, [plan]).spread_of(plan).sd for uncertainty in (before, after)]
    assert latencies[1] >= latencies[0] * (1 - 1e-6) - 1e-12
    for narrow, wide in zip(derive_peak_spreads(facts, before), derive_peak_spreads(facts, after), strict=True):
        assert wide.sd >= narrow.sd * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), evaluator=evaluators(), sds=SDS)
def test_a_difference_is_the_same_from_both_sides(data, evaluator, sds):
    one, other = (data.draw(plans_of(evaluator)) for _ in range(2))
    spreads = derive_spreads(evaluator, build_uncertainty(sds, repeat_ratio=0.02), [one, other])
    there, back = spreads.difference(one, other), spreads.difference(other, one)
    assert there.difference_s == -back.difference_s
    assert there.spread.sd == pytest.approx(back.spread.sd)
    assert there.is_tie == back.is_tie


@settings(max_examples=60, deadline=None)
@given(evaluator=evaluators(), sds=SDS, low=QUANTILES, high=QUANTILES, reserve_bytes=st.sampled_from([0, 1000, 10**6]))
def test_a_higher_quantile_keeps_no_less_free_and_never_less_than_the_reserve(evaluator, sds, low, high, reserve_bytes):
    facts, uncertainty = evaluator.cost_model.facts, build_uncertainty(sds)
    low, high = sorted((low, high))
    kept = []
    for quantile in (low, high):
        margins = derive_margins(facts, uncertainty, quantile)
        memory = MemorySettings(context_bytes=0, reserve_bytes=reserve_bytes, margin_bytes=margins)
        kept.append(MemoryModel(facts, memory).kept_free_bytes)
    assert all(reserve_bytes <= less <= more for less, more in zip(*kept, strict=True))


@settings(max_examples=30, deadline=None)
@given(found=evaluators_with_plan(), sds=SDS)
def test_the_interval_holds_the_latency(found, sds):
    evaluator, plan = found
    spreads = derive_spreads(evaluator, build_uncertainty(sds), [plan])
    low_s, high_s = spreads.interval_of(plan)
    assert 0 <= low_s <= spreads.slopes[plan].latency_s <= high_s
