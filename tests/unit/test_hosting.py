"""Where weights wait on the host; sizes of the field cases P10 and M7, and the engines' own rules."""

from dataclasses import replace

import pytest
from builders import SGLANG, build_component, build_facts, build_plan, streamed

from runtime.deployment import Deployment
from runtime.engines.host_rules import always_pins, host_plan
from runtime.engines.registry import find_engine
from runtime.errors import InputError
from runtime.hosting import HostedLayer, HostMemory, HostTier, PinBudget, host_stack, spendable_pin_bytes
from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, PassGroup, RequestSpec, StackSpec, UseSpec
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy, streamed_layers
from runtime.units import GIB

GB = 10**9


def layers(count, size, *, views=True):
    return [HostedLayer(run_bytes=size, view_bytes=size if views else 0)] * count


def letters(hosting):
    return "".join({"pinned": "P", "pageable": "A", "mapped": "M"}.get(tier, ".") for tier in hosting.tiers)


def test_p10a_a_component_larger_than_the_budget_pins_as_many_layers_as_fit():
    size = round(61.7 * GIB / 50)
    reading = PinBudget(spendable_bytes=round(41.22 * GIB), available_bytes=200 * GIB)
    hosting, left = host_stack(layers(50, size), range(50), reading)
    assert hosting.count(HostTier.PINNED) == 33
    assert left.spendable_bytes == round(41.22 * GIB) - 33 * size


def test_p10b_pins_that_are_booked_count_when_a_pageable_copy_asks_for_room():
    # 30 GiB available, 25 booked for pins: 12 GiB of pageable copies do not fit into the 5 that are left.
    available = 30 * GIB
    reading = PinBudget(spendable_bytes=25 * GIB, available_bytes=available)
    hosting, _ = host_stack([*layers(25, GIB), *layers(12, GIB)], range(37), reading)
    assert hosting.count(HostTier.PAGEABLE) == 0
    assert hosting.count(HostTier.MAPPED) == 12


def test_p10d_streamed_layers_are_pinned_before_residents():
    streamed_set = streamed_layers(50, 35, Policy.STRIDED)
    reading = PinBudget(spendable_bytes=15 * GIB, available_bytes=100 * GIB)
    hosting, left = host_stack(layers(50, GIB), streamed_set, reading)
    pinned = [index for index, tier in enumerate(hosting.tiers) if tier is HostTier.PINNED]
    assert pinned == list(streamed_set)
    assert left.spendable_bytes == 0


def two_components():
    """P10 (c): an encoder of 20 GB used once, a DiT of 1 GB used four times."""

    def component(name, size, count, *, is_dit):
        layer = LayerSpec(checkpoint_bytes=size, run_bytes=size, transformed_bytes=size)
        return ComponentSpec(
            name=name,
            class_name="Toy",
            stacks=(StackSpec(name="blocks", layers=(layer,) * count),),
            rest_run_bytes=0,
            rest_checkpoint_bytes=0,
            run_dtype="bfloat16",
            is_dit=is_dit,
        )

    model = ModelSpec(
        name="toy",
        components=(
            component("text_encoder", GB // 2, 40, is_dit=False),
            component("transformer", GB // 2, 2, is_dit=True),
        ),
    )
    uses = (
        UseSpec(component="text_encoder", groups=(PassGroup(stacks=("blocks",), passes=1),)),
        UseSpec(component="transformer", groups=(PassGroup(stacks=("blocks",), passes=4),)),
    )
    return model, RequestSpec(uses=uses)


@pytest.mark.parametrize(
    ("engine", "pinned_gb", "covered_gb"), [("topup", [19.5, 1.0], 23.5), (SGLANG, [20.0, 0.5], 22.0)]
)
def test_p10c_what_a_budget_of_20_5_gb_covers_in_a_request(engine, pinned_gb, covered_gb):
    model, request = two_components()
    # What the loader has made itself, 21 GB, is in memory when the budget is read; 2 GiB are the reserve.
    memory = HostMemory(available_bytes=round(20.5 * GB) + 2 * GIB + 21 * GB)
    rule = find_engine(engine).host_rule(model, request, memory)
    plan = Plan(engine=engine, placements=(streamed("text_encoder"), streamed("transformer")))
    found = [component.stacks[0].pinned_bytes / GB for component in host_plan(rule, model, plan).components]
    assert found == pinned_gb
    assert found[0] + 4 * found[1] == covered_gb


@pytest.mark.parametrize(("available_gib", "spendable_gib"), [(1.2, 0), (0, 0), (2, 0), (10, 8), (100, 95), (40, 38)])
def test_m7_spendable_pins_are_never_negative(available_gib, spendable_gib):
    assert spendable_pin_bytes(round(available_gib * GIB)) == pytest.approx(spendable_gib * GIB, abs=1)


def test_m7_without_a_budget_every_layer_has_a_place():
    reading = PinBudget(spendable_bytes=0, available_bytes=0)
    assert letters(host_stack(layers(4, GIB), range(4), reading)[0]) == "MMMM"
    assert letters(host_stack(layers(4, GIB, views=False), range(4), reading)[0]) == "AAAA"


def test_a_layer_that_does_not_fit_is_skipped_for_a_smaller_one():
    sizes = [3, 1, 3, 1]
    stack = [HostedLayer(run_bytes=size * GIB, view_bytes=0) for size in sizes]
    reading = PinBudget(spendable_bytes=5 * GIB, available_bytes=100 * GIB)
    assert letters(host_stack(stack, range(4), reading)[0]) == "PPAP"


def test_permanent_residents_need_no_host_copy():
    model, request = two_components()
    rule = find_engine(SGLANG).host_rule(model, request, HostMemory(available_bytes=100 * GIB))
    kept = Placement(component="transformer", mode=Mode.LAYERWISE_OFFLOAD, resident=1, lifetime=Lifetime.PERMANENT)
    found = host_plan(rule, model, Plan(engine=SGLANG, placements=(streamed("text_encoder"), kept)))
    assert letters(found.components[1].stacks[0]) == ".P"


def test_without_pinning_the_server_copies_what_fits_and_maps_the_rest():
    few = PinBudget(spendable_bytes=0, available_bytes=7 * GIB)
    many = PinBudget(spendable_bytes=0, available_bytes=9 * GIB)
    assert letters(host_stack(layers(4, GIB), range(4), few, pins=False)[0]) == "MMMM"
    assert letters(host_stack(layers(4, GIB), range(4), many, pins=False)[0]) == "AAAA"


def test_the_server_hosts_the_dit_first_because_it_expects_it_to_run_often():
    facts = build_facts({"text_encoder": build_component(4, copy_ms=90), "dit": build_component(4, is_dit=True)})
    rule = find_engine(SGLANG).host_rule(facts.model, facts.request, HostMemory(available_bytes=100))
    assert rule.order == (0, 1)  # without a known configuration every component counts once
    stepped = replace(facts.model, deployment=Deployment(makes_images=False, default_steps=50))
    assert find_engine(SGLANG).host_rule(stepped, facts.request, HostMemory(available_bytes=100)).order == (1, 0)
    assert not always_pins(rule, facts.model)


def test_a_plan_that_needs_more_than_the_host_has_is_short():
    facts = build_facts({"dit": build_component(2, copy_ms=1000.0, is_dit=True)})
    rule = find_engine(SGLANG).host_rule(facts.model, facts.request, HostMemory(available_bytes=100))
    plan = build_plan(Placement(component="dit", mode=Mode.COMPONENT_OFFLOAD))
    assert host_plan(rule, facts.model, plan).short_bytes == facts.model.components[0].run_bytes - 100


def test_memory_that_no_machine_has_is_refused():
    with pytest.raises(InputError, match="available_bytes"):
        HostMemory(available_bytes=-1)


def test_m7_a_plan_on_a_host_without_memory_is_complete():
    model, request = two_components()
    for engine in ("topup", SGLANG):
        rule = find_engine(engine).host_rule(model, request, HostMemory(available_bytes=round(1.2 * GIB)))
        plan = Plan(engine=engine, placements=(streamed("text_encoder"), streamed("transformer")))
        found = host_plan(rule, model, plan)
        tiers = [tier for part in found.components for tier in part.stacks[0].tiers]
        assert set(tiers) == {HostTier.PAGEABLE}  # nothing of these layers is in a file
        assert all(budget.spendable_bytes == 0 for budget in found.budgets)
        assert found.cache_bytes == 0
        assert found.short_bytes == 21 * GB - round(1.2 * GIB)
