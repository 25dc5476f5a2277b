"""Advice about switches: which are offered, in what order, and with which figures."""

from dataclasses import replace

import pytest
from builders import build_component, build_facts, build_plan, streamed
from planning_builders import SETTINGS, build_target

from autotune.catalog.registry import find_model
from autotune.catalog.variants import Variant
from autotune.workflows.advice import UNMODELLED, Catalog, find_advice
from autotune.workflows.host import change_host
from autotune.workflows.planning import build_evaluator
from autotune.workload import Recipe
from runtime.errors import InputError, PlanError
from runtime.plan_document import Advice
from runtime.target_summary import HostSummary

CAP = 20_000
MORE_HOST, HALF_LINK = "16 GiB more host memory", "half the link rate (PCIe x8 where x16 is now)"


def toy_facts(*, copy_ms=8.0, passes=16, steps=16, recipe=Recipe.DEFAULT, width=64):
    facts = build_facts({"transformer": build_component(4, compute_ms=3, copy_ms=copy_ms, passes=passes, is_dit=True)})
    return replace(facts, workload=replace(facts.workload, steps=steps, recipe=recipe, width=width, height=width))


def toy_catalog(*variants, has_recipes=False, canvas=(64, 64)):
    """Facts with a pass per step, a fast recipe of half the passes, and variants whose copies take half the time."""
    entry = replace(
        find_model("FLUX.1-dev"),
        variants=variants,
        derive=(lambda facts, name: facts) if variants else None,
        smaller_canvas=canvas,
    )

    def load(workload, variant):
        if variant == "refused":
            raise InputError("not for this request")
        slow = has_recipes and workload.recipe is Recipe.EXACT
        facts = toy_facts(
            copy_ms=4.0 if variant else 8.0, passes=workload.steps * (2 if slow else 1), width=workload.width
        )
        return replace(facts, workload=workload, variant=variant or "")

    return Catalog(entry=entry, load=load)


def ask(facts=None, catalog=None, **target):
    facts, target = facts or toy_facts(), build_target(CAP, **target)
    chosen = build_evaluator(facts, target, SETTINGS).evaluate(build_plan(streamed()))
    return find_advice(chosen, facts, target, SETTINGS, catalog=catalog)


def modelled(found):
    return {item.switch: item for item in found.advice if item.gain_ratio is not None}


def changes(found):
    return {item.change: item for item in found.what_ifs}


def variant(name, **fields):
    return Variant(name=name, title=name, flags=(f"--{name}",), **{"same_output": True, **fields})


def test_same_output_comes_first_and_what_saves_most_first_within_it():
    found = ask(catalog=toy_catalog(variant("changed", same_output=False), variant("same")))
    known = [item for item in found.advice if item.gain_ratio is not None]
    assert [item.switch for item in known] == ["--variant same", "--variant changed", "--steps 8"]
    assert [item.same_output for item in known] == [True, False, False]
    assert known[0].flags == ("--same",)
    assert len({item.now_s for item in known}) == 1


def test_a_variant_that_halves_copies_gains_where_copies_bind():
    advice = modelled(ask(catalog=toy_catalog(variant("same"))))["--variant same"]
    assert 0.5 < advice.gain_ratio < 0.7  # copies take half as long, and more layers stay
    assert advice.charged_bytes > 0


@pytest.mark.parametrize("fields", [{"dtypes": ("fp8",)}, {"load_device_bytes": 2**40}])
def test_what_the_card_cannot_run_is_not_offered(fields):
    assert "--variant special" not in modelled(ask(catalog=toy_catalog(variant("special", **fields))))


def test_a_variant_that_the_server_refuses_is_not_offered():
    assert "--variant refused" not in modelled(ask(catalog=toy_catalog(variant("refused"))))


def test_another_checkpoint_is_named():
    found = modelled(ask(catalog=toy_catalog(variant("other", same_output=False, needs_checkpoint=True))))
    assert "needs another checkpoint" in found["--variant other"].note


def test_the_variant_that_is_planned_is_not_offered_again():
    facts = replace(toy_facts(copy_ms=4), variant="same")
    assert "--variant same" not in modelled(ask(facts, toy_catalog(variant("same"))))


@pytest.mark.parametrize(("has_recipes", "offered"), [(True, True), (False, False)])
def test_the_default_recipe_is_offered_only_where_it_changes_the_passes(has_recipes, offered):
    facts = toy_facts(passes=32 if has_recipes else 16, recipe=Recipe.EXACT)
    assert ("--recipe default" in modelled(ask(facts, toy_catalog(has_recipes=has_recipes)))) is offered


def test_a_smaller_canvas_is_offered_only_where_it_is_smaller():
    facts = toy_facts(width=128)
    assert "--width 64 --height 64" in modelled(ask(facts, toy_catalog(canvas=(64, 64))))
    assert not [name for name in modelled(ask(facts, toy_catalog(canvas=(128, 128)))) if name.startswith("--width")]


def test_few_steps_are_not_halved():
    assert "--steps 4" not in modelled(ask(toy_facts(steps=8, passes=8), toy_catalog()))


def test_pinning_is_offered_only_where_it_was_turned_off():
    assert modelled(ask(pins=False))["--pin-cpu-memory"].flags == ("--pin-cpu-memory", "true")
    assert "--pin-cpu-memory" not in modelled(ask())


def test_nothing_is_offered_about_requests_of_a_model_that_is_in_no_catalog():
    assert ask().advice == UNMODELLED


def test_more_host_memory_is_asked_about_only_where_pins_do_not_hold_everything():
    assert MORE_HOST not in changes(ask())
    what_if = changes(ask(host_bytes=10_000))[MORE_HOST]
    assert what_if.then_s <= what_if.now_s
    assert MORE_HOST not in changes(ask(host_bytes=10_000, pins=False))


def test_half_the_link_costs_where_copies_bind_and_nothing_where_they_are_hidden():
    assert changes(ask(toy_facts(copy_ms=8)))[HALF_LINK].gain_ratio < -0.5
    assert changes(ask(toy_facts(copy_ms=1)))[HALF_LINK].gain_ratio == pytest.approx(0, abs=0.05)


def test_half_the_steps_is_the_same_answer_among_switches_and_among_changes():
    found = ask(catalog=toy_catalog())
    half, switch = changes(found)["half the steps"], modelled(found)["--steps 8"]
    assert (half.now_s, half.then_s) == (switch.now_s, switch.then_s)


def test_what_is_not_modelled_has_a_name_and_no_figure():
    assert all(item.gain_ratio is None and item.note for item in UNMODELLED)
    assert any("torch-compile" in item.switch for item in UNMODELLED)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"switch": ""}, "names its switch"),
        ({"now_s": 1.0}, "together"),
        ({"now_s": 1.0, "then_s": float("nan"), "charged_bytes": 1}, "finite"),
        ({"now_s": 1.0, "then_s": -1.0, "charged_bytes": 1}, "finite"),
        ({"now_s": 1.0, "then_s": 1.0, "charged_bytes": -1}, "nothing takes"),
    ],
)
def test_impossible_advice_is_refused(fields, message):
    with pytest.raises(PlanError, match=message):
        Advice(**{"switch": "--x", "same_output": True, **fields})


def test_a_page_cache_that_was_typed_stays_when_the_host_changes():
    host = HostSummary(memory_bytes=2**40, origin="", available_bytes=2**39, pins=False, page_cache_bytes=2**39)
    assert change_host(host, pins=True).page_cache_bytes == 2**39
    assert change_host(replace(host, page_cache_bytes=None), added_bytes=1).page_cache_bytes is None
