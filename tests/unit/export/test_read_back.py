import pytest
from export_builders import build_model

from autotune.export.read_back import plan_from_options
from autotune.export.sglang_options import parse_options
from runtime.errors import FlagError
from runtime.residency import Lifetime, Mode, Policy

FLUX = {"transformer": (19, 38), "vae": ()}


def read(argv, stacks=FLUX, **arguments):
    return plan_from_options(parse_options(argv), build_model(stacks), **arguments)


def test_counts_and_words_of_a_streamed_component_become_its_placement():
    plan = read(
        [
            *("--component-residency", "transformer=layerwise-offload", "vae=resident"),
            *("--layerwise-prefetch-size", "transformer=2"),
            *("--layerwise-resident-layers", "transformer=20"),
            *("--layerwise-residency-policy", "transformer=strided"),
            *("--layerwise-residency-lifetime", "transformer=permanent"),
        ]
    )
    placement = plan.placement("transformer")
    assert (placement.prefetch, placement.resident) == (2, 20)
    assert (placement.policy, placement.lifetime) == (Policy.STRIDED, Lifetime.PERMANENT)
    assert plan.explicit


def test_knobs_of_a_component_that_is_not_streamed_are_dropped():
    plan = read(["--component-residency", "all=resident", "--dit-layerwise-resident-layers", "5"])
    assert plan.placement("transformer").resident == 0


def test_counts_beyond_the_longest_stack_are_clamped_to_it():
    argv = ["--component-residency", "dit=layerwise-offload", "vae=resident"]
    plan = read([*argv, "--dit-layerwise-resident-layers", "999", "--dit-offload-prefetch-size", "99"])
    assert (plan.placement("transformer").resident, plan.placement("transformer").prefetch) == (38, 38)


def test_a_share_that_one_count_reproduces_on_every_stack_is_accepted():
    argv = ["--component-residency", "dit=layerwise-offload", "--dit-layerwise-resident-layers", "0.9"]
    plan = read(argv, {"transformer": (1, 3)})
    assert plan.placement("transformer").resident == 3


def test_a_share_that_differs_between_stacks_is_refused():
    argv = ["--component-residency", "all=layerwise-offload", "vae=resident", "--dit-layerwise-resident-layers", "0.5"]
    with pytest.raises(FlagError, match=r"resident of transformer is a share .*\(10 of 19, 19 of 38\)"):
        read(argv)


def test_a_component_left_to_the_server_needs_its_default_mode():
    argv = ["--component-residency", "vae=resident"]
    with pytest.raises(FlagError, match="leave transformer to the server: name its mode"):
        read(argv)
    plan = read(argv, default_modes={"transformer": Mode.COMPONENT_OFFLOAD})
    assert plan.placement("transformer").mode is Mode.COMPONENT_OFFLOAD
    assert not plan.explicit


def test_a_mode_that_a_plan_cannot_hold_is_refused():
    with pytest.raises(FlagError, match="snapshot-offload, which a plan cannot hold"):
        read(["--component-residency", "all=snapshot-offload"])


def test_streaming_a_component_without_layers_is_refused():
    with pytest.raises(FlagError, match="vae has no list of layers"):
        read(["--component-residency", "all=layerwise-offload"])
