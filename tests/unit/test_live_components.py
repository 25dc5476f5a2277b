"""Every catalog component, shrunken, with weights on the CPU: it runs, and has the bytes that are planned with."""

import pytest
import torch
from shrunken_models import FLUX, H3, SHRUNKEN_MODELS, WAN22

from autotune.catalog.registry import CATALOG
from autotune.live_components import (
    RING_VALUES,
    build_components,
    build_live_component,
    list_component_builders,
    synthetic_input,
)
from autotune.meta_tracker import tensors_in
from autotune.meta_weights import compute_buffer_bytes, count_bytes
from autotune.workload import Workload
from runtime.errors import InputError

COMPONENTS = [
    pytest.param(model, name, id=f"{model.name}/{name}") for model in SHRUNKEN_MODELS for name in model.configs
]
# The server keeps Wan2.1's float32 weights and decodes under autocast; here the weights themselves are cast.
OF_SPEC_DTYPE = [component for component in COMPONENTS if component.id != "Wan2.1-T2V-1.3B/vae"]
UNAPPLIED_NORM_BYTES = {("H3", "text_encoder"): 64 * torch.bfloat16.itemsize}
"""In the spec and not in the module that runs: the server keeps the norm and does not apply it."""


@torch.no_grad()
def run(built, *, seed=2):
    return list(tensors_in(built.run(synthetic_input("cpu", seed), None)))


@pytest.mark.parametrize(("model", "name"), COMPONENTS)
def test_component_with_random_weights_computes_finite_output_again_and_again(model, name):
    built = model.list_builders()[name]()
    module = build_live_component(built, device="cpu", seed=1)
    first, second = run(built), run(built)
    assert first[0].float().std() > 0
    assert all(torch.isfinite(tensor).all() for tensor in first)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert not module.training


@pytest.mark.parametrize(("model", "name"), OF_SPEC_DTYPE)
def test_weights_have_the_bytes_of_the_spec(model, name):
    built = model.list_builders()[name]()
    module = build_live_component(built, device="cpu", seed=1)
    in_layers = set()
    for stack, layers in built.stacks.items():
        assert [compute_buffer_bytes(layer.parameters()) for layer in layers] == [
            layer.run_bytes for layer in built.spec.stack(stack).layers
        ]
        in_layers |= {id(weight) for layer in layers for weight in layer.parameters()}
    rest = [weight for weight in module.parameters() if id(weight) not in in_layers]
    rest += [module.rope.inv_freq] if model is H3 and name == "transformer" else []
    assert count_bytes(rest) + UNAPPLIED_NORM_BYTES.get((model.name, name), 0) == built.spec.rest_run_bytes


@pytest.mark.parametrize(("model", "name"), COMPONENTS)
def test_layers_are_submodules_and_nothing_stays_without_data(model, name):
    built = model.list_builders()[name]()
    module = build_live_component(built, device="cpu", seed=1)
    submodules = set(module.modules())
    assert all(layer in submodules for layers in built.stacks.values() for layer in layers)
    assert not any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))


def test_tied_weights_stay_one_tensor():
    built = FLUX.list_builders()["text_encoder_2"]()
    module = build_live_component(built, device="cpu", seed=1)
    assert module.shared.weight is module.encoder.embed_tokens.weight


def test_seed_decides_the_weights():
    weights = [
        build_live_component(FLUX.list_builders()["vae"](), device="cpu", seed=seed).decoder.conv_in.weight
        for seed in (1, 1, 2)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_weight_larger_than_the_ring_is_filled_to_its_end():
    built = FLUX.list_builders()["vae"]()
    built.module.extra = torch.nn.Parameter(torch.empty(3, RING_VALUES // 2, device="meta"))
    extra = build_live_component(built, device="cpu", seed=1).extra
    bound = (RING_VALUES // 2) ** -0.5
    assert extra.abs().max() <= bound
    assert extra[2, -1000:].std() > bound / 3


def test_decode_leaves_no_frames_in_the_cache_of_the_next_one():
    built = WAN22.list_builders()["vae"]()
    build_live_component(built, device="cpu", seed=1)
    first = run(built, seed=2)
    run(built, seed=3)
    assert torch.equal(run(built, seed=2)[0], first[0])


def test_other_inputs_make_other_output():
    built = H3.list_builders()["transformer"]()
    build_live_component(built, device="cpu", seed=1)
    assert not torch.equal(run(built, seed=2)[0], run(built, seed=3)[0])


def test_inputs_that_are_no_numbers_of_a_scale_hold_what_is_asked_for():
    make_input = synthetic_input("cpu", 1)
    assert make_input(2, 2, dtype=torch.long).tolist() == [[0, 0], [0, 0]]
    assert make_input(2, dtype=torch.bool, integers=1).tolist() == [True, True]
    assert make_input(2, 3, dtype=torch.long, integers=range(4, 7)).tolist() == [[4, 5, 6], [4, 5, 6]]


def test_factory_of_one_seed_repeats_its_inputs_in_order():
    one, other = synthetic_input("cpu", 1), synthetic_input("cpu", 1)
    drawn = [one(8, dtype=torch.bfloat16), one(8, dtype=torch.bfloat16)]
    assert torch.equal(drawn[0], other(8, dtype=torch.bfloat16))
    assert torch.equal(drawn[1], other(8, dtype=torch.bfloat16))
    assert not torch.equal(*drawn)


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.name)
def test_every_configured_component_has_a_builder(entry):
    assert set(list_component_builders(entry.name)) == set(entry.configs)


def test_components_are_built_for_the_request_as_the_server_would_run_it():
    built = build_components("FLUX.1", Workload(width=256, height=256, frames=1, steps=3, prompt_tokens=7))
    assert list(built) == ["text_encoder", "text_encoder_2", "transformer", "vae"]
    assert len(built["transformer"].stacks["single_transformer_blocks"]) == 38
    with pytest.raises(InputError, match="unknown model"):
        build_components("FLUX.9")
