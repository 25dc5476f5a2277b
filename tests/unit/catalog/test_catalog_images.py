"""Qwen-Image and FLUX.1-dev: bytes, passes and work."""

from dataclasses import replace

import pytest

from autotune.catalog.registry import find_model
from autotune.workload import Recipe
from runtime.errors import InputError
from runtime.model_spec import PassGroup

MIB = 2**20


def settle(name, **changes):
    entry = find_model(name)
    return entry.settle(replace(entry.default_workload, **changes))


def flops(facts, use):
    group = facts.work[use].groups[0]
    return sum((work for works in group.layers.values() for work in works), group.outside).flops


def test_qwen_image_has_sixty_layers_of_648_mib(qwen_image):
    transformer = qwen_image.model.component("transformer")
    layers = transformer.stack("transformer_blocks").layers
    assert len(layers) == 60
    assert layers[0].run_bytes / MIB == pytest.approx(648.2, abs=0.05)
    assert transformer.run_bytes == 40_860_802_176


def test_qwen_image_runs_two_forwards_per_step(qwen_image):
    assert qwen_image.request.uses[1].groups == (PassGroup(stacks=("transformer_blocks",), passes=100),)
    assert any("negative prompt" in note for note in qwen_image.notes)


def test_qwen_image_attends_over_image_and_text_rows(qwen_image):
    layer = qwen_image.work[1].groups[0].layers["transformer_blocks"][0]
    assert layer.attention_flops == 2 * 24 * (64 * 64 + 512) ** 2 * (128 + 128)


def test_qwen_image_encoder_has_a_head_on_the_device_and_no_vision_tower(qwen_image):
    encoder = qwen_image.model.component("text_encoder")
    assert [stack.name for stack in encoder.stacks] == ["model.language_model.layers"]
    assert encoder.host_table_bytes == 0
    assert encoder.rest_run_bytes == 2 * (2 * 152_064 * 3_584 + 3_584)


def test_default_modes_are_those_of_the_server_on_small_cards(qwen_image, flux):
    modes = {part.name: part.default_mode for facts in (qwen_image, flux) for part in facts.model.components}
    assert modes == {
        "text_encoder": "layerwise-offload",
        "text_encoder_2": "layerwise-offload",
        "transformer": "component-offload",
        "vae": "layerwise-offload",
    }


def test_flux_has_nineteen_double_and_thirty_eight_single_blocks(flux):
    transformer = flux.model.component("transformer")
    sizes = {stack.name: (len(stack.layers), stack.layers[0].run_bytes / MIB) for stack in transformer.stacks}
    assert list(sizes) == ["transformer_blocks", "single_transformer_blocks"]
    assert sizes["transformer_blocks"] == (19, pytest.approx(648.2, abs=0.05))
    assert sizes["single_transformer_blocks"] == (38, pytest.approx(270.1, abs=0.05))
    assert transformer.run_bytes == 23_802_816_640


def test_flux_runs_both_stacks_inside_each_of_its_passes(flux):
    groups = flux.request.uses[2].groups
    assert groups == (PassGroup(stacks=("transformer_blocks", "single_transformer_blocks"), passes=50),)
    assert [use.component for use in flux.request.uses] == ["text_encoder", "text_encoder_2", "transformer", "vae"]


def test_flux_encoders_have_the_sizes_of_their_released_files(flux):
    assert flux.model.component("text_encoder").run_bytes == 246_120_960
    assert flux.model.component("text_encoder_2").run_bytes == 9_524_621_312
    assert flux.model.component("vae").run_bytes == 167_639_366


def test_t5_table_is_too_small_to_stay_on_the_host(flux):
    t5 = flux.model.component("text_encoder_2")
    assert t5.host_table_bytes == 0
    assert t5.rest_run_bytes == 2 * (32_128 * 4_096 + 4_096)


def test_first_t5_block_carries_the_relative_positions(flux):
    layers = flux.model.component("text_encoder_2").stack("encoder.block").layers
    assert layers[0].run_bytes - layers[1].run_bytes == 32 * 64 * 2


def test_server_merges_the_text_projections_of_qwen_image_and_nothing_of_flux(qwen_image, flux):
    layers = qwen_image.model.component("transformer").stack("transformer_blocks").layers
    assert {layer.transformed_bytes for layer in layers} == {2 * 3 * (3_072 * 3_072 + 3_072)}
    assert sum(layer.transformed_bytes for layer in layers) == 3_398_492_160
    stacks = flux.model.component("transformer").stacks
    assert not any(layer.transformed_bytes for stack in stacks for layer in stack.layers)


def test_image_encoders_are_copied_at_load_and_cannot_stay_mapped(qwen_image, flux):
    encoders = [
        part for facts in (qwen_image, flux) for part in facts.model.components if part.name.startswith("text_encoder")
    ]
    assert len(encoders) == 3
    for encoder in encoders:
        assert all(layer.view_bytes == 0 for stack in encoder.stacks for layer in stack.layers)


def test_vision_tower_of_qwen_image_stays_in_the_file(qwen_image):
    encoder = qwen_image.model.component("text_encoder")
    assert encoder.unread_checkpoint_bytes == 1_353_100_288
    assert encoder.checkpoint_bytes + encoder.unread_checkpoint_bytes == 2 * 8_292_166_656


def test_deployments_are_the_defaults_of_the_server(qwen_image, flux):
    for deployment in (qwen_image.model.deployment, flux.model.deployment):
        assert (deployment.keep_resident_min_gib, deployment.keep_resident_groups) == (None, ("vae",))
        assert (deployment.makes_images, deployment.default_steps) == (True, 50)
        assert (deployment.dit_layerwise_modes, deployment.dit_prefetch_value) == ((), 0.0)


@pytest.mark.parametrize("facts", ["qwen_image", "flux"])
def test_image_vae_streams_its_up_blocks_in_one_pass(facts, request):
    captured = request.getfixturevalue(facts)
    assert captured.request.uses[-1].groups == (PassGroup(stacks=("decoder.up_blocks",), passes=1),)
    assert [stack.name for stack in captured.model.component("vae").stacks] == [
        "encoder.down_blocks",
        "decoder.up_blocks",
    ]


def test_images_of_one_request_multiply_the_work_of_dit_and_vae_only(capture_model, flux):
    pair = capture_model("FLUX.1-dev", batch=2)
    assert flops(pair, 1) == flops(flux, 1)
    assert flops(pair, 2) == pytest.approx(2 * flops(flux, 2))
    assert flops(pair, 3) == pytest.approx(2 * flops(flux, 3))
    assert pair.output_frames_bytes == 2 * flux.output_frames_bytes == 2 * 3 * 1024 * 1024 * 4


def test_odd_size_is_cut_to_whole_patches_and_runs(capture_model):
    facts = capture_model("Qwen-Image", width=1001, height=777)
    assert (facts.workload.width, facts.workload.height) == (992, 768)
    assert any("1001x777 is cut to 992x768" in note for note in facts.notes)


@pytest.mark.parametrize("name", ["Qwen-Image", "FLUX.1-dev"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [({"frames": 5}, "makes images; use --frames 1"), ({"width": 8}, "--width 16 --height 1024")],
)
def test_impossible_image_request_is_refused_with_a_possible_one(name, changes, message):
    with pytest.raises(InputError, match=message):
        settle(name, **changes)


def test_flux_prompt_is_always_512_tokens():
    settled = settle("FLUX.1-dev", prompt_tokens=40)
    assert settled.workload.prompt_tokens == 512
    assert "40 prompt tokens become 512" in settled.notes


def test_qwen_prompt_is_cut_where_the_server_cuts_it():
    settled = settle("Qwen-Image", prompt_tokens=5000)
    assert settled.workload.prompt_tokens == 1024 - 34
    assert any("5000 prompt tokens are cut to 990" in note for note in settled.notes)


def test_recipe_without_effect_is_said_to_have_none():
    assert any("changes nothing" in note for note in settle("FLUX.1-dev", recipe=Recipe.EXACT).notes)
