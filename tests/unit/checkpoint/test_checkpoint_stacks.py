"""Lists of layers by name: anchored, in numeric order, with gaps and placeholders."""

import pytest

from autotune.checkpoint.header import TensorEntry
from autotune.checkpoint.stacks import compute_buffer_bytes, count_weights, find_list, split_layers
from autotune.meta_weights import compute_buffer_bytes as compute_meta_buffer_bytes


def tensor(name, dtype="U8", shape=(4,), size=None):
    return TensorEntry(name=name, dtype=dtype, shape=shape, start=0, end=4 if size is None else size)


def names(*texts):
    return [tensor(text) for text in texts]


def c7_split():
    tensors = [tensor(f"transformer_blocks.{index}.w") for index in range(19)]
    tensors += [tensor(f"single_transformer_blocks.{index}.w") for index in range(38)]
    tensors += [tensor(f"token_refiner.blocks.{index}.w") for index in range(2)]
    tensors += names("blocks.0.w", "blocks.10.w", "blocks.2.w")
    return split_layers(tensors, placeholders=["blocks.3"])


def test_c7_four_lists_are_found_and_kept_apart():
    assert {found.prefix: len(found.layers) for found in c7_split().lists} == {
        "transformer_blocks": 19,
        "single_transformer_blocks": 38,
        "token_refiner.blocks": 2,
        "blocks": 4,
    }
    assert c7_split().rest == ()


def test_c7_order_is_numeric_and_the_gaps_are_reported():
    last = c7_split().lists[-1]
    assert [layer.index for layer in last.layers] == [0, 2, 3, 10]
    assert last.gaps == ((1, 1), (4, 9))
    assert last.describe_gaps() == "1, 4-9"


def test_c7_layer_without_tensors_has_no_bytes_and_keeps_its_place():
    last = c7_split().lists[-1]
    assert [layer.checkpoint_bytes for layer in last.layers] == [4, 4, 0, 4]
    assert [layer.buffer_bytes for layer in last.layers] == [4, 4, 0, 4]
    assert last.checkpoint_bytes == 12


def test_tensor_without_elements_keeps_the_place_of_its_layer_too():
    found = split_layers([tensor("blocks.0.w"), tensor("blocks.1.marker", shape=(0,), size=0)]).lists[0]
    assert [layer.checkpoint_bytes for layer in found.layers] == [4, 0]


def test_list_inside_a_layer_belongs_to_the_layer():
    split = split_layers(names("blocks.0.attn.0.w", "blocks.0.attn.1.w", "blocks.1.attn.0.w", "blocks.1.attn.1.w"))
    assert [(found.prefix, len(found.layers)) for found in split.lists] == [("blocks", 2)]


def test_list_inside_a_list_of_one_stands_for_itself():
    split = split_layers(names("net.0.blocks.0.w", "net.0.blocks.1.w", "net.0.norm.w"))
    assert [(found.prefix, len(found.layers)) for found in split.lists] == [("net.0.blocks", 2)]
    assert [rest.name for rest in split.rest] == ["net.0.norm.w"]


def test_names_without_a_list_are_the_rest():
    split = split_layers(names("proj.weight", "blocks.0.w", "0.weight", "1.weight", "blocks.01.w", "blocks_1.w"))
    assert split.lists == ()
    assert len(split.rest) == 6


def test_hostile_names_cost_no_time_and_no_memory():
    long = "a" + ".1" * 500_000
    split = split_layers(
        names(long, f"{long}.w", "blocks.0.w", "blocks.999999.w", "blocks.99999999999.w", "x\n.0", "x\n.1")
    )
    assert [found.describe_gaps() for found in split.lists] == ["1-999998"]


def test_inner_list_can_be_asked_for_by_name():
    tensors = names("ups.0.0.w", "ups.1.0.w", "ups.1.0.v", "ups.10.0.w")
    assert [len(find_list(tensors, name).layers) for name in ("ups", "ups.1")] == [3, 1]
    assert find_list(tensors, "up") is None


def test_buffers_are_aligned_per_dtype_as_the_server_and_the_catalog_do():
    torch = pytest.importorskip("torch")
    shapes = [("I8", torch.int8, 33), ("BF16", torch.bfloat16, 5), ("I8", torch.int8, 7), ("F32", torch.float32, 1)]
    shapes += [("BF16", torch.bfloat16, 1), ("C64", torch.complex64, 5), ("C64", torch.complex64, 1)]
    entries, weights = [], []
    for dtype, torch_dtype, count in shapes:
        weights.append(torch.empty(count, dtype=torch_dtype, device="meta"))
        entries.append(tensor("w", dtype, (count,), count * torch_dtype.itemsize))
    assert compute_buffer_bytes(entries) == compute_meta_buffer_bytes(weights)
    assert compute_buffer_bytes(entries[:3]) == 64 + 7 + 10


def test_scales_are_no_weights_and_packed_bytes_hold_two():
    tensors = [
        tensor("blocks.0.to_q.weight", "U8", (8, 4)),
        tensor("blocks.0.to_q.weight_scale", "F8_E4M3", (8, 1)),
        tensor("blocks.0.to_q.weight.quant_state.nf4", "U8", (9,)),
        tensor("blocks.0.to_k.weight", "I8", (8, 8)),
        tensor("blocks.0.to_k.scale_weight", "F32", (1,)),
        tensor("blocks.0.scale_shift_table", "BF16", (6, 8)),
    ]
    assert count_weights(tensors) == 64 + 64 + 48
