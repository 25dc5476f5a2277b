import shlex

import pytest
from export_builders import E2_STACKS, build_model, build_plan, moved_whole, streamed

from autotune.export.dialects import DIALECTS, find_dialect
from autotune.export.read_back import plan_from_options
from autotune.export.recipe import AssumedFlags, recipe_flags
from autotune.export.script import serve_script
from autotune.export.sglang import export_plan
from autotune.export.sglang_options import parse_options
from autotune.workload import Recipe
from runtime.errors import FlagError, PlanError
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy


def values_of(export, option):
    return next(tokens[1:] for tokens in export.options() if tokens[0] == option)


# Case E1
@pytest.mark.parametrize("resident", [60, 1, 30])
@pytest.mark.parametrize("prefetch", [1, 7, 60])
def test_counts_are_always_exported_as_integers(resident, prefetch):
    model = build_model({"transformer": (60,)})
    export = export_plan(build_plan(model, streamed("transformer", resident=resident, prefetch=prefetch)), model)
    assert values_of(export, "--layerwise-resident-layers") == (f"transformer={resident}",)
    assert values_of(export, "--layerwise-prefetch-size") == (f"transformer={prefetch}",)


def test_a_prefetch_beyond_the_longest_stack_is_capped_because_the_server_reads_it_raw():
    model = build_model({"transformer": (5,)})
    export = export_plan(build_plan(model, streamed("transformer", prefetch=60)), model)
    assert values_of(export, "--layerwise-prefetch-size") == ("transformer=5",)


# Case E2
def e2_plan(model):
    return build_plan(
        model,
        streamed("transformer", resident=12),
        streamed("transformer_2", resident=20, policy=Policy.STRIDED),
        streamed("text_encoder", prefetch=2),
        moved_whole("text_encoder_2"),
        streamed("vae", resident=10, lifetime=Lifetime.PERMANENT),
        streamed("audio_vae", resident=3),
        moved_whole("connectors"),
    )


def test_every_component_gets_its_exact_mode_and_every_streamed_one_its_knobs():
    model = build_model(E2_STACKS)
    export = export_plan(e2_plan(model), model)
    assert values_of(export, "--component-residency") == (
        "transformer=layerwise-offload",
        "transformer_2=layerwise-offload",
        "text_encoder=layerwise-offload",
        "text_encoder_2=component-offload",
        "text_encoder_3=resident",
        "vae=layerwise-offload",
        "audio_vae=layerwise-offload",
        "image_encoder=resident",
        "connectors=component-offload",
    )
    names = "transformer={},transformer_2={},text_encoder={},vae={},audio_vae={}"
    assert values_of(export, "--layerwise-resident-layers") == (names.format(12, 20, 0, 10, 3),)
    assert values_of(export, "--layerwise-prefetch-size") == (names.format(1, 1, 2, 1, 1),)
    policies = names.format("leading", "strided", "leading", "leading", "leading")
    assert values_of(export, "--layerwise-residency-policy") == (policies,)
    lifetimes = names.format("forward", "forward", "forward", "permanent", "forward")
    assert values_of(export, "--layerwise-residency-lifetime") == (lifetimes,)
    assert export.notes == ()


def test_parsing_the_exported_line_yields_the_plan():
    model = build_model(E2_STACKS)
    plan = e2_plan(model)
    options = parse_options(export_plan(plan, model).argv)
    assert plan_from_options(options, model) == plan
    assert options.warnings_for([component.name for component in model.components]) == ()


def test_a_plan_without_streamed_components_has_no_maps():
    model = build_model({"transformer": (4,)})
    assert export_plan(build_plan(model), model).argv == ("--component-residency", "transformer=resident")


def test_a_plan_for_another_model_is_refused():
    plan = Plan(engine="sglang@0.5.23", placements=(Placement(component="unknown", mode=Mode.RESIDENT),))
    with pytest.raises(PlanError, match="it places unknown"):
        export_plan(plan, build_model({"transformer": (4,)}))


@pytest.mark.parametrize("name", ["text-encoder", "Transformer", "a b", "a=b"])
def test_a_name_that_the_server_would_rewrite_is_refused(name):
    model = build_model({name: (4,)})
    with pytest.raises(FlagError, match="cannot be told about a component named"):
        export_plan(build_plan(model), model)


def test_an_unknown_target_lists_the_known_ones():
    model = build_model({"transformer": (4,)})
    with pytest.raises(FlagError, match=r"no server dialect is called 'sglang@9': known are sglang@0\.5\.23"):
        export_plan(build_plan(model), model, target="sglang@9")


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        (("--component-residency", "vae=resident"), "--component-residency is decided by the plan"),
        (("--dit-layerwise-offload=true",), "--dit-layerwise-offload is decided by the plan"),
        (("--port", "1", "--port", "2"), "--port is given twice"),
        (("--use-fsdp-inference", "true"), "contradicts the plan for transformer"),
        (("--use-fsdp-inference",), "contradicts the plan for transformer"),
    ],
)
def test_assumed_flags_that_contradict_the_plan_are_refused(flags, rule):
    model = build_model({"transformer": (4,)})
    plan = build_plan(model, streamed("transformer"))
    with pytest.raises(FlagError, match=rule):
        export_plan(plan, model, assumed=AssumedFlags(flags=flags, notes=()))


def test_sharding_is_allowed_when_everything_is_resident():
    model = build_model({"transformer": (4,)})
    flags = ("--use-fsdp-inference", "true")
    assert export_plan(build_plan(model), model, assumed=AssumedFlags(flags=flags, notes=())).argv[-2:] == flags


def test_a_plan_chosen_by_the_server_is_noted_to_change_when_it_is_named():
    model = build_model({"transformer": (4,)})
    (note,) = export_plan(build_plan(model, explicit=False), model).notes
    assert "head is no longer queued between requests" in note


@pytest.mark.parametrize("target", [dialect.target for dialect in DIALECTS])
def test_every_dialect_can_say_that_all_is_resident(target):
    model = build_model(E2_STACKS)
    export = export_plan(build_plan(model), model, target=target)
    options = parse_options(export.argv)
    assert {options.component(c.name).mode for c in model.components} == {"resident"}


@pytest.mark.parametrize("target", ["sglang@0.5.16", "sglang@0.5.17", "sglang@0.5.18", "sglang-dit-flags"])
def test_dit_knobs_go_through_the_dit_options_when_all_towers_agree(target):
    model = build_model({"transformer": (60,), "transformer_2": (60,)})
    plan = build_plan(model, streamed("transformer", prefetch=2), streamed("transformer_2", prefetch=2))
    export = export_plan(plan, model, target=target)
    assert values_of(export, "--dit-offload-prefetch-size") == ("2",)
    assert not any(token.startswith("--layerwise-prefetch-size") for token in export.argv)
    assert plan_from_options(parse_options(export.argv), model) == plan


def test_towers_that_disagree_are_refused_where_one_option_serves_both():
    model = build_model({"transformer": (60,), "transformer_2": (60,)})
    plan = build_plan(model, streamed("transformer", resident=12), streamed("transformer_2", resident=20))
    with pytest.raises(FlagError, match="cannot express this plan: resident 12 of transformer cannot be said"):
        export_plan(plan, model, target="sglang-dit-flags")


@pytest.mark.parametrize(
    ("target", "knobs", "lost"),
    [
        ("sglang@0.5.20", {"resident": 3, "lifetime": Lifetime.PERMANENT}, "lifetime permanent of text_encoder"),
        ("sglang@0.5.18", {"prefetch": 3}, "prefetch 3 of text_encoder"),
        ("sglang@0.5.18", {"resident": 3}, "resident 3 of text_encoder"),
        ("sglang-dit-flags", {"prefetch": 2, "policy": Policy.STRIDED}, "policy strided of text_encoder"),
    ],
)
def test_a_knob_of_another_component_is_lost_in_older_dialects(target, knobs, lost):
    model = build_model({"transformer": (4,), "text_encoder": (24,)})
    plan = build_plan(model, streamed("text_encoder", **knobs))
    with pytest.raises(FlagError, match=f"{lost} cannot be said to {target}"):
        export_plan(plan, model, target=target)
    export = export_plan(plan, model, target=target, allow_loss=True)
    assert any(lost in note for note in export.notes)


def test_policy_and_lifetime_of_the_dit_are_lost_before_they_existed():
    model = build_model({"transformer": (50,)})
    plan = build_plan(model, streamed("transformer", resident=5, policy=Policy.STRIDED))
    with pytest.raises(FlagError, match=r"policy strided of transformer cannot be said to sglang@0\.5\.17"):
        export_plan(plan, model, target="sglang@0.5.17")
    with pytest.raises(FlagError, match=r"resident 5 of transformer cannot be said to sglang@0\.5\.16"):
        export_plan(plan, model, target="sglang@0.5.16")


def test_an_unsaid_knob_that_changes_nothing_is_noted_and_not_refused():
    model = build_model({"transformer": (50,)})
    plan = build_plan(model, streamed("transformer", policy=Policy.STRIDED, lifetime=Lifetime.PERMANENT))
    notes = export_plan(plan, model, target="sglang@0.5.17").notes
    assert sum("which is the same here" in note for note in notes) == 2


def test_modes_of_one_group_that_differ_cannot_be_said_by_one_switch():
    model = build_model({"vae": (4,), "audio_vae": (4,)})
    plan = build_plan(model, moved_whole("audio_vae"))
    with pytest.raises(FlagError, match="vae would be moved whole: --vae-cpu-offload covers the whole group"):
        export_plan(plan, model, target="sglang@0.5.17")


def test_moving_one_component_whole_and_streaming_another_of_its_group_cannot_be_said():
    model = build_model({"video_vae": (4,), "audio_vae": (4,)})
    plan = build_plan(model, streamed("video_vae"), moved_whole("audio_vae"))
    with pytest.raises(FlagError, match="audio_vae cannot be moved whole while another component of its group"):
        export_plan(plan, model, target="sglang@0.5.17")


def test_a_group_word_in_the_layerwise_list_would_stream_the_others_too():
    model = build_model({"text_encoder": (4,), "text_encoder_2": (4,)})
    plan = build_plan(model, streamed("text_encoder"))
    with pytest.raises(FlagError, match="text_encoder_2 would be streamed too: the word 'text_encoder' covers"):
        export_plan(plan, model, target="sglang@0.5.17")


def test_a_component_that_no_switch_reaches_cannot_be_moved_whole():
    model = build_model({"upsampler": (4,), "other": (4,)})
    with pytest.raises(FlagError, match="upsampler cannot be moved whole: no switch reaches it"):
        export_plan(build_plan(model, moved_whole("upsampler")), model, target="sglang@0.5.16")


def test_an_older_target_says_that_only_its_options_are_known():
    model = build_model({"transformer": (4,)})
    notes = " ".join(export_plan(build_plan(model), model, target="sglang@0.5.19").notes)
    assert "its schedule is not recorded" in notes
    assert "figures are for sglang@0.5.23" in notes


def test_only_one_dialect_is_recorded():
    assert [dialect.target for dialect in DIALECTS if dialect.is_recorded] == ["sglang@0.5.23"]
    assert find_dialect("sglang@0.5.21").map_knobs == find_dialect("sglang@0.5.23").map_knobs


def test_the_default_recipe_leaves_the_decoder_its_batched_tiles():
    assumed = recipe_flags("MiniMaxAI/MiniMax-H3", Recipe.DEFAULT)
    assert assumed.flags[:2] == ("--performance-mode", "auto")
    assert assumed.flags[-2:] == ("--minimax-h3-adaln-online", "false")
    assert any("default quality" in note for note in assumed.notes)


def test_the_exact_recipe_of_h3_is_fixed_by_the_memory_mode_and_says_what_else_that_changes():
    assumed = recipe_flags("minimax-h3", Recipe.EXACT)
    assert assumed.flags[:2] == ("--performance-mode", "memory")
    assert any("parks" in note for note in assumed.notes)


def test_the_exact_recipe_of_other_models_rests_on_the_request():
    assumed = recipe_flags("Qwen/Qwen-Image", Recipe.EXACT)
    assert assumed.flags[:2] == ("--performance-mode", "auto")
    assert any("send quality=exact" in note for note in assumed.notes)


def test_a_switch_that_an_older_version_lacks_is_left_out():
    assert "--minimax-h3-adaln-online" not in recipe_flags("minimax-h3", Recipe.DEFAULT, "sglang@0.5.17").flags
    notes = recipe_flags("minimax-h3", Recipe.DEFAULT, "sglang@0.5.21").notes
    assert any("known of sglang@0.5.23 only" in note for note in notes)


def test_the_flags_of_a_recipe_are_no_placement_options():
    model = build_model({"transformer": (4,)})
    for recipe in Recipe:
        assumed = recipe_flags("minimax-h3", recipe)
        export = export_plan(build_plan(model, streamed("transformer")), model, assumed=assumed)
        assert parse_options(export.argv).unknown == assumed.flags
        assert export.notes == assumed.notes


def test_the_command_line_is_quoted_for_a_shell():
    model = build_model({"transformer": (4,)})
    line = export_plan(build_plan(model), model).command_line("/models/My Model")
    assert shlex.split(line)[:4] == ["sglang", "serve", "--model-path", "/models/My Model"]


def test_the_script_has_one_option_a_line_and_takes_more():
    model = build_model({"transformer": (4,)})
    export = export_plan(build_plan(model, streamed("transformer", resident=2), explicit=False), model)
    text = serve_script(export, "/models/My Model", ["made for\na test", ""])
    assert text.splitlines() == [
        "#!/usr/bin/env bash",
        "# made for",
        "# a test",
        "#",
        f"# {export.notes[0]}",
        "set -euo pipefail",
        "",
        "exec sglang serve \\",
        "  --model-path '/models/My Model' \\",
        "  --component-residency transformer=layerwise-offload \\",
        "  --layerwise-prefetch-size transformer=1 \\",
        "  --layerwise-resident-layers transformer=2 \\",
        "  --layerwise-residency-policy transformer=leading \\",
        "  --layerwise-residency-lifetime transformer=forward \\",
        '  "$@"',
    ]
    assert text.endswith('"$@"\n')
