"""Whose bytes are on the device at the peak of every phase: they add up to what the phases are charged for."""

import pytest
from builders import ToyComponent, build_component, build_evaluator, build_plan, build_stack, kept, moved, streamed

from autotune.live_owners import walk_owners
from runtime.residency import Lifetime, Policy

COMPONENTS = {
    "text_encoder": build_component(4, copy_ms=5.0, rest_ms=2.0),
    "transformer": ToyComponent(
        stacks={"blocks": build_stack(6, passes=5), "refiner": build_stack(2, copy_ms=1.0)}, is_dit=True
    ),
    "vae": build_component(3, copy_ms=2.0, rest_ms=1.0),
}
PLANS = {
    "streamed": (streamed("text_encoder"), streamed(), streamed("vae")),
    "ahead": (streamed("text_encoder", prefetch=3), streamed(prefetch=4), kept("vae")),
    "residents": (moved("text_encoder"), streamed(resident=3, policy=Policy.STRIDED), moved("vae")),
    "permanent": (kept("text_encoder"), streamed(resident=2, lifetime=Lifetime.PERMANENT), moved("vae")),
}


def owners_of(plan):
    evaluator = build_evaluator(COMPONENTS)
    program = evaluator.lifecycle.build_program(plan)
    return evaluator.evaluate(plan).phases, walk_owners(program, evaluator.cost_model.stack_costs)


@pytest.mark.parametrize("name", PLANS)
def test_owners_add_up_to_the_streamed_bytes_of_every_phase(name):
    phases, owners = owners_of(build_plan(*PLANS[name]))
    assert [sum(owner.values()) for owner in owners] == [phase.streamed_bytes for phase in phases]
    assert max(map(len, owners)) >= 1


def test_a_component_that_is_used_owns_its_layers_and_one_that_is_resident_none():
    phases, owners = owners_of(build_plan(*PLANS["ahead"]))
    by_phase = {phase.phase: owner for phase, owner in zip(phases, owners, strict=True)}
    assert by_phase["later request: transformer"]["transformer"] >= 2 * 6000
    assert by_phase["later request: text_encoder"]["text_encoder"] >= 4 * 5000 - 5000
    assert all("vae" not in owner for owner in owners)


def test_a_moved_component_is_owned_whole_while_it_is_in_use_and_not_after():
    phases, owners = owners_of(build_plan(*PLANS["residents"]))
    by_phase = {phase.phase: owner for phase, owner in zip(phases, owners, strict=True)}
    assert by_phase["later request: vae"]["vae"] == 3 * 2000 + 1000
    assert "vae" not in by_phase["later request: idle"]
