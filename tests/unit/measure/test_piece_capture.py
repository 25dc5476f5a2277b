"""Pieces of a component's run: which there are, how often each is called, and that together they are the whole run."""

import pytest
from shrunken_models import FLUX, H3, QWEN_IMAGE, SHRUNKEN_MODELS, WAN21, Z_IMAGE

from autotune.capture import capture_forward
from autotune.catalog.built_component import capture_component, meta_empty
from autotune.measure.call_template import list_tensors
from autotune.measure.piece_capture import capture_run, list_places

COMPONENTS = [
    pytest.param(model, name, id=f"{model.name}/{name}") for model in SHRUNKEN_MODELS for name in model.configs
]


def capture(model, name):
    built = model.list_builders()[name]()
    return built, capture_run(built)


def places_of(run, stack):
    return [piece for piece in run.pieces if piece.place.stack == stack]


@pytest.mark.parametrize(("model", "name"), COMPONENTS)
def test_pieces_and_what_is_around_them_are_the_whole_run(model, name):
    built, run = capture(model, name)
    counted = run.count_forward(
        {stack: len(layers) for stack, layers in built.stacks.items()}, lambda piece: piece.work
    )
    expected = capture_component(model.list_builders()[name]())
    found = built.finish(counted)
    assert found.use == expected.use
    for one, other in zip(found.work.groups, expected.work.groups, strict=True):
        assert one.outside.other_bytes == pytest.approx(other.outside.other_bytes)
        assert one.outside.flops == pytest.approx(other.outside.flops)
        assert [work.flops for layers in one.layers.values() for work in layers] == pytest.approx(
            [work.flops for layers in other.layers.values() for work in layers]
        )
    assert found.work.outside.flops == pytest.approx(expected.work.outside.flops)
    assert found.work.activation_bytes == expected.work.activation_bytes


def test_layers_that_compute_alike_are_one_and_others_are_not():
    _, run = capture(H3, "transformer")
    blocks, refiners = places_of(run, "blocks"), places_of(run, "token_refiner.blocks")
    assert len({piece.digest for piece in blocks}) == 1
    assert len(blocks) == 4
    assert not {piece.digest for piece in blocks} & {piece.digest for piece in refiners}


def test_the_same_model_has_the_same_digests_again():
    first, second = (capture(FLUX, "transformer")[1] for _ in range(2))
    assert [piece.digest for piece in first.pieces] == [piece.digest for piece in second.pieces]


def test_calls_inside_of_repeated_tiles_are_all_counted():
    _, run = capture(H3, "video_vae")
    walked = H3.list_builders()["video_vae"]()
    calls = []
    walked.stacks["decoder.transformer_blocks"][0].register_forward_hook(lambda *_: calls.append(1))
    capture_forward(walked.module, lambda tracker: walked.run(meta_empty, tracker), stacks={})
    assert places_of(run, "decoder.transformer_blocks")[0].calls == len(calls) > 1


def test_a_decoder_with_a_cache_is_called_in_several_ways():
    _, run = capture(WAN21, "vae")
    first_block = [piece for piece in run.pieces if piece.place.name == "decoder.up_blocks[0]"]
    assert len({piece.digest for piece in first_block}) == len(first_block) > 1


def test_parts_outside_the_stacks_are_pieces_where_they_hold_weights_and_are_called():
    _, run = capture(QWEN_IMAGE, "transformer")
    parts = {piece.place.path for piece in run.pieces if piece.place.stack is None}
    assert parts == {"img_in", "txt_norm", "txt_in", "time_text_embed", "norm_out", "proj_out"}


def test_parts_that_run_once_per_use_say_so():
    _, run = capture(H3, "transformer")
    assert {piece.place.path for piece in run.pieces if piece.place.runs_once} == {
        "context_embedder",
        "token_refiner.final_norm",
        "rope",
    }


def test_a_container_is_no_piece_but_its_layers_are():
    built = Z_IMAGE.list_builders()["transformer"]()
    paths = [place.path for place, _ in list_places(built)]
    layers = {id(layer) for stack in built.stacks.values() for layer in stack}
    for path in paths:
        module = built.module.get_submodule(path)
        assert id(module) in layers or not layers & {id(part) for part in module.modules()}


def test_a_piece_knows_its_inputs_and_the_memory_around_it():
    _, run = capture(H3, "transformer")
    block = places_of(run, "blocks")[0]
    rows = next(list_tensors(block.call.args)).shape[1]
    assert block.describe_inputs()[0] == f"bfloat16[1, {rows}, 64]"
    assert min(block.entry_bytes, block.rise_bytes) > rows * 64 * 2
