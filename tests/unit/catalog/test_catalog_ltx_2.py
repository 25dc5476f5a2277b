"""LTX-2: bytes, passes and work of the picture and the sound."""

from dataclasses import replace

import pytest

from autotune.catalog.ltx_2 import DEFAULT_WORKLOAD, count_audio_latents, count_decode_passes, settle_workload
from runtime.errors import InputError
from runtime.model_spec import PassGroup


@pytest.fixture(scope="module")
def ltx(capture_model):
    return capture_model("LTX-2")


def uses_of(facts, component):
    return [(use, work) for use, work in zip(facts.request.uses, facts.work, strict=True) if use.component == component]


def pass_flops(group):
    return sum((work for works in group.layers.values() for work in works), group.outside).flops


def compute_block_flops(video, audio, text):
    """Hand formula of one block: six attentions and two feed-forwards, without modulation.

    The picture has 4,096 channels, the sound 2,048; both streams meet in attentions of 2,048 channels.
    """
    wide, narrow = 4_096, 2_048
    self_attention = 8 * (video * wide**2 + audio * narrow**2) + 4 * (video**2 * wide + audio**2 * narrow)
    prompt = 4 * ((video + text) * wide**2 + (audio + text) * narrow**2) + 4 * text * (video * wide + audio * narrow)
    to_video = 4 * video * wide * narrow + 4 * audio * narrow**2 + 4 * video * audio * narrow
    to_audio = 4 * audio * narrow**2 + 4 * video * wide * narrow + 4 * video * audio * narrow
    feed_forward = 16 * (video * wide**2 + audio * narrow**2)
    return self_attention + prompt + to_video + to_audio + feed_forward


def test_components_carry_the_names_and_stacks_of_the_server(ltx):
    stacks = {part.name: {stack.name: len(stack.layers) for stack in part.stacks} for part in ltx.model.components}
    assert list(stacks) == ["transformer", "text_encoder", "connectors", "vae", "vocoder", "audio_vae"]
    assert stacks["transformer"] == {"transformer_blocks": 48}
    assert stacks["text_encoder"] == {"language_model.layers": 48}
    assert stacks["connectors"] == {"video_connector.transformer_blocks": 2, "audio_connector.transformer_blocks": 2}
    assert stacks["vae"] == {"encoder.down_blocks": 4, "decoder.up_blocks": 3}
    assert stacks["vocoder"] == {"upsamplers": 5, "resnets": 15}
    assert stacks["audio_vae"] == {
        **{f"encoder.down.{level}.block": 2 for level in range(3)},
        **{f"decoder.up.{level}.block": 3 for level in range(3)},
    }


def test_components_are_loaded_in_descending_size_of_their_files(ltx):
    sizes = [part.checkpoint_bytes for part in ltx.model.components]
    assert sizes == sorted(sizes, reverse=True)


def test_transformer_has_the_nineteen_billion_weights_of_its_name(ltx):
    transformer = ltx.model.component("transformer")
    assert transformer.run_bytes == 37_752_349_184
    assert transformer.run_bytes / 2 / 1e9 == pytest.approx(18.9, abs=0.05)
    assert {layer.run_bytes for layer in transformer.stack("transformer_blocks").layers} == {772_149_248}
    assert [part.name for part in ltx.model.components if part.is_dit] == ["transformer"]


def test_text_encoder_keeps_its_table_and_its_vision_tower_on_the_device(ltx):
    encoder = ltx.model.component("text_encoder")
    assert encoder.run_bytes == 24_374_650_080
    assert encoder.host_table_bytes == 0
    assert encoder.rest_run_bytes > 262_208 * 3_840 * 2 + 0.8e9


def test_fused_projections_of_the_text_encoder_are_in_no_file(ltx):
    layer = ltx.model.component("text_encoder").stack("language_model.layers").layers[0]
    queries, keys_and_values, gate_and_up = 16 * 256, 2 * 8 * 256, 2 * 15_360
    assert layer.transformed_bytes == 2 * 3_840 * (queries + keys_and_values + gate_and_up)


def test_convolutions_of_the_video_vae_are_reordered_at_load(ltx):
    block = ltx.model.component("vae").stack("decoder.up_blocks").layers[0]
    assert block.view_bytes < 0.001 * block.run_bytes
    assert ltx.model.component("vae").run_bytes == 2_444_959_202


def test_default_modes_are_those_of_the_server_on_small_cards(ltx):
    assert {part.name: part.default_mode for part in ltx.model.components} == {
        "transformer": "component-offload",
        "text_encoder": "layerwise-offload",
        "connectors": "component-offload",
        "vae": "layerwise-offload",
        "vocoder": "resident",
        "audio_vae": "resident",
    }
    assert ltx.model.deployment.keep_resident_min_gib == 70


def test_request_uses_the_components_in_the_order_of_the_server(ltx):
    assert [(use.component, bool(use.groups)) for use in ltx.request.uses] == [
        ("text_encoder", True),
        ("connectors", True),
        ("vae", False),
        ("transformer", True),
        ("audio_vae", True),
        ("vocoder", True),
        ("vae", True),
    ]


def test_both_prompts_go_through_the_connectors_and_share_each_pass_of_the_dit(ltx):
    connectors = ("video_connector.transformer_blocks", "audio_connector.transformer_blocks")
    assert ltx.request.uses[1].groups == (PassGroup(stacks=connectors, passes=2),)
    assert ltx.request.uses[3].groups == (PassGroup(stacks=("transformer_blocks",), passes=40),)


def test_work_of_a_pass_follows_the_formula_for_two_prompts(ltx):
    video, audio = 16 * 16 * 24, count_audio_latents(121)
    expected = 48 * 2 * compute_block_flops(video, audio, 1024)
    assert pass_flops(ltx.work[3].groups[0]) == pytest.approx(expected, rel=0.03)


def test_five_seconds_of_sound_are_126_latents():
    assert count_audio_latents(121) == 126


@pytest.mark.parametrize(
    ("width", "height", "passes"),
    [(768, 512, 4), (512, 512, 1), (512, 544, 4), (1280, 704, 6), (1920, 1088, 15), (256, 256, 1)],
)
def test_video_is_decoded_in_one_pass_per_tile(width, height, passes):
    assert count_decode_passes(replace(DEFAULT_WORKLOAD, width=width, height=height)) == passes


def test_tiles_that_are_counted_are_those_that_the_library_decodes(ltx, capture_model):
    one_tile = capture_model("LTX-2", width=512, height=512)
    tiled, whole = (
        uses_of(facts, "vae")[1][0].groups[0].passes * pass_flops(uses_of(facts, "vae")[1][1].groups[0])
        for facts in (ltx, one_tile)
    )
    # Two columns of 16 and 10 latents, two rows of 16 and 2: tiles overlap by two latents.
    assert tiled / whole == pytest.approx((16 + 10) * (16 + 2) / (16 * 16))


def test_vocoder_and_audio_vae_run_their_decoders_only(ltx):
    assert uses_of(ltx, "audio_vae")[0][0].groups[0].stacks == tuple(f"decoder.up.{level}.block" for level in (2, 1, 0))
    assert uses_of(ltx, "vocoder")[0][0].groups[0].stacks == ("upsamplers", "resnets")


def test_frames_that_fill_no_latent_frame_are_dropped():
    settled = settle_workload(replace(DEFAULT_WORKLOAD, frames=120))
    assert settled.workload.frames == 113
    assert any("120 frames come out as 113" in note for note in settled.notes)


def test_side_below_one_latent_is_refused():
    with pytest.raises(InputError, match=r"768x16 does not divide.*multiples of 32.*--width 768 --height 32"):
        settle_workload(replace(DEFAULT_WORKLOAD, height=16))


def test_prompt_is_always_1024_tokens():
    assert settle_workload(replace(DEFAULT_WORKLOAD, prompt_tokens=77)).workload.prompt_tokens == 1024
