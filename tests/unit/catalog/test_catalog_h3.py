"""MiniMax-H3: bytes, rows, passes and work against the published figures."""

from dataclasses import replace

import pytest

from autotune.catalog.minimax_h3 import DEFAULT_WORKLOAD, count_packed_rows, resolve_canvas, settle_workload
from autotune.work import Work
from autotune.workload import Recipe
from runtime.errors import InputError
from runtime.model_spec import PassGroup


def total(group):
    return sum((work for works in group.layers.values() for work in works), group.outside)


def use_of(facts, component):
    index = max(index for index, use in enumerate(facts.request.uses) if use.component == component)
    return facts.request.uses[index], facts.work[index]


def test_components_carry_the_names_and_stacks_of_the_server(h3):
    stacks = {part.name: {stack.name: len(stack.layers) for stack in part.stacks} for part in h3.model.components}
    assert list(stacks) == ["text_encoder", "transformer", "video_vae", "audio_vae"]
    assert stacks["text_encoder"] == {"model.language_model.layers": 50, "model.visual.blocks": 27}
    assert list(stacks["transformer"].items()) == [("blocks", 50), ("token_refiner.blocks", 2)]
    assert stacks["video_vae"] == {"decoder.transformer_blocks": 36}
    assert len(stacks["audio_vae"]) == 9


def test_transformer_bytes_are_those_of_the_released_index(h3):
    transformer = h3.model.component("transformer")
    assert {layer.run_bytes for layer in transformer.stack("blocks").layers} == {1_291_143_680}
    assert transformer.run_bytes == transformer.checkpoint_bytes == 66_280_430_144
    assert transformer.is_dit


def test_text_encoder_loads_fifty_layers_and_keeps_its_table_on_the_host(h3):
    encoder = h3.model.component("text_encoder")
    assert {layer.run_bytes for layer in encoder.stack("model.language_model.layers").layers} == {975_196_672}
    assert encoder.run_bytes == 51_506_202_080
    assert encoder.host_table_bytes == 151_936 * 5_120 * 2


def test_video_decoder_is_half_as_large_as_run(h3):
    vae = h3.model.component("video_vae")
    layers = vae.stack("decoder.transformer_blocks").layers
    assert {layer.checkpoint_bytes for layer in layers} == {268_574_720}
    assert {layer.run_bytes for layer in layers} == {134_303_744}
    assert vae.checkpoint_bytes == 10_415_475_936
    assert vae.checkpoint_bytes - vae.run_bytes == 36 * (268_574_720 - 134_303_744)


def test_reordered_projections_of_the_transformer_cannot_stay_mapped(h3):
    layers = [layer for stack in h3.model.component("transformer").stacks for layer in stack.layers]
    assert {layer.transformed_bytes for layer in layers} == {231_211_008}
    assert sum(layer.transformed_bytes for layer in layers) / 2**30 == pytest.approx(11.2, abs=0.005)


def test_language_layers_of_the_encoder_stay_mapped_and_the_vision_blocks_are_copied(h3):
    language, vision = h3.model.component("text_encoder").stacks
    assert {layer.transformed_bytes for layer in language.layers} == {0}
    assert {layer.view_bytes for layer in vision.layers} == {2 * 4 * 1_152}


def test_text_encoder_leaves_14_layers_and_the_head_in_its_file(h3):
    encoder = h3.model.component("text_encoder")
    assert encoder.unread_checkpoint_bytes == 14 * 975_196_672 + 151_936 * 5_120 * 2
    assert encoder.checkpoint_bytes + encoder.unread_checkpoint_bytes == pytest.approx(66.7e9, rel=0.001)


def test_cast_weights_of_the_video_decoder_cannot_stay_mapped(h3):
    layers = h3.model.component("video_vae").stack("decoder.transformer_blocks").layers
    assert {layer.transformed_bytes for layer in layers} == {268_574_720 - 134_303_744}


def test_deployment_is_that_of_the_server(h3):
    deployment = h3.model.deployment
    assert deployment.dit_layerwise_modes == ("auto", "memory")
    assert deployment.keep_resident_min_gib == 120.0
    assert deployment.keep_resident_groups == ("dit", "text_encoder", "vae")
    assert (deployment.makes_images, deployment.dit_prefetch_value, deployment.default_steps) == (False, 0.0, 50)


def test_audio_vae_is_resident_and_has_the_published_size(h3):
    audio = h3.model.component("audio_vae")
    assert audio.run_bytes == audio.checkpoint_bytes == 605_285_956
    assert audio.default_mode == "resident"
    assert {part.default_mode for part in h3.model.components[:3]} == {"layerwise-offload"}


def test_request_uses_the_components_in_the_order_of_the_server(h3):
    assert [(use.component, bool(use.groups)) for use in h3.request.uses] == [
        ("text_encoder", True),
        ("video_vae", False),
        ("audio_vae", False),
        ("transformer", True),
        ("audio_vae", True),
        ("video_vae", True),
    ]


def test_refiner_runs_once_and_the_blocks_once_per_sigma_interval(h3):
    use, _ = use_of(h3, "transformer")
    assert use.groups == (
        PassGroup(stacks=("token_refiner.blocks",), passes=1),
        PassGroup(stacks=("blocks",), passes=49),
    )


def test_vision_blocks_do_not_run_for_text_to_video(h3):
    use, _ = use_of(h3, "text_encoder")
    assert use.groups == (PassGroup(stacks=("model.language_model.layers",), passes=1),)


def test_packed_sequence_has_38222_rows():
    assert count_packed_rows(DEFAULT_WORKLOAD) == 38_222


def test_one_transformer_pass_is_3_57_pflop(h3):
    _, work = use_of(h3, "transformer")
    assert total(work.groups[1]).flops == pytest.approx(3.57e15, rel=0.01)


def test_attention_of_a_block_follows_the_formula(h3):
    _, work = use_of(h3, "transformer")
    assert work.groups[1].layers["blocks"][0].attention_flops == 2 * 56 * 38_222**2 * (128 + 128)


def test_refiner_and_text_projection_are_not_in_the_repeated_pass(h3):
    _, work = use_of(h3, "transformer")
    assert work.outside.matmul_flops == 2 * 512 * 5_120 * 5_376
    assert work.groups[0].outside == Work()
    assert work.groups[0].layers["token_refiner.blocks"][0].attention_flops == 2 * 56 * 512**2 * 256


def test_transformer_activations_show_that_attention_was_intercepted(h3):
    _, work = use_of(h3, "transformer")
    assert 4e9 < work.activation_bytes < 9e9


def decode_flops(facts):
    use, work = use_of(facts, "video_vae")
    return use.groups[0].passes, total(work.groups[0]).flops * use.groups[0].passes


def test_recipe_decides_the_decoder_passes_but_not_the_work(h3, h3_exact):
    (default_passes, default_flops), (exact_passes, exact_flops) = decode_flops(h3), decode_flops(h3_exact)
    assert (default_passes, exact_passes) == (7, 196)
    assert default_flops == pytest.approx(exact_flops)


@pytest.mark.parametrize(("recipe", "passes"), [("default", 7), ("exact", 105)])
def test_smaller_canvas_has_fewer_tiles(capture_model, recipe, passes):
    facts = capture_model("H3", width=864, height=480, recipe=Recipe(recipe))
    assert decode_flops(facts)[0] == passes


def test_batched_tiles_cost_more_memory_than_single_ones(h3, h3_exact):
    batched, single = (use_of(facts, "video_vae")[1] for facts in (h3, h3_exact))
    assert batched.groups[0].layers["decoder.transformer_blocks"][0].flops == pytest.approx(
        28 * single.groups[0].layers["decoder.transformer_blocks"][0].flops
    )
    assert batched.activation_bytes > 2 * single.activation_bytes


def test_output_frames_are_float32(h3):
    assert h3.output_frames_bytes == 124 * 3 * 768 * 1344 * 4


def test_compute_dtypes_are_those_of_the_server(h3):
    dtypes = {work.component: work.compute_dtype for work in h3.work}
    assert dtypes == {
        "text_encoder": "bfloat16",
        "transformer": "bfloat16",
        "audio_vae": "float32",
        "video_vae": "float16",
    }


def test_longer_prompt_adds_rows_and_work(capture_model, h3):
    longer = capture_model("H3", prompt_tokens=1024)
    assert total(use_of(longer, "transformer")[1].groups[1]).flops > total(use_of(h3, "transformer")[1].groups[1]).flops


def test_frames_are_rounded_up_and_the_notes_say_so():
    settled = settle_workload(replace(DEFAULT_WORKLOAD, frames=120))
    assert settled.workload.frames == 124
    assert any("120 frames are rounded up to 124" in note for note in settled.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 1350}, r"1350x768 is no canvas.*--width 1344 --height 768"),
        ({"width": 1920, "height": 1088}, r"--width 1344 --height 768"),
        ({"width": 3200, "height": 320}, r"--width 1280 --height 320"),
        ({"frames": 48}, r"--frames is 48.*4 to 15 seconds.*--frames 107"),
        ({"frames": 1000}, r"--frames is 1000.*--frames 362"),
        ({"batch": 2}, r"--batch is 2.*one video per request"),
        ({"steps": 1}, r"--steps is 1.*at least 2 sigma points"),
    ],
)
def test_impossible_request_is_refused_with_the_nearest_possible_one(changes, message):
    with pytest.raises(InputError, match=message):
        settle_workload(replace(DEFAULT_WORKLOAD, **changes))


@pytest.mark.parametrize("size", [(1344, 768), (768, 1344), (864, 480), (1024, 1024), (576, 320)])
def test_canvas_of_the_server_is_accepted_as_it_is(size):
    assert resolve_canvas(*size) == size


@pytest.mark.parametrize("size", [(1920, 1080), (100, 100), (5000, 10), (1, 1)])
def test_nearest_canvas_is_itself_a_canvas(size):
    nearest = resolve_canvas(*size)
    assert resolve_canvas(*nearest) == nearest
