"""The fastest way of running a model, among those that a card can run without changing the output."""

from dataclasses import replace

import pytest
from builders import build_component, build_facts
from planning_builders import SETTINGS, build_target

from autotune.catalog.registry import find_model
from autotune.catalog.variants import Variant
from autotune.workflows.variant_choice import choose_variant, find_fast_score, runs_on, variant_findings
from runtime.errors import InputError
from runtime.units import GIB

CAP = 1_000_000


def facts_of(copy_ms):
    return build_facts({"transformer": build_component(4, compute_ms=3, copy_ms=copy_ms, passes=5, is_dit=True)})


def entry_of(*variants, copies_ms):
    """A catalog entry whose variants are toy models with other copy times; None is refused."""

    def derive(facts, name):
        if copies_ms[name] is None:
            raise InputError("not for this request")
        return facts_of(copies_ms[name])

    entry = find_model("FLUX.1-dev")
    return replace(entry, variants=tuple(variants), derive=derive)


def variant(name, **fields):
    return Variant(name=name, title=name, flags=(f"--{name}",), **{"same_output": True, **fields})


def choose(*variants, copies_ms, cap_bytes=20_000):
    return choose_variant(entry_of(*variants, copies_ms=copies_ms), facts_of(8), build_target(cap_bytes), SETTINGS)


def test_the_fastest_variant_with_the_same_output_is_taken_and_both_times_are_told():
    choice = choose(variant("thin"), variant("thinner"), copies_ms={"thin": 6, "thinner": 4})
    assert choice.name == "thinner"
    assert choice.latency_s["thinner"] < choice.latency_s["thin"] < choice.latency_s[""]
    assert "took variant thinner" in choice.describe()
    assert "the model as released takes" in choice.describe()


@pytest.mark.parametrize(
    "field", [{"same_output": False}, {"needs_checkpoint": True}, {"dtypes": ("fp8",)}, {"load_device_bytes": GIB}]
)
def test_what_changes_the_output_or_cannot_run_is_no_candidate(field):
    choice = choose(variant("thin", **field), copies_ms={"thin": 1})
    assert choice.name == ""
    assert "no other way" in choice.describe()


def test_a_variant_that_the_server_refuses_is_left_out():
    assert choose(variant("thin"), copies_ms={"thin": None}).name == ""


def test_ties_go_to_the_model_as_released():
    choice = choose(variant("same"), copies_ms={"same": 8})
    assert choice.name == ""
    assert choice.latency_s["same"] == choice.latency_s[""]


def test_a_variant_that_fits_beats_a_release_that_does_not():
    choice = choose(variant("thin"), copies_ms={"thin": 2}, cap_bytes=5_000)
    assert choice.name == "thin"
    assert "has no plan that fits" in choice.describe()


def test_the_coarse_search_keeps_what_the_user_fixed_and_says_when_nothing_fits():
    assert find_fast_score(facts_of(8), build_target(CAP), SETTINGS).latency_s > 0
    assert find_fast_score(facts_of(8), build_target(10), SETTINGS) is None


def test_loading_must_fit_the_cap():
    heavy = variant("heavy", load_device_bytes=CAP * 2)
    assert not runs_on(heavy, build_target(CAP - 2**26))
    assert runs_on(heavy, build_target(CAP * 3))


def test_a_forced_variant_that_cannot_load_is_a_warning():
    h3 = replace(facts_of(8), variant="fp8")
    named = replace(h3, model=replace(h3.model, name="H3"))
    assert "cannot be loaded here" in variant_findings(named, build_target(CAP))[0]
    assert variant_findings(named, build_target(100 * GIB)) == ()
    assert variant_findings(facts_of(8), build_target(CAP)) == ()
