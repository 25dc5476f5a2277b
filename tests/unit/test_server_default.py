from dataclasses import replace

import pytest
from builders import SGLANG

from autotune.server_default import (
    PARKS_NON_LAYER_WEIGHTS,
    PerformanceMode,
    choose_default,
    default_modes,
    estimate_loaded_bytes,
)
from runtime.deployment import Deployment
from runtime.errors import InputError, UnsupportedError
from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, StackSpec
from runtime.residency import Mode
from runtime.units import GIB

RESIDENT, MOVED, STREAMED = Mode.RESIDENT, Mode.COMPONENT_OFFLOAD, Mode.LAYERWISE_OFFLOAD
VIDEO = Deployment(makes_images=False)
IMAGES = Deployment(makes_images=True)
SIZES_GIB = {"text_encoder": 20, "transformer": 40, "vae": 1}
AUTO, MEMORY = PerformanceMode.AUTO, PerformanceMode.MEMORY


def choose(deployment=VIDEO, *, free_gib, mode=AUTO, **sizes_gib):
    sizes = {name: round(size * GIB) for name, size in (sizes_gib or SIZES_GIB).items()}
    chosen = default_modes(deployment, sizes, device_free_bytes=round(free_gib * GIB), performance_mode=mode)
    return {name: default.mode for name, default in chosen.items()}


def component(name, *, layers=3, layer_gib=1.0, **changes):
    layer = LayerSpec(checkpoint_bytes=round(layer_gib * GIB), run_bytes=round(layer_gib * GIB))
    spec = ComponentSpec(
        name=name,
        class_name="Toy",
        stacks=(StackSpec(name="blocks", layers=(layer,) * layers),) if layers else (),
        rest_run_bytes=0,
        rest_checkpoint_bytes=0,
        run_dtype="bfloat16",
    )
    return replace(spec, **changes)


def model(*components, deployment=VIDEO):
    return ModelSpec(name="toy", components=components, deployment=deployment)


def plan_for(toy, *, free_gib=23.0, total_gib=24.0, mode="auto"):
    return choose_default(
        toy,
        device_total_bytes=round(total_gib * GIB),
        device_free_bytes=round(free_gib * GIB),
        performance_mode=mode,
    )


def modes_of(plan):
    return {placement.component: placement.mode for placement in plan.placements}


@pytest.mark.parametrize("mode", ["speed", "manual"])
def test_speed_and_manual_keep_everything_resident_however_small_the_card(mode):
    assert set(choose(free_gib=1, mode=PerformanceMode(mode)).values()) == {RESIDENT}


def test_auto_keeps_everything_resident_from_twice_the_weights_on():
    assert set(choose(free_gib=122).values()) == {RESIDENT}
    assert choose(free_gib=121.9) == {"text_encoder": STREAMED, "transformer": MOVED, "vae": RESIDENT}
    assert choose(free_gib=1000, mode=MEMORY) == {"text_encoder": STREAMED, "transformer": MOVED, "vae": STREAMED}


@pytest.mark.parametrize(("deployment", "threshold_gib"), [(IMAGES, 45), (VIDEO, 120)])
def test_the_threshold_of_the_task_keeps_the_named_groups(deployment, threshold_gib):
    below, above = (
        choose(deployment, free_gib=free, transformer=999, vae=1) for free in (threshold_gib - 0.1, threshold_gib)
    )
    assert below == {"transformer": MOVED, "vae": STREAMED}
    assert above["vae"] == RESIDENT
    assert above["transformer"] == (RESIDENT if deployment is IMAGES else MOVED)


def test_a_models_own_threshold_beats_the_tasks():
    deployment = replace(VIDEO, keep_resident_min_gib=30.0, keep_resident_groups=("dit", "text_encoder"))
    assert choose(deployment, free_gib=30) == {"text_encoder": RESIDENT, "transformer": RESIDENT, "vae": STREAMED}
    assert choose(deployment, free_gib=29) == {"text_encoder": STREAMED, "transformer": MOVED, "vae": STREAMED}


def test_the_dit_streams_in_the_modes_that_its_deployment_lists():
    both, memory = (replace(VIDEO, dit_layerwise_modes=modes) for modes in (("auto", "memory"), ("memory",)))
    assert choose(both, free_gib=100)["transformer"] == STREAMED
    assert choose(both, free_gib=100, mode=MEMORY)["transformer"] == STREAMED
    assert choose(memory, free_gib=100)["transformer"] == MOVED
    assert choose(memory, free_gib=100, mode=MEMORY)["transformer"] == STREAMED


def test_a_dit_that_fills_more_than_80_percent_of_what_is_free_streams_although_listed_for_memory_only():
    deployment = replace(VIDEO, dit_layerwise_modes=("memory",))
    assert choose(deployment, free_gib=50)["transformer"] == MOVED
    assert choose(deployment, free_gib=49.9)["transformer"] == STREAMED
    assert choose(VIDEO, free_gib=49.9)["transformer"] == MOVED


def test_only_the_first_dit_is_sized_for_that_rule_and_both_follow_it():
    deployment = replace(VIDEO, dit_layerwise_modes=("memory",))
    assert set(choose(deployment, free_gib=30, transformer=1, transformer_2=40).values()) == {MOVED}
    assert set(choose(deployment, free_gib=30, transformer=40, transformer_2=1).values()) == {STREAMED}


def test_the_default_prefetch_of_a_dit_belongs_to_auto():
    deployment = replace(VIDEO, dit_layerwise_modes=("auto", "memory"), dit_prefetch_value=2.0)
    toy = model(component("text_encoder"), component("transformer"), deployment=deployment)
    assert [placement.prefetch for placement in plan_for(toy, free_gib=1).placements] == [1, 2]
    assert [placement.prefetch for placement in plan_for(toy, free_gib=1, mode="memory").placements] == [1, 1]


def test_a_share_as_default_prefetch_is_refused():
    deployment = replace(VIDEO, dit_layerwise_modes=("auto",), dit_prefetch_value=0.5)
    with pytest.raises(UnsupportedError, match=r"default prefetch of transformer is 0\.5, a share"):
        plan_for(model(component("transformer"), deployment=deployment), free_gib=1)


def test_audio_decoders_stay_and_helpers_of_the_dit_follow_its_switch():
    sizes = {"transformer": 9, "connectors": 1, "audio_vae": 1, "vocoder": 1, "condition_image_encoder": 1}
    streamed = replace(VIDEO, dit_layerwise_modes=("auto",))
    assert choose(streamed, free_gib=10, **sizes) == {
        "transformer": STREAMED,
        "connectors": MOVED,
        "audio_vae": RESIDENT,
        "vocoder": RESIDENT,
        "condition_image_encoder": STREAMED,
    }


def test_a_component_without_layers_is_not_streamed():
    deployment = replace(VIDEO, dit_layerwise_modes=("auto",))
    toy = model(component("text_encoder", layers=0), component("transformer", layers=0), deployment=deployment)
    toy_modes = modes_of(plan_for(toy, free_gib=0))
    assert toy_modes == {"text_encoder": RESIDENT, "transformer": RESIDENT}
    weighty = replace(toy, components=tuple(replace(part, rest_run_bytes=GIB) for part in toy.components))
    assert modes_of(plan_for(weighty, free_gib=1)) == {"text_encoder": RESIDENT, "transformer": MOVED}


def test_the_plan_is_the_servers_own_and_covers_the_model_in_its_order():
    toy = model(component("vae"), component("transformer"), component("text_encoder"))
    plan = plan_for(toy, free_gib=10)
    assert (plan.engine, plan.explicit) == (SGLANG, False)
    assert [placement.component for placement in plan.placements] == ["vae", "transformer", "text_encoder"]
    plan.check_fits_model(toy)


def test_the_servers_sizing_counts_the_loaded_precision_and_what_it_never_loads():
    plain = component("vae", layers=2)
    assert estimate_loaded_bytes(plain) == 2 * GIB
    assert estimate_loaded_bytes(replace(plain, cast_bytes=5 * GIB)) == 5 * GIB
    assert estimate_loaded_bytes(replace(plain, unread_checkpoint_bytes=GIB)) == 3 * GIB
    assert estimate_loaded_bytes(replace(plain, unread_checkpoint_bytes=GIB, cast_bytes=4 * GIB)) == 6 * GIB
    assert estimate_loaded_bytes(component("vae", layers=0)) == 0


def test_a_model_that_the_server_does_not_know_is_refused():
    with pytest.raises(UnsupportedError, match="no known configuration for toy"):
        plan_for(model(component("transformer"), deployment=None))


@pytest.mark.parametrize("mode", ["turbo", "AUTO", "", "auto "])
def test_an_unknown_performance_mode_is_refused(mode):
    with pytest.raises(InputError, match="is unknown: the server knows manual, auto, speed, memory"):
        plan_for(model(component("transformer")), mode=mode)


@pytest.mark.parametrize("free_gib", [-1, 24.5])
def test_more_free_memory_than_the_card_has_is_refused(free_gib):
    with pytest.raises(InputError, match="give 0 up to its total"):
        plan_for(model(component("transformer")), free_gib=free_gib)


def test_only_the_memory_preset_parks_weights():
    assert frozenset({"memory"}) == PARKS_NON_LAYER_WEIGHTS
