"""What the server chooses for the rest when options place some components."""

import pytest

from autotune.server_default import PerformanceMode, Stated, default_modes
from runtime.deployment import Deployment
from runtime.residency import Mode
from runtime.units import GIB

RESIDENT, MOVED, STREAMED = Mode.RESIDENT, Mode.COMPONENT_OFFLOAD, Mode.LAYERWISE_OFFLOAD
H3 = Deployment(
    makes_images=False,
    dit_layerwise_modes=("auto", "memory"),
    dit_prefetch_value=2.0,
    keep_resident_min_gib=120.0,
    keep_resident_groups=("dit", "text_encoder", "vae"),
)
IMAGES = Deployment(makes_images=True)
NAMES = ("text_encoder", "text_encoder_2", "image_encoder", "transformer", "transformer_2", "vae")


def choose(deployment=H3, *, free_gib=24, mode="auto", **stated):
    chosen = default_modes(
        deployment,
        dict.fromkeys(NAMES, 40 * GIB),
        device_free_bytes=free_gib * GIB,
        performance_mode=PerformanceMode(mode),
        stated=Stated(**stated),
    )
    return {name: default.mode for name, default in chosen.items()}


def test_a_list_of_what_streams_leaves_the_unlisted_encoders_and_dits_to_whole_moves():
    assert choose(selects_streams=True) == {
        "text_encoder": MOVED,
        "text_encoder_2": MOVED,
        "image_encoder": MOVED,
        "transformer": MOVED,
        "transformer_2": MOVED,
        "vae": RESIDENT,
    }


def test_under_memory_the_unlisted_encoders_stay_resident():
    chosen = choose(mode="memory", selects_streams=True)
    assert (chosen["text_encoder"], chosen["transformer"], chosen["vae"]) == (RESIDENT, MOVED, RESIDENT)


def test_a_group_whose_first_component_is_placed_is_left_out_of_the_choice():
    chosen = choose(groups=frozenset({"dit", "text_encoder"}))
    assert (chosen["transformer_2"], chosen["text_encoder_2"]) == (MOVED, MOVED)
    assert (chosen["image_encoder"], chosen["vae"]) == (STREAMED, STREAMED)


def test_large_cards_keep_the_unlisted_groups_that_the_model_names():
    chosen = choose(free_gib=130, selects_streams=True)
    assert (chosen["text_encoder"], chosen["transformer"], chosen["image_encoder"]) == (RESIDENT, RESIDENT, MOVED)


@pytest.mark.parametrize(("total_gib", "mode"), [(24, MOVED), (32, RESIDENT)])
def test_an_image_model_s_image_encoder_is_moved_on_small_cards_only(total_gib, mode):
    chosen = choose(IMAGES, selects_streams=True, device_total_bytes=total_gib * GIB)
    assert (chosen["image_encoder"], chosen["text_encoder"]) == (mode, MOVED)


@pytest.mark.parametrize("mode", ["speed", "manual"])
def test_speed_and_manual_keep_what_is_left_resident(mode):
    assert set(choose(mode=mode, selects_streams=True, groups=frozenset({"dit"})).values()) == {RESIDENT}
