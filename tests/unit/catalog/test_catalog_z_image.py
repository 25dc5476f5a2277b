"""Z-Image-Turbo: bytes, rows, passes and work against the server's own figures."""

from dataclasses import replace

import pytest

from autotune.catalog.z_image import DEFAULT_WORKLOAD, settle_workload
from runtime.errors import InputError
from runtime.model_spec import PassGroup

MIB, GIB = 2**20, 2**30


def test_released_sizes_are_those_that_the_server_tests_with(z_image):
    released = {part.name: part.checkpoint_bytes for part in z_image.model.components}
    assert released == {"text_encoder": 8_044_936_192, "transformer": 24_619_634_944, "vae": 335_278_732}


def test_transformer_runs_in_half_of_its_file(z_image):
    transformer = z_image.model.component("transformer")
    assert transformer.run_bytes * 2 == transformer.checkpoint_bytes
    (stack,) = transformer.stacks
    assert (stack.name, len(stack.layers)) == ("layers", 30)
    assert {layer.run_bytes for layer in stack.layers} == {361_820_672}
    assert stack.layers[0].run_bytes / MIB == pytest.approx(345.1, abs=0.05)
    assert stack.run_bytes / GIB == pytest.approx(10.1, abs=0.05)


def test_nothing_of_a_cast_transformer_or_a_copied_encoder_can_stay_mapped(z_image):
    for part in z_image.model.components:
        assert all(layer.view_bytes == 0 for stack in part.stacks for layer in stack.layers)


def test_encoder_streams_36_layers_and_keeps_its_table_on_the_device(z_image):
    encoder = z_image.model.component("text_encoder")
    assert [(stack.name, len(stack.layers)) for stack in encoder.stacks] == [("layers", 36)]
    assert encoder.host_table_bytes == 0
    assert encoder.rest_run_bytes == 2 * (151_936 * 2_560 + 2_560)


def test_default_modes_are_those_of_the_server_on_a_24_gb_card(z_image):
    modes = {part.name: part.default_mode for part in z_image.model.components}
    assert modes == {
        "text_encoder": "layerwise-offload",
        "transformer": "component-offload",
        "vae": "layerwise-offload",
    }
    assert z_image.model.component("transformer").is_dit


def test_each_step_is_one_forward(z_image):
    uses = {use.component: use.groups for use in z_image.request.uses}
    assert list(uses) == ["text_encoder", "transformer", "vae"]
    assert uses["transformer"] == (PassGroup(stacks=("layers",), passes=9),)


def test_main_blocks_attend_over_image_and_text_rows(z_image):
    layer = z_image.work[1].groups[0].layers["layers"][0]
    assert layer.attention_flops == 2 * 30 * (64 * 64 + 512) ** 2 * (128 + 128)


def test_refiners_run_outside_the_stack_in_every_forward(z_image):
    work = z_image.work[1].groups[0]
    noise, context = 2 * 2 * 30 * (64 * 64) ** 2 * 256, 2 * 2 * 30 * 512**2 * 256
    assert work.outside.attention_flops == noise + context


def test_short_prompt_has_fewer_rows_but_the_encoder_reads_all_of_its_512(capture_model, z_image):
    short = capture_model("Z-Image-Turbo", prompt_tokens=40)
    assert short.workload.prompt_tokens == 64
    assert "40 prompt tokens become 64 rows" in short.notes
    assert short.work[0] == z_image.work[0]
    assert short.work[1].groups[0].layers["layers"][0].flops < z_image.work[1].groups[0].layers["layers"][0].flops


def test_long_prompt_is_cut_to_what_the_encoder_reads():
    assert settle_workload(replace(DEFAULT_WORKLOAD, prompt_tokens=900)).workload.prompt_tokens == 512


@pytest.mark.parametrize(("width", "height", "tiles"), [(1024, 1024, 1), (1280, 768, 2), (2048, 1536, 6)])
def test_vae_decodes_tiles_of_1024_pixels_where_a_side_is_longer(capture_model, width, height, tiles):
    facts = capture_model("Z-Image-Turbo", width=width, height=height)
    assert facts.request.uses[-1].groups == (PassGroup(stacks=("decoder.up_blocks",), passes=tiles),)


def test_deployment_is_that_of_the_server(z_image):
    deployment = z_image.model.deployment
    assert deployment.makes_images
    assert (deployment.keep_resident_min_gib, deployment.keep_resident_groups) == (30.0, ("vae",))
    assert deployment.default_steps == DEFAULT_WORKLOAD.steps == 9
    assert deployment.dit_layerwise_modes == ()


def test_video_is_refused():
    with pytest.raises(InputError, match="Z-Image-Turbo makes images; use --frames 1"):
        settle_workload(replace(DEFAULT_WORKLOAD, frames=5))
