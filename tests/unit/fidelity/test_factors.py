"""Each factor changes what it says, and nothing else."""

import math
from dataclasses import replace

import pytest
from builders import build_plan, kept, streamed
from calibration_builders import build_ground

from autotune.fidelity.factors import (
    apply_to_activations,
    apply_to_facts,
    apply_to_rates,
    change_context,
    settle_work,
)

GROUND = build_ground()
DOUBLE = math.log(2)
PLAN = build_plan(streamed("text_encoder"), streamed("transformer", resident=2), kept("vae"))


def _use(facts, component):
    return next(use for use in facts.work if use.component == component)


def _seconds(facts, rates=GROUND.rates):
    """Per component: layers of a pass, what each pass takes besides, and what its use takes besides."""
    return {
        use.component: (
            [
                [
                    rates.estimate_work_s(layer, use.compute_dtype)
                    for layers in group.layers.values()
                    for layer in layers
                ]
                for group in use.groups
            ],
            [rates.estimate_work_s(group.outside, use.compute_dtype) for group in use.groups],
            rates.estimate_work_s(use.outside, use.compute_dtype),
        )
        for use in facts.work
    }


@pytest.mark.parametrize(
    ("factor", "changed"),
    [
        ("copy", {"pinned_bytes_per_s", "d2h_bytes_per_s"}),
        ("pageable", {"pageable_bytes_per_s"}),
        ("disk", {"disk_bytes_per_s"}),
        ("compute.transformer", set()),
        ("pass_s", set()),
    ],
)
def test_rates_halve_where_their_factor_doubles_the_time_of_a_byte(factor, changed):
    rates = apply_to_rates(GROUND.rates, {factor: DOUBLE})
    names = ("pinned_bytes_per_s", "d2h_bytes_per_s", "pageable_bytes_per_s", "disk_bytes_per_s")
    ratios = {name: getattr(rates, name) / getattr(GROUND.rates, name) for name in names}
    assert ratios == pytest.approx({name: 0.5 if name in changed else 1.0 for name in names})
    untouched = {name: getattr(GROUND.rates, name) for name in names}
    assert replace(rates, **untouched) == GROUND.rates


def test_compute_factor_scales_all_compute_of_its_component_alone():
    before, after = _seconds(GROUND.facts), _seconds(apply_to_facts(GROUND.facts, {"compute.transformer": DOUBLE}))
    layers, passes, use_s = before["transformer"]
    assert after["transformer"][0] == [pytest.approx([2 * time_s for time_s in group]) for group in layers]
    assert after["transformer"][1:] == (pytest.approx([2 * time_s for time_s in passes]), pytest.approx(2 * use_s))
    assert {name: after[name] for name in ("text_encoder", "vae")} == {
        name: before[name] for name in ("text_encoder", "vae")
    }


def test_added_seconds_come_once_per_pass_and_once_per_use_with_passes():
    before = _seconds(GROUND.facts)
    after = _seconds(apply_to_facts(GROUND.facts, {"pass_s": 0.5, "use_s": 0.25}))
    assert after["transformer"][1] == pytest.approx([time_s + 0.5 for time_s in before["transformer"][1]])
    assert after["transformer"][2] == pytest.approx(before["transformer"][2] + 0.25)
    assert after["vae"] == before["vae"]  # it has no layers that stream: nothing is done between them
    assert after["transformer"][0] == before["transformer"][0]


def test_added_seconds_are_never_taken_away():
    assert _seconds(apply_to_facts(GROUND.facts, {"pass_s": -1.0, "use_s": -1.0})) == _seconds(GROUND.facts)


def test_activation_factor_scales_the_bytes_of_its_component_alone():
    facts = apply_to_facts(GROUND.facts, {"activations.vae": DOUBLE})
    sizes = {use.component: use.activation_bytes for use in facts.work}
    expected = {use.component: use.activation_bytes for use in GROUND.facts.work}
    assert sizes == {**expected, "vae": 2 * expected["vae"]}
    assert _seconds(facts) == _seconds(GROUND.facts)


def test_activations_alone_are_what_all_factors_make_of_them():
    factors = {"activations.vae": 0.3, "activations.transformer": -0.2, "compute.vae": 0.4, "pass_s": 0.1}
    alone, all_of_them = apply_to_activations(GROUND.facts, factors), apply_to_facts(GROUND.facts, factors)
    assert [use.activation_bytes for use in alone.work] == [use.activation_bytes for use in all_of_them.work]
    assert _seconds(alone) == _seconds(GROUND.facts)


def test_context_changes_by_base_bytes_and_is_never_below_nothing():
    assert change_context(500, {"base_bytes": 100.4, "copy": 3.0}) == 600
    assert change_context(500, {"base_bytes": -600.0}) == 0


def test_no_factor_at_all_changes_nothing():
    assert apply_to_facts(GROUND.facts, {}) == GROUND.facts
    assert apply_to_rates(GROUND.rates, {}) == GROUND.rates


@pytest.mark.parametrize("logarithm", [-1e9, 1e9])
def test_absurd_factors_still_give_rates(logarithm):
    rates = apply_to_rates(GROUND.rates, dict.fromkeys(("copy", "pageable", "disk"), logarithm))
    assert 1e3 < rates.disk_bytes_per_s < rates.pinned_bytes_per_s < math.inf


def test_settled_work_gives_the_same_seconds_and_holds_no_counts():
    facts = apply_to_facts(GROUND.facts, {"compute.transformer": 0.3, "pass_s": 0.01})
    settled = settle_work(facts, GROUND.rates)
    assert _seconds(settled) == _seconds(facts)
    assert all(not use.outside.flops and not group.outside.flops for use in settled.work for group in use.groups)
    assert [use.activation_bytes for use in settled.work] == [use.activation_bytes for use in facts.work]


def test_settled_work_no_longer_follows_the_rates_of_compute():
    settled = settle_work(GROUND.facts, GROUND.rates)
    faster = replace(GROUND.rates, matmul_flops_per_s={"bfloat16": 1e9})
    assert _seconds(settled, faster) == _seconds(GROUND.facts)
    assert _use(settled, "transformer").groups[0].outside.measured_s == 0.0
