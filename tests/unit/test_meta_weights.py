"""Bytes of components built by hand."""

import torch
from torch import nn

from autotune.meta_weights import HOST_TABLE_MIN_BYTES, build_component, cast_weights, compute_buffer_bytes


class Toy(nn.Module):
    def __init__(self, rows=1000):
        super().__init__()
        self.table = nn.Embedding(rows, 64)
        self.blocks = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])
        self.norm = nn.LayerNorm(64)
        self.register_buffer("frequencies", torch.ones(16))


def build_toy(**options):
    with torch.device("meta"):
        return Toy(**options)


def build_spec(toy, **options):
    return build_component(
        "toy", toy, stacks={"blocks": toy.blocks}, run_dtype="float32", default_mode="layerwise-offload", **options
    )


def test_component_bytes_are_those_of_its_parameters():
    toy = build_toy()
    spec = build_spec(toy)
    assert [layer.run_bytes for layer in spec.stack("blocks").layers] == [4 * (64 * 64 + 64)] * 3
    assert spec.rest_run_bytes == 4 * (1000 * 64 + 2 * 64)
    assert spec.run_bytes == spec.checkpoint_bytes == sum(4 * weight.numel() for weight in toy.parameters())
    assert spec.class_name == "Toy"


def test_checkpoint_dtype_counts_the_file_apart_from_the_run():
    toy = build_toy()
    cast_weights(toy.blocks[0], torch.float16)
    layers = build_spec(toy, checkpoint_dtype=torch.float32).stack("blocks").layers
    assert [layer.checkpoint_bytes for layer in layers] == [4 * 4160] * 3
    assert [layer.run_bytes for layer in layers] == [2 * 4160, 4 * 4160, 4 * 4160]


def test_stored_buffer_counts_and_any_other_does_not():
    toy = build_toy()
    assert build_spec(toy, stored_buffers=[toy.frequencies]).run_bytes == build_spec(toy).run_bytes + 64


def test_only_a_table_of_256_mib_stays_on_the_host():
    rows = HOST_TABLE_MIN_BYTES // (4 * 64)
    small, large = build_toy(rows=rows - 1), build_toy(rows=rows)
    assert build_spec(small, host_tables=[small.table.weight]).host_table_bytes == 0
    spec = build_spec(large, host_tables=[large.table.weight])
    assert spec.host_table_bytes == spec.host_table_checkpoint_bytes == HOST_TABLE_MIN_BYTES
    assert spec.rest_run_bytes == 4 * 2 * 64


def test_tied_weight_is_counted_once():
    toy = build_toy()
    toy.head = nn.Linear(64, 1000, bias=False, device="meta")
    toy.head.weight = toy.table.weight
    assert build_spec(toy).run_bytes == build_spec(build_toy()).run_bytes


def test_slices_of_a_layer_buffer_start_at_multiples_of_32_bytes():
    weights = [torch.empty(size, device="meta") for size in (3, 8, 1)]
    assert compute_buffer_bytes(weights) == 4 * (8 + 8 + 1)
    assert compute_buffer_bytes(reversed(weights)) == 4 * (8 + 8 + 3)


def test_each_dtype_of_a_layer_has_its_own_buffer():
    weights = [torch.empty(3, device="meta", dtype=dtype) for dtype in (torch.float32, torch.float16, torch.float32)]
    assert compute_buffer_bytes(weights) == 4 * (8 + 3) + 2 * 3


def test_cast_keeps_named_weights_in_float32():
    toy = build_toy()
    cast_weights(toy, torch.bfloat16, keep_fp32=["norm"])
    assert {weight.dtype for weight in toy.norm.parameters()} == {torch.float32}
    assert {weight.dtype for weight in toy.blocks.parameters()} == {torch.bfloat16}
