import random

import pytest
from builders import SGLANG, build_component, build_facts, build_plan, kept, streamed

from autotune.export.server_command import parse_command
from autotune.space import FixedSettings, SearchSpace
from autotune.study_space import StudySpace
from autotune.workflows.fixed_settings import fix_settings
from runtime.errors import InputError
from runtime.residency import Lifetime, Mode, Policy

MODEL = build_facts(
    {
        "text_encoder": build_component(10),
        "transformer": build_component(20, is_dit=True),
        "vae": build_component(0),
    }
).model


def fix(*typed, command=None):
    parsed = parse_command(f"sglang serve --model-path M {command}") if command is not None else None
    return fix_settings(MODEL, typed, parsed)


def placements(fixed, component="transformer", max_prefetch=4):
    return SearchSpace(max_prefetch=max_prefetch, fixed=fixed).placements(MODEL.component(component))


def test_a_typed_knob_makes_its_component_stream():
    found = placements(fix("transformer.resident=7"))
    assert {(item.mode, item.resident) for item in found} == {(Mode.LAYERWISE_OFFLOAD, 7)}
    assert {item.prefetch for item in found} == {1, 2, 3, 4}


def test_all_means_every_layer_and_what_is_fixed_may_lie_outside_the_space():
    found = placements(fix("transformer.resident=all", "transformer.prefetch=17", "transformer.policy=strided"))
    assert {(item.resident, item.prefetch, item.policy) for item in found} == {(20, 17, Policy.STRIDED)}


def test_a_fixed_knob_stays_where_it_changes_nothing():
    found = placements(fix("transformer.resident=0", "transformer.lifetime=permanent"))
    assert {item.lifetime for item in found} == {Lifetime.PERMANENT}


def test_what_a_command_states_is_fixed_and_the_rest_is_searched():
    fixed = fix(command="--component-residency text_encoder=resident --dit-layerwise-resident-layers 0.5")
    assert fixed == (
        FixedSettings(component="text_encoder", mode=Mode.RESIDENT),
        FixedSettings(component="transformer", resident=10),
    )
    # The command does not say that the transformer streams.
    assert {item.mode for item in placements(fixed)} == set(Mode)
    assert {item.resident for item in placements(fixed) if item.mode is Mode.LAYERWISE_OFFLOAD} == {10}


def test_knobs_of_a_component_that_the_command_keeps_resident_mean_nothing():
    fixed = fix(command="--component-residency all=resident --dit-layerwise-resident-layers 5")
    assert {item.mode for item in placements(fixed)} == {Mode.RESIDENT}


def test_a_component_s_own_entry_counts_and_not_the_dit_s_default():
    fixed = fix(command="--layerwise-prefetch-size transformer=3 --dit-offload-prefetch-size 9")
    assert fixed == (FixedSettings(component="transformer", prefetch=3),)


@pytest.mark.parametrize(
    ("typed", "command", "first", "second"),
    [
        (["transformer.resident=1", "transformer.resident=2"], None, "resident=1", "resident=2"),
        (["transformer.resident=1", "transformer.mode=resident"], None, "resident=1", "mode=resident"),
        (["transformer.resident=1"], "--component-residency dit=resident", "resident=1", "mode resident"),
        (["transformer.resident=1"], "--dit-layerwise-resident-layers 2", "resident=1", "resident 2"),
        (["text_encoder.mode=resident"], "--layerwise-offload-components all", "mode=resident", "layerwise-offload"),
    ],
)
def test_two_settings_that_contradict_each_other_are_both_named(typed, command, first, second):
    with pytest.raises(InputError, match=f"{first}.* and .*{second} contradict each other"):
        fix(*typed, command=command)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("vae.mode=layerwise-offload", "vae has no list of layers"),
        ("vae.resident=0", "vae has no list of layers"),
        ("transformer.resident=21", "--fix .*longest stack has 20 layers"),
        ("transformer.colour=red", "--fix .*no knob"),
        ("transformer", "--fix .*not component.knob=value"),
        ("unet.resident=1", "no component 'unet'"),
    ],
)
def test_a_setting_that_no_component_can_have_is_refused(typed, message):
    with pytest.raises(InputError, match=message):
        fix(typed)


def test_a_command_that_streams_what_has_no_layers_is_refused():
    with pytest.raises(InputError, match="base-command for vae"):
        fix(command="--component-residency vae=layerwise-offload")


def test_a_snapshot_is_refused():
    with pytest.raises(InputError, match="snapshot-offload"):
        fix(command="--component-residency vae=snapshot-offload")


def test_a_study_s_seeds_and_neighbours_keep_what_is_fixed():
    fixed = fix("transformer.resident=7", "text_encoder.mode=resident")
    space = StudySpace(MODEL, SearchSpace(max_prefetch=4, fixed=fixed), SGLANG)
    plan = space.fold(build_plan(streamed("text_encoder"), streamed(prefetch=3), kept("vae")))
    assert plan.placement("text_encoder") == kept("text_encoder")
    assert plan.placement("transformer") == streamed(prefetch=3, resident=7)
    rng = random.Random(0)
    for _ in range(50):
        plan = space.draw_neighbour(plan, rng, lambda _: False)
        assert space.fold(plan) == plan
        assert (plan.placement("transformer").resident, plan.placement("text_encoder").mode) == (7, Mode.RESIDENT)


def test_studies_under_other_fixes_are_other_studies():
    keys = [
        str(StudySpace(MODEL, SearchSpace(fixed=fix(f"transformer.resident={count}")), SGLANG).describe())
        for count in (1, 2)
    ]
    assert keys[0] != keys[1]


def test_fixed_settings_are_told_in_words():
    assert fix("transformer.resident=7")[0].describe() == "transformer.mode=layerwise-offload, transformer.resident=7"
