"""Times and memory of whole lives, phase by phase."""

from dataclasses import replace

import pytest
from builders import (
    RATES,
    ToyComponent,
    build_component,
    build_evaluator,
    build_facts,
    build_plan,
    build_stack,
    kept,
    moved,
    peak_of,
    streamed,
)

from autotune.cost_model import CostModel
from autotune.memory_model import ACTIVATION_RESERVED_RATIO, WORKSPACE_BYTES, MemorySettings
from autotune.work import GroupWork, Work
from runtime.errors import UnsupportedError
from runtime.residency import Lifetime

COMPONENTS = {
    "text_encoder": build_component(3, copy_ms=10, compute_ms=2, rest_ms=5),
    "transformer": build_component(4, copy_ms=6, compute_ms=3, passes=10, is_dit=True, activation_bytes=1000),
    "vae": build_component(2, copy_ms=1, compute_ms=2, passes=3),
}


def evaluate(*placements, explicit=True, settings=None):
    evaluator = build_evaluator(COMPONENTS, **({"settings": settings} if settings else {}))
    return evaluator.evaluate(build_plan(*placements, explicit=explicit))


def phase(evaluation, name):
    return next(phase for phase in evaluation.phases if phase.phase == name)


def test_a_resident_pipeline_takes_its_compute_and_all_its_bytes():
    evaluation = evaluate(kept("text_encoder"), kept("transformer"), kept("vae"))
    assert evaluation.latency_s == pytest.approx(0.006 + 0.120 + 0.012)
    assert evaluation.first_latency_s == pytest.approx(evaluation.latency_s)
    assert {phase.standing_bytes for phase in evaluation.phases} == {35_000 + 24_000 + 2_000}
    assert set(evaluation.host_bytes.values()) == {0}


def test_latency_is_the_end_of_the_last_use_and_uses_follow_each_other():
    evaluation = evaluate(streamed("text_encoder"), streamed("transformer"), streamed("vae"))
    assert evaluation.latency_s == evaluation.uses[-1].end_s
    assert [use.start_s for use in evaluation.uses[1:]] == [use.end_s for use in evaluation.uses[:-1]]
    assert evaluation.uses[0].start_s == 0


def test_fill_time_is_what_the_first_layer_waits_for():
    evaluation = evaluate(streamed("text_encoder"), kept("transformer"), kept("vae"))
    assert evaluation.uses[0].fill_s == pytest.approx(0.010)
    assert evaluation.uses[1].fill_s == 0


def test_forward_residents_of_a_component_with_one_pass_save_only_the_copy_for_a_pass_that_never_comes():
    plans = [(streamed("text_encoder", resident=resident), kept("transformer"), kept("vae")) for resident in (0, 3)]
    none, every = (evaluate(*plan).uses[0].total_s for plan in plans)
    assert none == pytest.approx(4 * 0.010)
    assert every == pytest.approx(3 * 0.010 + 3 * 0.002)


def test_the_head_that_is_copied_ahead_is_charged_to_the_use_during_which_it_is_live():
    evaluation = evaluate(kept("text_encoder"), streamed("transformer"), kept("vae"))
    assert phase(evaluation, "later request: text_encoder").streamed_bytes == 6_000
    assert phase(evaluation, "later request: transformer").streamed_bytes == 12_000
    assert phase(evaluation, "later request: idle").streamed_bytes == 0


def test_every_head_stays_live_from_load_to_its_first_use():
    evaluation = evaluate(streamed("text_encoder"), streamed("transformer"), streamed("vae"))
    assert evaluation.phases[0].streamed_bytes == 10_000 + 6_000 + 1_000
    assert phase(evaluation, "first request: transformer").streamed_bytes == 12_000 + 1_000
    assert phase(evaluation, "later request: transformer").streamed_bytes == 12_000


@pytest.mark.parametrize(("explicit", "idle_bytes"), [(True, 0), (False, 10_000)])
def test_the_server_keeps_the_encoder_s_head_between_requests_only_if_it_chose_itself(explicit, idle_bytes):
    evaluation = evaluate(streamed("text_encoder"), kept("transformer"), kept("vae"), explicit=explicit)
    assert phase(evaluation, "later request: idle").streamed_bytes == idle_bytes


def test_a_moved_component_is_on_the_device_whole_and_comes_with_two_moves():
    evaluation = evaluate(kept("text_encoder"), kept("transformer"), moved("vae"))
    assert phase(evaluation, "later request: vae").streamed_bytes == 2_000
    assert phase(evaluation, "later request: transformer").streamed_bytes == 0
    assert evaluation.uses[2].total_s == pytest.approx(0.012 + 2 * 0.002)
    assert evaluation.host_bytes == {"text_encoder": 0, "transformer": 0, "vae": 2_000}


def test_permanent_residents_have_no_host_copy():
    placement = streamed("transformer", resident=3, lifetime=Lifetime.PERMANENT)
    assert evaluate(kept("text_encoder"), placement, kept("vae")).host_bytes["transformer"] == 6_000


def test_the_cap_is_charged_with_what_tensors_do_not_show():
    settings = MemorySettings(context_bytes=500_000, reserve_bytes=70_000)
    evaluation = evaluate(kept("text_encoder"), kept("transformer"), kept("vae"), settings=settings)
    working = phase(evaluation, "later request: transformer")
    overhead = 500_000 + 70_000 + WORKSPACE_BYTES
    assert working.live_bytes == 61_000 + 1_000
    assert working.charged_bytes == 61_000 + round(1_000 * ACTIVATION_RESERVED_RATIO) + overhead
    assert evaluation.peak == phase(evaluation, "first request: transformer")
    assert peak_of(evaluation, "vae").charged_bytes == 61_000 + overhead


def test_a_stack_that_runs_once_keeps_its_wrapped_head_through_the_whole_use():
    stacks = {
        "refiner": build_stack(2, copy_ms=4),
        "blocks": build_stack(6, copy_ms=1, passes=9),
    }
    evaluator = build_evaluator({"transformer": ToyComponent(stacks=stacks, is_dit=True)})
    evaluation = evaluator.evaluate(build_plan(streamed()))
    program = evaluator.lifecycle.build_program(build_plan(streamed()))
    last_pass = program.later.uses[0].segments[-1].actions
    assert ("release", "transformer", "refiner", 0) in [program.name(action) for action in last_pass]
    assert evaluation.peak.streamed_bytes == 8_000 + 1_000


def test_a_stack_that_computes_differently_in_two_uses_is_refused():
    facts = build_facts({"vae": build_component(2)}, uses=("vae", "vae"))
    longer = replace(facts.work[1], groups=(GroupWork(layers={"blocks": (Work(matmul_flops=9),) * 2}),))
    with pytest.raises(UnsupportedError, match=r"vae\.blocks computes differently in two uses of one request"):
        CostModel(replace(facts, work=(facts.work[0], longer)), RATES)
