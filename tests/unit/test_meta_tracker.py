"""Work and live bytes of toys whose figures can be worked out by hand."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from autotune.meta_tracker import OUTSIDE, WorkTracker, product_flops, touched_bytes
from autotune.work import Work


def empty(*size, dtype=torch.float32):
    return torch.empty(size, dtype=dtype, device="meta")


def track(run, *fixed):
    tracker = WorkTracker(fixed)
    with torch.no_grad(), tracker:
        run(tracker)
    return tracker


def test_linear_counts_two_operations_per_multiply_add_and_reads_its_weight():
    weight = empty(6, 4)
    tracker = track(lambda _: functional.linear(empty(3, 4), weight), weight)
    assert tracker.work_of() == Work(matmul_flops=2 * 3 * 4 * 6, matmul_bytes=4 * (3 * 4 + 6 * 4 + 3 * 6))


@pytest.mark.parametrize("bias", [True, False])
def test_batched_linear_counts_the_same_with_and_without_bias(bias):
    with torch.device("meta"):
        layer = nn.Linear(4, 6, bias=bias)
    tracker = track(lambda _: layer(empty(2, 5, 4)), *layer.parameters())
    assert tracker.work_of().matmul_flops == 2 * 2 * 5 * 4 * 6


def test_baddbmm_and_bmm_count_every_batch():
    left, right, added = empty(7, 2, 3), empty(7, 3, 5), empty(7, 2, 5)
    tracker = track(lambda _: (torch.bmm(left, right), torch.baddbmm(added, left, right)), left, right, added)
    assert tracker.work_of().matmul_flops == 2 * (2 * 7 * 2 * 3 * 5)


def test_convolution_counts_kernel_times_channels_per_output_value():
    with torch.device("meta"):
        layer = nn.Conv2d(3, 8, 5, padding=2)
    tracker = track(lambda _: layer(empty(1, 3, 10, 10)), *layer.parameters())
    assert tracker.work_of().matmul_flops == 2 * (8 * 10 * 10) * 3 * 25


def test_convolution_needs_channels_last_copies_of_what_it_reads_and_writes_for_a_moment():
    image, weight = empty(1, 4, 10, 10), empty(6, 4, 3, 3)
    tracker = track(lambda _: functional.conv2d(image, weight, padding=1), weight, image)
    result_bytes = 6 * 100 * 4
    assert tracker.peak_bytes == result_bytes + (4 * 100 * 4 + result_bytes)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.channels_last_3d])
def test_channels_last_convolution_copies_nothing(layout):
    sides = (10, 10) if layout is torch.channels_last else (3, 10, 10)
    convolve = functional.conv2d if layout is torch.channels_last else functional.conv3d
    image = empty(1, 4, *sides).to(memory_format=layout)
    weight = empty(6, 4, *[1] * len(sides)).to(memory_format=layout)
    tracker = track(lambda _: convolve(image, weight), weight, image)
    assert tracker.peak_bytes == 6 * image[0, 0].numel() * 4


def test_grouped_convolution_counts_the_channels_of_one_group():
    with torch.device("meta"):
        layer = nn.Conv1d(6, 6, 3, groups=6, padding=1)
    tracker = track(lambda _: layer(empty(1, 6, 20)), *layer.parameters())
    assert tracker.work_of().matmul_flops == 2 * (6 * 20) * 3


def test_transposed_convolution_counts_kernel_times_channels_per_input_value():
    with torch.device("meta"):
        layer = nn.ConvTranspose1d(4, 2, 6, stride=3)
    tracker = track(lambda _: layer(empty(1, 4, 10)), *layer.parameters())
    assert tracker.work_of().matmul_flops == 2 * (4 * 10) * 2 * 6


def test_other_operators_are_no_products():
    assert product_flops("add", (empty(2), empty(2)), empty(2)) is None


def test_attention_is_one_operator_and_never_materialises_scores():
    def run(_):
        query, key, value = empty(1, 8, 1000, 64), empty(1, 8, 3000, 64), empty(1, 8, 3000, 32)
        assert functional.scaled_dot_product_attention(query, key, value, is_causal=True).shape == (1, 8, 1000, 32)

    tracker = track(run)
    operands_bytes, result_bytes = 4 * 8 * (1000 * 64 + 3000 * (64 + 32)), 4 * 8 * 1000 * 32
    assert tracker.work_of() == Work(attention_flops=2 * 8 * 1000 * 3000 * (64 + 32))
    assert tracker.peak_bytes == operands_bytes + result_bytes


def test_grouped_query_attention_counts_every_query_head():
    query, key = empty(1, 8, 10, 4), empty(1, 2, 10, 4)
    tracker = track(lambda _: functional.scaled_dot_product_attention(query, key, value=key, enable_gqa=True))
    assert tracker.work_of().attention_flops == 2 * 8 * 10 * 10 * (4 + 4)


def test_rms_norm_is_one_kernel_that_reads_and_writes_once():
    with torch.device("meta"):
        norm = nn.RMSNorm(16, dtype=torch.bfloat16)
    operand = empty(10, 16, dtype=torch.bfloat16)
    tracker = track(lambda _: norm(operand), operand, *norm.parameters())
    assert tracker.work_of() == Work(other_bytes=2 * 10 * 16 * 2)
    assert tracker.peak_bytes == 10 * 16 * 2


def test_peak_counts_inputs_and_temporaries_but_no_weights():
    weight = empty(100, 100)

    def run(_):
        operand = empty(10, 100)  # 4,000 bytes
        product = operand @ weight  # 8,000 live
        raised = product + 1.0  # 12,000 live: the peak
        del product, operand
        assert raised.sum().numel() == 1  # 4,004 live

    tracker = track(run, weight)
    assert tracker.peak_bytes == 12_000
    assert tracker.live_bytes == 0


def test_views_share_their_storage_and_cost_nothing():
    operand = empty(8, 8)
    tracker = track(lambda _: operand.view(64)[:10].unsqueeze(0).expand(5, 10).transpose(0, 1), operand)
    assert tracker.work_of() == Work()
    assert tracker.peak_bytes == 0


def test_in_place_addition_allocates_nothing_but_reads_and_writes():
    operand, other = empty(100), empty(100)
    tracker = track(lambda _: operand.add_(other), operand, other)
    assert tracker.work_of() == Work(other_bytes=3 * 400)
    assert tracker.peak_bytes == 0


def test_copy_does_not_read_what_it_overwrites():
    operand, other = empty(100), empty(100)
    tracker = track(lambda _: operand.copy_(other), operand, other)
    assert tracker.work_of() == Work(other_bytes=2 * 400)


def test_embedding_reads_the_rows_it_looks_up_not_the_table():
    table, ids = empty(100_000, 8), empty(1, 5, dtype=torch.long)
    tracker = track(lambda _: functional.embedding(ids, table), table, ids)
    assert tracker.work_of() == Work(other_bytes=2 * 5 * 8 * 4 + 5 * 8)


def test_expanded_dimension_is_read_once():
    assert touched_bytes(empty(1, 7).expand(50, 7)) == 7 * 4
    assert touched_bytes(empty(0, 7)) == 0


def test_disowned_tensor_is_not_live():
    def run(tracker):
        output = empty(1000)
        tracker.disown(output)
        output.copy_(empty(1000))

    tracker = track(run)
    assert (tracker.peak_bytes, tracker.live_bytes) == (4000, 0)


def test_work_is_booked_under_the_innermost_label():
    def run(tracker):
        operand = empty(10)
        with tracker.labelled(("stack", 3)):
            operand.sin()
        operand.cos()

    tracker = track(run)
    assert tracker.work_of(("stack", 3)) == tracker.work_of(OUTSIDE) == Work(other_bytes=80)


def test_local_peak_is_measured_from_its_own_start_and_keeps_the_whole():
    def run(tracker):
        empty(1000)  # 4,000 live for an instant
        held = empty(100)
        with tracker.local_peak() as rise:
            empty(10)
        assert rise == [40]
        assert held.numel() == 100

    assert track(run).peak_bytes == 4000
