"""A checkpoint of a catalog model: work from the catalog, bytes from the file, differences in the notes."""

import pytest
from checkpoint_files import blocks, write_pipeline, write_tensors
from released_files import describe_flux_transformer, quantize

from autotune.capture_cache import load_model_facts
from autotune.catalog.registry import CATALOG
from autotune.checkpoint.facts import load_checkpoint_facts
from autotune.checkpoint.families import find_family
from autotune.checkpoint.pipeline import read_inventory
from autotune.checkpoint.signatures import SIGNATURES
from autotune.checkpoint.unknown import COMPUTE_UNKNOWN
from runtime.model_spec import PassGroup

FLUX_CLASS = "FluxTransformer2DModel"
STACKS = ("transformer_blocks", "single_transformer_blocks")


@pytest.fixture(scope="module")
def tensors():
    return describe_flux_transformer()


@pytest.fixture(scope="module")
def flux():
    return load_model_facts("FLUX.1-dev")


def load(path, **shape):
    return load_checkpoint_facts(path, shape, progress=lambda _: None)


def transformer_work(facts):
    return next(work for work in facts.work if work.component == "transformer")


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.name)
def test_every_catalog_model_has_the_signature_of_its_transformer(entry):
    facts = load_model_facts(entry.name)
    signature = next(found for found in SIGNATURES if found.model == entry.name)
    dits = [part for part in facts.model.components if part.is_dit]
    assert len(dits) == signature.dits
    for dit in dits:
        assert dit.class_name == signature.dit_class
        lists = list(signature.stacks)
        for stack in dit.stacks:
            run_bytes = stack.layers[0].run_bytes
            # A server need not stream every list of the file; each one that it streams is in the signature.
            lists.remove(next(found for found in lists if (len(stack.layers), run_bytes) == (found[0], near(found[1]))))


def near(weights):
    return pytest.approx(2 * weights, rel=0.01)


def test_single_file_with_the_released_layers_is_the_catalog_model(tmp_path, tensors, flux):
    facts = load(write_tensors(tmp_path / "flux.safetensors", tensors))
    assert facts.source == "checkpoint"
    assert facts.model.component("transformer") == flux.model.component("transformer")
    assert (facts.work, facts.request) == (flux.work, flux.request)
    assert "flux.safetensors has the layers of FLUX.1-dev: work is the catalog's" in facts.notes[0]
    assert any("vae is not in flux.safetensors: its bytes are the catalog's" in note for note in facts.notes)


def test_wrapper_before_the_names_changes_nothing(tmp_path, tensors, flux):
    wrapped = {f"model.diffusion_model.{name}": tensor for name, tensor in tensors.items()}
    facts = load(write_tensors(tmp_path / "flux.safetensors", wrapped))
    assert facts.model.component("transformer") == flux.model.component("transformer")


def test_lists_of_other_names_are_found_by_what_they_hold(tmp_path, tensors, flux):
    renamed = {
        name.replace("single_transformer_blocks", "single_blocks").replace(
            "transformer_blocks", "double_blocks"
        ): tensor
        for name, tensor in tensors.items()
    }
    facts = load(write_tensors(tmp_path / "flux.safetensors", renamed))
    assert facts.model.component("transformer") == flux.model.component("transformer")


@pytest.mark.parametrize("dtype", ["F8_E4M3", "I8"])
def test_quantised_file_gives_the_bytes_and_the_catalog_the_work(tmp_path, tensors, flux, dtype):
    quantised = quantize(tensors, dtype, STACKS)
    facts = load(write_tensors(tmp_path / "flux.safetensors", quantised))
    layer = facts.model.component("transformer").stack("transformer_blocks").layers[0]
    released = flux.model.component("transformer").stack("transformer_blocks").layers[0]
    assert 0.5 < layer.run_bytes / released.run_bytes < 0.502
    assert layer.checkpoint_bytes <= layer.run_bytes
    assert transformer_work(facts) == transformer_work(flux)
    assert any("GiB as run instead of" in note for note in facts.notes)
    assert facts.model.component("transformer").rest_run_bytes == flux.model.component("transformer").rest_run_bytes


def test_file_in_float32_is_cast_at_load_and_runs_with_the_bytes_of_the_catalog(tmp_path, tensors, flux):
    wide = {name: ("F32", shape) for name, (_, shape) in tensors.items()}
    spec = load(write_tensors(tmp_path / "flux.safetensors", wide)).model.component("transformer")
    released = flux.model.component("transformer")
    assert spec.run_bytes == released.run_bytes
    assert spec.checkpoint_bytes == 2 * released.checkpoint_bytes
    assert all(layer.view_bytes == 0 for stack in spec.stacks for layer in stack.layers)


def test_half_precision_of_the_other_kind_is_cast_so_it_cannot_stay_mapped(tmp_path, tensors, flux):
    halves = {name: ("F16", shape) for name, (_, shape) in tensors.items()}
    spec = load(write_tensors(tmp_path / "flux.safetensors", halves)).model.component("transformer")
    assert spec.run_bytes == flux.model.component("transformer").run_bytes
    assert all(layer.view_bytes == 0 for stack in spec.stacks for layer in stack.layers)


def test_pruned_model_has_work_for_the_layers_that_are_left(tmp_path, tensors, flux):
    left = {
        name: tensor
        for name, tensor in tensors.items()
        if not name.startswith(tuple(f"single_transformer_blocks.{i}." for i in range(8, 38)))
    }
    facts = load(write_tensors(tmp_path / "flux.safetensors", left), steps=28)
    layers = transformer_work(facts).groups[0].layers
    assert {stack: len(work) for stack, work in layers.items()} == dict(zip(STACKS, (19, 8), strict=True))
    use = next(use for use in facts.request.uses if use.component == "transformer")
    assert use.groups == (PassGroup(stacks=STACKS, passes=28),)
    assert any("single_transformer_blocks has 8 layers, the catalog's 38" in note for note in facts.notes)


def test_same_layers_of_another_class_are_another_model(tmp_path, tensors):
    folder = write_pipeline(tmp_path, {"transformer": ("ChromaTransformer2DModel", tensors)})
    assert find_family(read_inventory(folder)) is None
    assert load(folder).notes[0] == COMPUTE_UNKNOWN


def test_further_lists_make_another_model(tmp_path, tensors):
    more = {**tensors, **blocks("control_blocks", 4, 10**9)}
    assert find_family(read_inventory(write_tensors(tmp_path / "x.safetensors", more))) is None


def test_more_layers_than_the_catalog_has_make_another_model(tmp_path, tensors):
    more = {
        **tensors,
        **{
            name.replace(".0.", ".19.", 1): part
            for name, part in tensors.items()
            if name.startswith("transformer_blocks.0.")
        },
    }
    assert find_family(read_inventory(write_tensors(tmp_path / "x.safetensors", more))) is None


def test_component_of_another_model_keeps_its_bytes_and_loses_its_work(tmp_path, tensors, flux):
    encoder = ("OtherEncoder", blocks("layers", 6, 2**20))
    guard = ("SafetyChecker", {"w": ("U8", (2**30,))})
    folder = write_pipeline(
        tmp_path, {"text_encoder_2": encoder, "transformer": (FLUX_CLASS, tensors), "safety_checker": guard}
    )
    facts = load(folder)
    assert facts.model.component("text_encoder_2").run_bytes == 6 * 2**20
    use = next(use for use in facts.request.uses if use.component == "text_encoder_2")
    assert use.groups == (PassGroup(stacks=("layers",), passes=1),)
    work = next(work for work in facts.work if work.component == "text_encoder_2")
    assert sum(layer.flops for layer in work.groups[0].layers["layers"]) == 0
    assert any("text_encoder_2 is another model than the catalog's T5EncoderModel" in note for note in facts.notes)
    assert any("safety_checker (1.00 GiB) is no part of FLUX.1-dev" in note for note in facts.notes)


def test_weights_outside_the_layers_that_differ_are_counted_and_noted(tmp_path, tensors, flux):
    wider = {**tensors, "x_embedder.weight": ("BF16", (3072, 384))}
    facts = load(write_tensors(tmp_path / "fill.safetensors", wider))
    released = flux.model.component("transformer").rest_run_bytes
    assert facts.model.component("transformer").rest_run_bytes == released + 3072 * (384 - 64) * 2
    assert any(
        "weights outside the layers differ from the catalog's by +1,966,080 bytes" in note for note in facts.notes
    )
