from dataclasses import replace

import pytest
from builders import build_component, build_facts

from autotune.export.server_command import parse_command
from autotune.workflows.command_plan import (
    check_facts,
    find_recipe,
    find_served_model,
    find_variant,
    list_carried_over,
    plan_command,
)
from autotune.workload import Recipe
from runtime.deployment import Deployment
from runtime.errors import FlagError, InputError, UnsupportedError
from runtime.residency import Mode
from runtime.units import GIB

H3 = Deployment(
    makes_images=False,
    dit_layerwise_modes=("auto", "memory"),
    keep_resident_min_gib=120.0,
    keep_resident_groups=("dit", "text_encoder", "vae"),
)
H3_LAYERS = {"text_encoder": 50, "video_vae": 36, "audio_vae": 9, "transformer": 50}
COOKBOOK = (
    "sglang serve --model-path MiniMaxAI/MiniMax-H3 --layerwise-offload-components dit,text_encoder,vae "
    "--layerwise-resident-layers video_vae=36 --dit-layerwise-resident-layers 14"
)


def toy(layers=None, deployment=H3, name="H3"):
    """Components weigh gigabytes, so that no card of the tests holds them all."""
    layers = layers or H3_LAYERS
    facts = build_facts(
        {
            part: build_component(count, is_dit=part.startswith("transformer"), rest_ms=5e7)
            for part, count in layers.items()
        }
    )
    return replace(facts, model=replace(facts.model, name=name, deployment=deployment))


def plan(text, facts=None, *, total_gib=32, free_gib=31):
    text = text if text.startswith("sglang") else f"sglang serve --model-path MiniMaxAI/MiniMax-H3 {text}"
    return plan_command(
        parse_command(text),
        facts or toy(),
        device_total_bytes=total_gib * GIB,
        device_free_bytes=free_gib * GIB,
    )


def described(planned):
    return {item.component: (item.mode, item.prefetch, item.resident) for item in planned.plan.placements}


def test_the_cookbook_s_recipe_for_32_gb_gives_its_placements():
    planned = plan(COOKBOOK)
    streamed = Mode.LAYERWISE_OFFLOAD
    assert described(planned) == {
        "transformer": (streamed, 1, 14),
        "text_encoder": (streamed, 1, 0),
        "video_vae": (streamed, 1, 36),
        "audio_vae": (Mode.RESIDENT, 1, 0),
    }
    assert planned.chosen_by_server == ("audio_vae",)


def test_a_plan_is_explicit_where_the_first_component_s_placement_is():
    assert plan(COOKBOOK).plan.explicit
    assert not plan("--component-residency transformer=layerwise-offload").plan.explicit


def test_a_bare_command_is_the_server_s_own_choice():
    planned = plan("")
    assert planned.chosen_by_server == tuple(H3_LAYERS)
    assert described(planned)["text_encoder"][0] is Mode.LAYERWISE_OFFLOAD
    assert described(plan("--performance-mode manual"))["transformer"][0] is Mode.RESIDENT


def test_a_list_without_the_text_encoder_moves_it_whole():
    planned = plan("--layerwise-offload-components dit")
    assert described(planned)["text_encoder"][0] is Mode.COMPONENT_OFFLOAD
    assert described(planned)["video_vae"][0] is Mode.RESIDENT


def test_knobs_apply_to_what_the_server_streams_by_itself():
    assert described(plan("--dit-layerwise-resident-layers 7"))["transformer"] == (Mode.LAYERWISE_OFFLOAD, 1, 7)


def test_the_model_s_default_prefetch_holds_where_the_server_chose_that_the_dit_streams():
    facts = toy(deployment=replace(H3, dit_prefetch_value=2.0))
    assert described(plan("", facts))["transformer"][1] == 2
    assert described(plan("--dit-offload-prefetch-size 5", facts))["transformer"][1] == 5
    assert described(plan("--layerwise-offload-components dit", facts))["transformer"][1] == 1


def test_a_component_without_layers_that_should_stream_is_refused_as_by_the_server():
    with pytest.raises(FlagError, match="audio_vae has no list of layers"):
        plan("--component-residency all=layerwise-offload", toy({**H3_LAYERS, "audio_vae": 0}))


def test_what_is_left_to_a_server_that_does_not_know_the_model_is_unsupported():
    facts = toy(deployment=None)
    with pytest.raises(UnsupportedError, match="no known configuration"):
        plan("", facts)
    assert plan("--component-residency all=resident", facts).plan.explicit
    assert described(plan("--performance-mode speed", facts))["transformer"][0] is Mode.RESIDENT


def test_memory_mode_runs_the_exact_recipe_and_says_what_is_not_modelled():
    command = parse_command("sglang serve --model-path MiniMaxAI/MiniMax-H3 --performance-mode memory")
    assert find_recipe(command, "H3") is Recipe.EXACT
    assert find_recipe(command, "Qwen-Image") is None
    assert any("the peak is at most what is shown" in note for note in plan("--performance-mode memory").notes)


def test_notes_tell_what_is_not_followed_and_what_does_nothing():
    notes = plan("--lora-path x --layerwise-resident-layers dit=3 --port 1").notes
    assert any("does not follow --lora-path x" in note for note in notes)
    assert any("'dit' does nothing" in note for note in notes)
    assert not any("--port" in note for note in notes)


@pytest.mark.parametrize(
    ("flags", "variant"),
    [
        ("--minimax-h3-adaln-online", "adaln-online"),
        ("--minimax-h3-adaln-online false", None),
        ("--quantization fp8", "fp8"),
        ("--quantization convrot_int8", "int8-online"),
        ("", None),
    ],
)
def test_the_variant_that_a_command_runs_is_found(flags, variant):
    command = parse_command(f"sglang serve --model-path MiniMaxAI/MiniMax-H3 {flags}")
    assert find_variant(command, "H3") == variant
    carried = list_carried_over(command, toy().model)
    assert not any("does not follow" in note for note in carried)


@pytest.mark.parametrize(
    "path", ["MiniMaxAI/MiniMax-H3", "minimaxai/minimax-h3", "/models/MiniMax-H3", "/x --model-id MiniMax-H3"]
)
def test_the_catalog_model_is_found_from_the_model_path(path):
    assert find_served_model(parse_command(f"sglang serve --model-path {path}"), None) == "H3"


def test_a_path_that_is_there_is_read_as_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "MiniMax-H3").mkdir()
    assert find_served_model(parse_command("sglang serve --model-path MiniMax-H3"), None) == "./MiniMax-H3"
    assert find_served_model(parse_command(f"sglang serve --model-path {tmp_path}"), None) == str(tmp_path)


def test_two_different_models_are_refused():
    command = parse_command("sglang serve --model-path Qwen/Qwen-Image")
    with pytest.raises(InputError, match="leave one out"):
        find_served_model(command, "H3")
    assert find_served_model(command, "qwen-image") == "qwen-image"
    with pytest.raises(InputError, match="name the model with --model"):
        find_served_model(parse_command("sglang serve --model-path nobody/knows"), None)


def test_figures_of_another_variant_or_recipe_are_refused():
    online = parse_command("sglang serve --model-path MiniMaxAI/MiniMax-H3 --minimax-h3-adaln-online")
    with pytest.raises(InputError, match="adaln-online"):
        check_facts(online, toy())
    memory = parse_command("sglang serve --model-path MiniMaxAI/MiniMax-H3 --performance-mode memory")
    with pytest.raises(InputError, match="recipe exact"):
        check_facts(memory, toy())
    check_facts(parse_command("sglang serve --model-path MiniMaxAI/MiniMax-H3"), toy())
