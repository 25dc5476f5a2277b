"""Whole components: when the server moves them ahead, and what a cast on the way costs."""

from dataclasses import replace

import pytest
from builders import NO_OVERHEAD, RATES, build_component, build_facts, build_plan, kept, moved, streamed

from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator
from autotune.memory_model import MemoryModel
from runtime.engines.registry import find_engine
from runtime.model_spec import RequestSpec


def evaluator_of(facts):
    return Evaluator(CostModel(facts, RATES), MemoryModel(facts, NO_OVERHEAD), find_engine("sglang@0.5.23"))


@pytest.fixture
def two_encoders():
    """Two encoders before a diffusion transformer that is moved whole."""
    return build_facts({"clip": build_component(2), "t5": build_component(2), "dit": build_component(2, is_dit=True)})


@pytest.mark.parametrize(("hands_over", "moved_after"), [(True, "t5"), (False, "clip")])
def test_a_moved_transformer_follows_the_last_encoder_of_a_stage(two_encoders, hands_over, moved_after):
    uses = two_encoders.request.uses
    request = RequestSpec(uses=(replace(uses[0], hands_over=hands_over), *uses[1:]))
    evaluator = evaluator_of(replace(two_encoders, request=request))
    plan = build_plan(streamed("clip"), streamed("t5"), moved("dit"))
    program = evaluator.lifecycle.build_program(plan)
    ups = [
        program.components[use.component]
        for use in program.later.uses
        if any(program.name(action)[0] == "up" for action in use.after.actions)
    ]
    assert ups == [moved_after]


def test_a_cast_on_the_way_up_counts_in_the_peak_only():
    facts = build_facts({"vae": build_component(2)})
    vae = facts.model.components[0]
    cast = replace(facts, model=replace(facts.model, components=(replace(vae, cast_bytes=2 * vae.run_bytes),)))
    plain, with_cast = (evaluator_of(each).evaluate(build_plan(moved("vae"))) for each in (facts, cast))
    assert with_cast.latency_s == plain.latency_s
    assert with_cast.peak.streamed_bytes == 2 * plain.peak.streamed_bytes


def test_a_resident_component_is_never_cast():
    facts = build_facts({"vae": build_component(2)})
    vae = facts.model.components[0]
    cast = replace(facts, model=replace(facts.model, components=(replace(vae, cast_bytes=2 * vae.run_bytes),)))
    assert evaluator_of(cast).evaluate(build_plan(kept("vae"))).peak.live_bytes == vae.run_bytes
