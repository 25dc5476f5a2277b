"""HunyuanVideo: bytes, rows, passes and work against published figures."""

from dataclasses import replace

import pytest

from autotune.catalog.hunyuan_video import DEFAULT_WORKLOAD, settle_workload
from autotune.workload import Recipe
from runtime.errors import InputError
from runtime.model_spec import PassGroup

GIB = 2**30


def test_components_carry_the_names_and_stacks_of_the_server(hunyuan):
    stacks = {part.name: {stack.name: len(stack.layers) for stack in part.stacks} for part in hunyuan.model.components}
    assert stacks == {
        "text_encoder": {"layers": 32},
        "text_encoder_2": {"text_model.encoder.layers": 12},
        "transformer": {"double_blocks": 20, "single_blocks": 40},
        "vae": {"decoder.up_blocks": 4},
    }


def test_transformer_blocks_have_the_derived_sizes(hunyuan):
    transformer = hunyuan.model.component("transformer")
    sizes = {stack.name: stack.run_bytes / GIB for stack in transformer.stacks}
    assert sizes == {"double_blocks": pytest.approx(12.66, abs=0.005), "single_blocks": pytest.approx(10.55, abs=0.005)}
    assert transformer.run_bytes == transformer.checkpoint_bytes == 25_642_025_088


def test_merged_projections_of_the_blocks_cannot_stay_mapped(hunyuan):
    double, single = (stack.layers[0] for stack in hunyuan.model.component("transformer").stacks)
    assert double.transformed_bytes == 2 * 6 * (3_072 * 3_072 + 3_072)
    assert single.transformed_bytes == 2 * (3 * (3_072 * 3_072 + 3_072) + 12_288 * 3_072 + 12_288)


def test_encoder_has_no_head_and_keeps_its_table_on_the_device(hunyuan):
    encoder = hunyuan.model.component("text_encoder")
    assert encoder.run_bytes == encoder.checkpoint_bytes == 15_010_373_632
    assert encoder.host_table_bytes == 0
    assert encoder.rest_run_bytes == 2 * (128_320 * 4_096 + 4_096)
    assert all(layer.view_bytes == 0 for layer in encoder.stack("layers").layers)


def test_vae_is_halved_and_its_encoder_stays_in_the_file(hunyuan):
    vae = hunyuan.model.component("vae")
    assert vae.run_bytes * 2 == vae.checkpoint_bytes
    assert vae.checkpoint_bytes + vae.unread_checkpoint_bytes == 246_478_803 * 4
    assert vae.run_dtype == "float16"


def test_default_modes_are_those_of_the_server_on_a_24_gb_card(hunyuan):
    modes = {part.name: part.default_mode for part in hunyuan.model.components}
    assert modes.pop("transformer") == "component-offload"
    assert set(modes.values()) == {"layerwise-offload"}


def test_each_step_is_one_forward_over_both_stacks(hunyuan):
    uses = hunyuan.request.uses
    assert [(use.component, use.hands_over) for use in uses] == [
        ("text_encoder", True),
        ("text_encoder_2", False),
        ("transformer", False),
        ("vae", False),
    ]
    assert uses[2].groups == (PassGroup(stacks=("double_blocks", "single_blocks"), passes=50),)


def test_blocks_attend_over_video_and_text_rows(hunyuan):
    rows = 32 * 45 * 80 + 161
    groups = hunyuan.work[2].groups[0].layers
    assert {layer.attention_flops for stack in groups.values() for layer in stack} == {2 * 24 * rows**2 * (128 + 128)}


def test_encoder_reads_the_template_and_clip_no_more_than_77_tokens(hunyuan):
    llama, clip = (work.groups[0].layers for work in hunyuan.work[:2])
    assert llama["layers"][0].attention_flops == 2 * 32 * 256**2 * 256
    assert clip["text_model.encoder.layers"][0].attention_flops == 2 * 12 * 77**2 * 128


def test_decode_runs_11_windows_of_4_by_7_tiles(hunyuan):
    (group,) = hunyuan.request.uses[-1].groups
    assert group.passes == 11 * 4 * 7
    assert hunyuan.output_frames_bytes == 4 * 3 * 125 * 720 * 1280


def test_deployment_is_the_default_of_the_server(hunyuan):
    deployment = hunyuan.model.deployment
    assert (deployment.makes_images, deployment.keep_resident_min_gib, deployment.default_steps) == (False, None, 50)
    assert (deployment.keep_resident_groups, deployment.dit_layerwise_modes) == (("vae",), ())


def test_frames_sides_and_prompt_are_brought_to_what_the_server_runs():
    settled = settle_workload(replace(DEFAULT_WORKLOAD, width=850, height=481, frames=48, prompt_tokens=900))
    workload = settled.workload
    assert (workload.width, workload.height, workload.frames, workload.prompt_tokens) == (848, 480, 45, 161)
    assert len(settled.notes) == 3


def test_recipe_without_effect_is_said_to_have_none():
    assert any(
        "changes nothing" in note for note in settle_workload(replace(DEFAULT_WORKLOAD, recipe=Recipe.EXACT)).notes
    )


def test_request_below_one_patch_is_refused_with_the_nearest_possible_one():
    with pytest.raises(InputError, match="--width 16 --height 720"):
        settle_workload(replace(DEFAULT_WORKLOAD, width=8))
