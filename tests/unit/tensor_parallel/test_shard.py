"""One rank's facts: what it holds, computes and exchanges, and what is refused."""

from dataclasses import replace

import pytest
from builders import ToyComponent, ToyStack, build_facts

from autotune.catalog.minimax_h3 import DEFAULT_WORKLOAD
from autotune.fidelity.factors import apply_to_facts
from autotune.tensor_parallel.minimax_h3 import count_tiles
from autotune.tensor_parallel.shard import shard_facts
from autotune.workload import Recipe
from runtime.errors import InputError, UnsupportedError

SIZES = (2, 4, 8)
BLOCK, NORMS = 1_291_143_680, 22_016


def work_of(facts, component):
    return next(work for work in reversed(facts.work) if work.component == component)


def test_one_rank_is_the_whole_model(h3):
    assert shard_facts(h3, 1) is h3


@pytest.mark.parametrize("ranks", SIZES)
def test_a_block_is_divided_but_for_its_norms(h3, ranks):
    block = shard_facts(h3, ranks).model.component("transformer").stack("blocks").layers[0]
    assert block.run_bytes == NORMS + (BLOCK - NORMS) // ranks
    assert block.view_bytes == 0


@pytest.mark.parametrize("ranks", SIZES)
def test_ranks_hold_at_least_the_whole_model_together(h3, ranks):
    rank = shard_facts(h3, ranks)
    for whole, own in zip(h3.model.components, rank.model.components, strict=True):
        assert own.run_bytes * ranks >= whole.run_bytes
        assert own.checkpoint_bytes * ranks >= whole.checkpoint_bytes
        for stack, own_stack in zip(whole.stacks, own.stacks, strict=True):
            assert own_stack.run_bytes * ranks >= stack.run_bytes


def test_more_ranks_never_raise_what_one_holds_or_computes(h3):
    ranks = [shard_facts(h3, size) for size in (1, *SIZES)]
    for more, fewer in zip(ranks[1:], ranks, strict=False):
        for own, before in zip(more.model.components, fewer.model.components, strict=True):
            assert own.run_bytes <= before.run_bytes
            assert own.rest_run_bytes <= before.rest_run_bytes
        for work, before in zip(more.work, fewer.work, strict=True):
            assert work.activation_bytes <= before.activation_bytes


def test_the_decoders_and_the_vocabulary_table_are_whole_on_every_rank(h3):
    rank = shard_facts(h3, 4)
    for name in ("video_vae", "audio_vae"):
        assert rank.model.component(name) == h3.model.component(name)
    assert rank.model.component("text_encoder").host_table_bytes == 151_936 * 5_120 * 2


def test_operations_of_a_block_are_divided_and_its_rows_are_added_up_twice(h3):
    whole = work_of(h3, "transformer").groups[1].layers["blocks"][0]
    own = work_of(shard_facts(h3, 4), "transformer").groups[1].layers["blocks"][0]
    assert (own.matmul_flops, own.attention_flops) == (whole.matmul_flops / 4, whole.attention_flops / 4)
    rows_bytes = 38_222 * 5_376 * 2
    assert own.exchange_bytes == 2 * rows_bytes * 2 * 3 / 4
    assert whole.exchange_bytes == 0


def test_tiles_of_a_window_are_shared_and_one_pass_decodes_the_rest(h3):
    assert count_tiles(DEFAULT_WORKLOAD) == 28
    rank = shard_facts(h3, 8)
    passes = [use.groups[0].passes for use in (h3.request.uses[-1], rank.request.uses[-1])]
    assert passes == [7, 7]
    layers = [work_of(facts, "video_vae").groups[0].layers["decoder.transformer_blocks"] for facts in (h3, rank)]
    assert layers[1][0].matmul_flops == pytest.approx(layers[0][0].matmul_flops * 4 / 28)


def test_a_rank_that_decodes_single_tiles_makes_fewer_passes(h3):
    groups = (replace(h3.request.uses[-1].groups[0], passes=196),)
    uses = (*h3.request.uses[:-1], replace(h3.request.uses[-1], groups=groups))
    workload = replace(h3.workload, recipe=Recipe.EXACT)
    exact = replace(h3, workload=workload, request=replace(h3.request, uses=uses))
    assert shard_facts(exact, 2).request.uses[-1].groups[0].passes == 98
    whole, own = (work_of(facts, "video_vae").groups for facts in (exact, shard_facts(exact, 2)))
    assert own == whole


@pytest.mark.parametrize("size", [0, -1])
def test_less_than_one_rank_is_refused(h3, size):
    with pytest.raises(InputError, match="at least one card"):
        shard_facts(h3, size)


@pytest.mark.parametrize("size", [3, 7, 16])
def test_ranks_that_do_not_divide_heads_or_widths_are_refused_with_those_that_do(h3, size):
    with pytest.raises(UnsupportedError, match="take one of 2, 4, 8"):
        shard_facts(h3, size)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "checkpoint"}, "the checkpoint H3"),
        ({"variant": "fp8"}, "leave out --variant"),
    ],
)
def test_facts_whose_division_is_not_known_are_refused(h3, change, message):
    with pytest.raises(UnsupportedError, match=message):
        shard_facts(replace(h3, **change), 2)


def test_times_of_whole_layers_are_refused_because_seconds_are_not_divided(h3):
    timed = apply_to_facts(h3, {"pass_s": 0.001})
    with pytest.raises(UnsupportedError, match="whole layers on one card, measured or calibrated"):
        shard_facts(timed, 2)


def test_a_model_without_a_known_division_is_refused():
    toy = build_facts({"transformer": ToyComponent(stacks={"blocks": ToyStack(compute_ms=[1], copy_ms=[1])})})
    with pytest.raises(UnsupportedError, match="only H3 of the catalog"):
        shard_facts(toy, 2)


def test_a_rank_is_not_divided_again(h3):
    rank = shard_facts(h3, 2)
    assert shard_facts(rank, 2) is rank
    with pytest.raises(InputError, match="one of 2 ranks"):
        shard_facts(rank, 4)
