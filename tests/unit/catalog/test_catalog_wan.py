"""Wan2.2-T2V-A14B and Wan2.1-T2V-1.3B: bytes, steps per expert, passes and work against the published figures."""

from dataclasses import replace
from functools import partial

import pytest

from autotune.capture import capture_forward
from autotune.catalog import built_component
from autotune.catalog.registry import find_model
from autotune.catalog.wan import GRID, TwoExperts, count_high_noise_steps, split_passes
from autotune.catalog.wan2_2_t2v_a14b import MODEL as A14B
from autotune.workload import Recipe
from runtime.errors import InputError
from runtime.model_spec import PassGroup

MIB, GIB = 2**20, 2**30
SMALL = {"width": 320, "height": 192, "frames": 29}


@pytest.fixture(scope="module")
def wan22(capture_model):
    return capture_model("Wan2.2-T2V-A14B")


@pytest.fixture(scope="module")
def wan21(capture_model):
    return capture_model("Wan2.1-T2V-1.3B")


def settle(name, **changes):
    entry = find_model(name)
    return entry.settle(replace(entry.default_workload, **changes))


def pass_flops(facts, use):
    group = facts.work[use].groups[0]
    return sum((work for works in group.layers.values() for work in works), group.outside).flops


def compute_dit_flops(rows, *, text, width, ffn, layers):
    """Hand formula: projections of the video rows and of the text, two attentions, the feed-forward."""
    projections = 2 * rows * (6 * width**2 + 2 * width * ffn) + 2 * text * 2 * width**2
    attention = 4 * rows * (rows + text) * width
    return layers * (projections + attention)


def stacks(facts):
    return {part.name: {stack.name: len(stack.layers) for stack in part.stacks} for part in facts.model.components}


def test_two_experts_share_the_steps_instead_of_running_all_of_them_each():
    assert split_passes(40, high_noise_steps=16) == (32, 48)
    assert split_passes(40, high_noise_steps=40) == (80, 0)


def test_server_default_runs_twenty_six_of_forty_steps_above_the_boundary(wan22):
    assert count_high_noise_steps(40, A14B.experts) == 26
    assert A14B.count_passes(40) == {"transformer": 52, "transformer_2": 28}
    assert [use.groups for use in wan22.request.uses[1:3]] == [
        (PassGroup(stacks=("blocks",), passes=52),),
        (PassGroup(stacks=("blocks",), passes=28),),
    ]


@pytest.mark.parametrize(("flow_shift", "high"), [(12.0, 26), (5.0, 17), (3.0, 12), (1.0, 5)])
def test_larger_shift_keeps_more_steps_above_the_boundary(flow_shift, high):
    assert count_high_noise_steps(40, TwoExperts(boundary_ratio=0.875, flow_shift=flow_shift)) == high


def test_expert_that_the_schedule_never_reaches_is_loaded_but_not_used(capture_model):
    facts = capture_model("Wan2.2-T2V-A14B", steps=2, **SMALL)
    assert [use.component for use in facts.request.uses] == ["text_encoder", "transformer", "vae"]
    assert facts.model.component("transformer_2").is_dit


def test_components_carry_the_names_and_stacks_of_the_server(wan22, wan21):
    encoder = {"encoder.block": 24}
    assert stacks(wan22) == {
        "transformer_2": {"blocks": 40},
        "transformer": {"blocks": 40},
        "text_encoder": encoder,
        "vae": {"encoder.down_blocks": 11, "decoder.up_blocks": 4},
    }
    assert stacks(wan21) == {"text_encoder": encoder, "transformer": {"blocks": 30}, "vae": {"decoder.up_blocks": 4}}


def test_components_are_loaded_in_descending_size_of_their_files(wan22, wan21):
    for facts in (wan22, wan21):
        sizes = [part.checkpoint_bytes + part.unread_checkpoint_bytes for part in facts.model.components]
        assert sizes == sorted(sizes, reverse=True)


def test_requests_use_the_encoder_then_the_experts_then_the_vae(wan22, wan21):
    assert [use.component for use in wan22.request.uses] == ["text_encoder", "transformer", "transformer_2", "vae"]
    assert [use.component for use in wan21.request.uses] == ["text_encoder", "transformer", "vae"]


def test_block_of_an_expert_is_670_mib_and_comes_from_a_file_of_twice_the_size(wan22):
    for name in ("transformer", "transformer_2"):
        layers = wan22.model.component(name).stack("blocks").layers
        assert {layer.run_bytes for layer in layers} == {702_809_088}
        assert layers[0].run_bytes / MIB == pytest.approx(670.2, abs=0.1)
        assert wan22.model.component(name).stack("blocks").run_bytes / GIB == pytest.approx(26.18, abs=0.01)
        # Only norm2, which stays float32, is read as it is.
        assert layers[0].view_bytes == 2 * 5120 * 4
        assert layers[0].checkpoint_bytes == 2 * layers[0].run_bytes - layers[0].view_bytes


def test_block_of_the_small_model_is_88_6_mib(wan21):
    layers = wan21.model.component("transformer").stack("blocks").layers
    assert {layer.run_bytes for layer in layers} == {92_887_552}
    assert layers[0].run_bytes / MIB == pytest.approx(88.6, abs=0.05)


def test_text_encoder_runs_in_float32_at_the_size_that_the_server_logs(wan22, wan21):
    for facts in (wan22, wan21):
        encoder = facts.model.component("text_encoder")
        assert encoder.run_bytes == 22_723_641_344
        assert encoder.run_bytes / GIB == pytest.approx(21.16, abs=0.005)
        assert encoder.host_table_bytes == 256_384 * 4_096 * 4
        assert facts.work[0].compute_dtype == "float32"


def test_fused_projections_of_the_text_encoder_are_in_no_file(wan22, wan21):
    cast, fused = (facts.model.component("text_encoder").stack("encoder.block").layers[0] for facts in (wan22, wan21))
    assert cast.view_bytes == 0
    assert fused.transformed_bytes == 3 * 4_096**2 * 4


def test_small_model_loads_no_vae_encoder(wan22, wan21):
    assert wan22.model.component("vae").checkpoint_bytes == 507_570_124
    vae = wan21.model.component("vae")
    assert vae.checkpoint_bytes + vae.unread_checkpoint_bytes == 507_570_124
    assert (wan22.work[-1].compute_dtype, wan21.work[-1].compute_dtype) == ("float32", "bfloat16")


def test_convolutions_of_the_vae_are_reordered_at_load(wan22):
    block = wan22.model.component("vae").stack("decoder.up_blocks").layers[0]
    resnets, upsampler = 3 * 2 * (384 * 384 * 27), 768 * 384 * 3
    assert block.transformed_bytes == 4 * (resnets + upsampler)


def test_vae_runs_one_decoder_pass_per_latent_frame(wan22, wan21, capture_model):
    group = PassGroup(stacks=("decoder.up_blocks",), passes=21)
    assert wan22.request.uses[-1].groups == wan21.request.uses[-1].groups == (group,)
    shorter = capture_model("Wan2.1-T2V-1.3B", frames=33)
    assert shorter.request.uses[-1].groups[0].passes == 9


def test_repeated_decoder_passes_are_replayed_as_they_would_be_walked(capture_model, monkeypatch):
    replayed = capture_model("Wan2.1-T2V-1.3B", **SMALL).work[-1]
    monkeypatch.setattr(built_component, "capture_forward", partial(capture_forward, replay=False))
    walked = capture_model("Wan2.1-T2V-1.3B", **SMALL).work[-1]
    assert replayed.activation_bytes == walked.activation_bytes
    for stack, works in walked.groups[0].layers.items():
        for mine, theirs in zip(replayed.groups[0].layers[stack], works, strict=True):
            assert mine.flops == pytest.approx(theirs.flops)
            assert mine.other_bytes == pytest.approx(theirs.other_bytes)


def test_default_modes_are_those_of_the_server_on_small_cards(wan22, wan21):
    assert {part.default_mode for part in wan22.model.components} == {"layerwise-offload"}
    assert wan21.model.component("transformer").default_mode == "component-offload"
    assert wan22.model.deployment.dit_prefetch_value == 2
    assert wan22.model.deployment.default_steps == 40
    assert wan21.model.deployment.dit_layerwise_modes == ("memory",)


def test_video_of_the_default_request_has_75600_rows(wan22):
    assert GRID.count_rows(wan22.workload) == 75_600
    assert wan22.work[1].groups[0].layers["blocks"][0].attention_flops == 4 * 5_120 * 75_600 * (75_600 + 512)


@pytest.mark.parametrize(
    ("facts", "shape"),
    [
        ("wan22", {"width": 5_120, "ffn": 13_824, "layers": 40}),
        ("wan21", {"width": 1_536, "ffn": 8_960, "layers": 30}),
    ],
)
def test_work_of_a_pass_follows_the_formula(facts, shape, request):
    captured = request.getfixturevalue(facts)
    expected = compute_dit_flops(GRID.count_rows(captured.workload), text=512, **shape)
    assert pass_flops(captured, 1) == pytest.approx(expected, rel=0.01)


def test_request_of_the_two_experts_is_half_an_exaflop(wan22):
    total = sum(use.groups[0].passes * pass_flops(wan22, index) for index, use in enumerate(wan22.request.uses))
    assert total == pytest.approx(5.23e17, rel=0.01)


def test_output_frames_are_float32(wan22):
    assert wan22.output_frames_bytes == 81 * 3 * 720 * 1280 * 4


def test_frames_that_fill_no_latent_frame_are_dropped_and_the_notes_say_so():
    settled = settle("Wan2.2-T2V-A14B", frames=80)
    assert settled.workload.frames == 77
    assert any("80 frames come out as 77" in note for note in settled.notes)


def test_side_is_cut_to_whole_latents():
    settled = settle("Wan2.1-T2V-1.3B", width=837)
    assert settled.workload.width == 832
    assert any("837x480 is cut to 832x480" in note for note in settled.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 1288}, r"1288x720 does not divide.*multiples of 16.*--width 1280 --height 720"),
        ({"height": 8}, r"1280x8 does not divide.*--width 1280 --height 16"),
    ],
)
def test_side_with_half_a_patch_is_refused_with_the_nearest_possible_one(changes, message):
    with pytest.raises(InputError, match=message):
        settle("Wan2.2-T2V-A14B", **changes)


def test_prompt_is_always_512_tokens():
    settled = settle("Wan2.1-T2V-1.3B", prompt_tokens=40)
    assert settled.workload.prompt_tokens == 512
    assert "40 prompt tokens become 512" in settled.notes


def test_notes_say_how_the_experts_share_the_steps_and_what_the_recipe_does():
    notes = settle("Wan2.2-T2V-A14B", recipe=Recipe.EXACT).notes
    assert any("high-noise expert runs 26 and the low-noise expert 14" in note for note in notes)
    assert any("quality recipe changes no pass" in note for note in notes)


def test_videos_of_one_request_multiply_the_work_of_dit_and_vae_only(capture_model):
    one, two = (capture_model("Wan2.1-T2V-1.3B", batch=batch, **SMALL) for batch in (1, 2))
    ratios = [pass_flops(two, use) / pass_flops(one, use) for use in range(3)]
    assert ratios == [1.0, pytest.approx(2.0), pytest.approx(2.0)]
