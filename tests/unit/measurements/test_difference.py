"""What differs between two profiles."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profile_builders import (
    CARD,
    build_fingerprint,
    build_interference,
    build_link,
    build_links,
    build_model_profile,
    build_node_profile,
    build_record,
    timed,
)

from autotune.measurements.difference import compare_model_profiles, compare_node_profiles
from autotune.measurements.model_profile import MeasuredPiece
from runtime.errors import ProfileError
from runtime.target_summary import Figure


def piece(name, **changes):
    return MeasuredPiece(record=build_record(name, **changes), places=(name,), calls=1, passes=1)


@given(seeds=st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)))
def test_two_runs_with_one_percent_noise_do_not_differ(seeds):
    one, two = (build_model_profile(noise_ratio=0.01, seed=seed) for seed in seeds)
    assert compare_model_profiles(one, two).changes == ()


@given(seed=st.integers(0, 10_000), layer=st.integers(0, 3))
def test_one_layer_that_became_a_fifth_slower_is_found_and_named(seed, layer):
    times = [3e-3] * 4
    times[layer] *= 1.2
    before = build_model_profile(noise_ratio=0.01, seed=seed)
    after = build_model_profile(times_s=tuple(times), noise_ratio=0.01, seed=seed + 1)
    (change,) = compare_model_profiles(before, after).changes
    assert change.name == f"transformer blocks[{layer}]: time"
    assert change.change_ratio == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize(("slow", "name"), [(0, "blocks[0]"), (1, "blocks[0] as called in way 2")])
def test_a_place_that_is_called_in_several_ways_is_compared_in_each(slow, name):
    times = [[3e-3, 5e-3], [3e-3, 5e-3]]
    times[1][slow] *= 1.2
    profile = build_model_profile()
    before, after = (
        replace(profile, pieces=tuple(piece("blocks[0]", median_s=median_s) for median_s in side)) for side in times
    )
    (change,) = compare_model_profiles(before, after).changes
    assert change.name == f"transformer {name}: time"


def test_layers_that_share_one_measurement_in_both_are_one_answer():
    before, after = build_model_profile(), build_model_profile(times_s=(3.3e-3,) * 4)
    (change,) = compare_model_profiles(before, after).changes
    assert (change.name, change.alike) == ("transformer blocks[0]: time", 4)


def test_a_small_change_outside_the_spread_and_a_large_one_inside_it_are_none():
    before = build_model_profile()
    small = build_model_profile(times_s=(3.08e-3,) * 4)
    wide = replace(before, pieces=(piece("blocks[0]", timing=timed(3.3e-3, noise_ratio=0.3, count=5)),))
    assert compare_model_profiles(before, small).changes == ()
    assert not any(item.verdict == "changed" for item in compare_model_profiles(before, wide).comparisons)


def test_pieces_in_one_profile_only_and_those_that_failed_once_are_told():
    before = build_model_profile(times_s=(3e-3,))
    lost = build_record("blocks[0]", outcome="out_of_memory", timing=None, rise_bytes=None)
    after = replace(before, pieces=(replace(before.pieces[0], record=lost), piece("extra")))
    first, *others = compare_model_profiles(before, after).changes
    assert (first.name, first.note) == ("transformer blocks[0]: time", "measured, then out of memory")
    assert {item.verdict for item in others} == {"only in the second"}


def test_activations_are_compared_too():
    before = build_model_profile(times_s=(3e-3,))
    after = replace(before, pieces=(piece("blocks[0]", rise_bytes=2000),))
    (change,) = compare_model_profiles(before, after).changes
    assert (change.name, change.unit, change.change_ratio) == ("transformer blocks[0]: activations", "bytes", 1.0)


def test_another_card_is_a_circumstance_and_another_model_is_refused():
    before = build_model_profile(versions={"torch": "2.13"})
    after = replace(before, kind=CARD, versions={"torch": "2.14"})
    difference = compare_model_profiles(before, after)
    assert difference.changes == ()
    assert "torch: 2.13, then 2.14" in difference.circumstances
    other = replace(before, facts=replace(before.facts, model=replace(before.facts.model, name="H3")))
    with pytest.raises(ProfileError, match=r"different models \(toy; H3\)"):
        compare_model_profiles(before, other)


def test_links_interference_and_figures_of_a_node_are_compared():
    before = build_node_profile(interference=(build_interference(),))
    figures = {**before.figures, "context_bytes": Figure(value=5e8, unit="bytes", source="read")}
    after = replace(
        before,
        links=build_links(pinned=1e6),
        interference=(build_interference(compute_ratio=0.5),),
        figures=figures,
        node=build_fingerprint(machine="other"),
    )
    difference = compare_node_profiles(before, after)
    assert [item.name for item in difference.changes] == [
        "pinned_h2d of 5.9 KiB",
        "toy transformer blocks[0]: compute beside copies",
        "context_bytes",
    ]
    assert any(text.startswith("machine: ") for text in difference.circumstances)


def test_figures_of_one_moment_are_left_out():
    figure = Figure(value=1e9, unit="bytes", source="read")
    one, two = (
        build_node_profile(figures={"host_available_bytes": replace(figure, value=value)}) for value in (1e9, 2e9)
    )
    difference = compare_node_profiles(one, two)
    assert difference.changes == ()
    assert difference.left_out == ("host_available_bytes",)


@pytest.mark.parametrize(("unit", "factor", "changes"), [("s/byte", 1.24, 0), ("s/byte", 1.26, 1), ("bytes", 1.04, 1)])
def test_a_rate_that_was_measured_once_needs_a_larger_change_than_bytes_that_were_read(unit, factor, changes):
    figure = Figure(value=1e-9, unit=unit, source="measured")
    one, two = (build_node_profile(figures={"pin": replace(figure, value=1e-9 * by)}) for by in (1, factor))
    difference = compare_node_profiles(one, two)
    assert len(difference.changes) == changes
    (pin,) = (item for item in difference.comparisons if item.name == "pin")
    assert pin.before.low == pin.before.median == pin.before.high


def test_a_link_in_one_profile_only_is_told():
    before = build_node_profile()
    after = replace(before, links=(*before.links, build_link(size_bytes=10**9)))
    (change,) = compare_node_profiles(before, after).changes
    assert change.verdict == "only in the second"
