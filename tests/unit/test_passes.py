"""Passes are counted, not components (field case P6)."""

import pytest
from builders import build_component, build_evaluator, build_plan, kept, streamed

from runtime.residency import Lifetime


def copied_s(component, placement, name):
    """Seconds of a later request of a model that computes nothing: its copies."""
    return build_evaluator({name: component}).evaluate(build_plan(placement)).latency_s


# (a) 2 GiB at 25 GiB/s are 80 ms; 81 frames are 21 latent frames, decoded in 4 tiles each.
def test_a_streamed_decoder_is_copied_once_per_tile_and_latent_frame():
    decoder = build_component(4, compute_ms=0, copy_ms=20, passes=21 * 4)
    assert copied_s(decoder, streamed("vae"), "vae") == pytest.approx(84 * 0.08, rel=0.01)
    assert copied_s(decoder, streamed("vae", resident=4), "vae") == pytest.approx(0.08)
    assert copied_s(decoder, kept("vae"), "vae") == 0


# (c) two experts, 40 steps, two forwards per step, switch after step 16.
def build_experts():
    return {
        "expert_early": build_component(8, compute_ms=10, copy_ms=3, passes=2 * 16, is_dit=True),
        "expert_late": build_component(8, compute_ms=10, copy_ms=3, passes=2 * 24, is_dit=True),
    }


def run_counts(plan):
    program = build_evaluator(build_experts()).lifecycle.build_program(plan)
    runs = [program.name(action)[1] for action in program.later.actions() if program.name(action)[0] == "run"]
    return {name: runs.count(name) // 8 for name in program.components}


def test_each_expert_runs_its_own_share_of_the_passes():
    counts = run_counts(build_plan(streamed("expert_early"), streamed("expert_late")))
    assert counts == {"expert_early": 32, "expert_late": 48}


def test_the_time_of_two_experts_is_that_of_80_passes_not_160():
    plan = build_plan(streamed("expert_early"), streamed("expert_late"))
    assert build_evaluator(build_experts()).evaluate(plan).latency_s == pytest.approx(80 * 8 * 0.010, rel=0.01)


def test_residents_of_two_experts_are_not_charged_together_unless_both_are_kept():
    evaluator = build_evaluator(build_experts())
    both_bytes, warm_head_bytes = 2 * 8 * 3000, 3000

    def peak_bytes(lifetime):
        placements = (streamed(name, resident=8, lifetime=lifetime) for name in build_experts())
        return evaluator.evaluate(build_plan(*placements)).peak.streamed_bytes

    assert peak_bytes(Lifetime.FORWARD) == both_bytes / 2 + warm_head_bytes
    assert peak_bytes(Lifetime.PERMANENT) == both_bytes


# (d) the encoder reads the prompt and the negative prompt.
def test_an_encoder_called_twice_in_one_use_makes_two_passes():
    encoder = build_component(6, compute_ms=0, copy_ms=10, passes=2)
    assert copied_s(encoder, streamed("text_encoder"), "text_encoder") == pytest.approx(2 * 0.060, rel=0.1)


def test_an_encoder_used_twice_makes_two_passes():
    components = {"text_encoder": build_component(6, compute_ms=7, copy_ms=1)}
    once = build_evaluator(components).evaluate(build_plan(kept("text_encoder")))
    twice = build_evaluator(components, uses=("text_encoder", "text_encoder")).evaluate(
        build_plan(kept("text_encoder"))
    )
    assert twice.latency_s == pytest.approx(2 * once.latency_s)
    assert len(twice.uses) == 2
