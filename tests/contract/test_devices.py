"""What every device promises to the executor."""

from contextlib import suppress

import pytest
import torch
from device_work import (
    LAYER_BYTES,
    LAYER_NUMEL,
    are_disjoint,
    buffer_of,
    holds,
    host_layer,
    label,
    pinned_layers,
    spans_on,
)

from runtime.devices.protocol import Device, MemoryKind
from runtime.errors import DeviceError, PinError
from runtime.timeline import Lane


def test_pinned_copy_has_arrived_after_wait(device: Device) -> None:
    (weights,) = pinned_layers(device, 1)
    buffer = buffer_of(device, weights)
    device.wait(device.copy_pinned([(buffer, weights)], label(0)))
    assert holds(buffer, weights)


def test_pageable_copy_has_arrived_when_it_returns(device: Device) -> None:
    weights = host_layer(1)
    buffer = buffer_of(device, weights)
    copy = device.copy_pageable([(buffer, weights)], label(0))
    weights.zero_()
    device.wait(copy)
    assert holds(buffer, host_layer(1))
    assert copy.size_bytes == LAYER_BYTES


def test_copy_back_has_arrived_when_it_returns(device: Device) -> None:
    weights, target = host_layer(2), host_layer(0)
    buffer = buffer_of(device, weights)
    device.wait(device.copy_pageable([(buffer, weights)], label(0)))
    buffer.add_(1)
    device.copy_back([(target, buffer)], label(0))
    assert torch.equal(target, weights + 1)


def test_a_copy_queued_to_the_host_has_arrived_after_synchronize(device: Device) -> None:
    weights, (target,) = host_layer(2), pinned_layers(device, 1)
    buffer = buffer_of(device, weights)
    device.wait(device.copy_pageable([(buffer, weights)], label(0)))
    buffer.add_(1)
    copy = device.queue_back([(target, buffer)], label(0))
    device.synchronize()
    assert torch.equal(target, weights + 1)
    assert copy.size_bytes == LAYER_BYTES


def test_a_copy_queued_to_the_host_has_arrived_when_the_host_has_waited_for_it(device: Device) -> None:
    weights, (target,) = host_layer(2), pinned_layers(device, 1)
    buffer = buffer_of(device, weights)
    device.wait(device.copy_pageable([(buffer, weights)], label(0)))
    device.wait(device.queue_back([(target, buffer)], label(0)))
    device.catch_up()
    assert torch.equal(target, weights)


def test_copies_queued_to_the_host_follow_compute_and_each_other_on_a_lane_of_their_own(device: Device) -> None:
    targets = pinned_layers(device, 4)
    buffer = device.allocate(LAYER_NUMEL, torch.float32)
    device.begin_run(label(0))
    buffer.fill_(7)
    device.end_run(label(0))
    mark = device.mark()
    copies = [device.queue_back([(target, buffer)], label(layer)) for layer, target in enumerate(targets)]
    device.synchronize()
    spans = [span for copy in copies for span in copy.spans()]
    assert [span.lane for span in spans] == [Lane.D2H] * 4
    assert spans == sorted(spans)
    assert are_disjoint(spans)
    assert device.time_of(mark) <= spans[0].start_s


def test_copies_both_ways_arrive_where_they_belong(device: Device) -> None:
    sources, targets = pinned_layers(device, 3), pinned_layers(device, 3)
    kept = device.allocate(LAYER_NUMEL, torch.float32)
    device.copy_pageable([(kept, sources[0])], label(0))
    buffers = [buffer_of(device, source) for source in sources]
    back = [device.queue_back([(target, kept)], label(layer)) for layer, target in enumerate(targets)]
    there = [device.copy_pinned([move], label(9)) for move in zip(buffers, sources, strict=True)]
    device.synchronize()
    assert all(holds(*move) for move in zip(buffers, sources, strict=True))
    assert all(torch.equal(target, sources[0]) for target in targets)
    assert len(spans_on(Lane.D2H, back)) == len(spans_on(Lane.H2D, there)) == 3


def test_compute_waits_for_a_copy_to_the_host_where_it_is_told_to(device: Device) -> None:
    (target,) = pinned_layers(device, 1)
    buffer = device.allocate(LAYER_NUMEL, torch.float32)
    copy = device.queue_back([(target, buffer)], label(0))
    device.wait(copy)
    mark = device.mark()
    device.synchronize()
    assert copy.spans()[0].end_s <= device.time_of(mark)


def test_copies_of_several_tensors_and_dtypes_arrive_whole(device: Device) -> None:
    sources = [torch.arange(7, dtype=dtype) for dtype in (torch.int8, torch.bfloat16, torch.float64)]
    buffers = [buffer_of(device, source) for source in sources]
    moves = list(zip(buffers, sources, strict=True))
    copy = device.copy_pageable(moves, label(0))
    assert all(holds(*move) for move in moves)
    assert copy.size_bytes == 7 + 14 + 56
    courier = device.open_courier(77)
    other = [buffer_of(device, source) for source in sources]
    device.wait(courier.ship(list(zip(other, sources, strict=True)), label(1)))
    assert all(holds(*move) for move in zip(other, sources, strict=True))
    courier.close()


def test_a_matrix_arrives_in_its_shape(device: Device) -> None:
    weights = host_layer(3).view(32, 32)
    buffers = [device.allocate(LAYER_NUMEL, torch.float32).view(32, 32) for _ in range(2)]
    courier = device.open_courier(LAYER_BYTES)
    device.copy_pageable([(buffers[0], weights)], label(0))
    device.wait(courier.ship([(buffers[1], weights)], label(0)))
    assert all(holds(buffer, weights) for buffer in buffers)
    courier.close()


def test_copies_are_made_in_the_order_in_which_they_are_queued(device: Device) -> None:
    layers = pinned_layers(device, 12)
    buffer = buffer_of(device, layers[0])
    copies = [device.copy_pinned([(buffer, weights)], label(layer)) for layer, weights in enumerate(layers)]
    device.wait(copies[-1])
    assert holds(buffer, layers[-1])
    device.synchronize()
    spans = [copy.spans()[0] for copy in copies]
    assert spans == sorted(spans)
    assert are_disjoint(spans)


def test_many_copies_arrive_where_they_belong(device: Device) -> None:
    layers = pinned_layers(device, 100)
    buffers = [buffer_of(device, weights) for weights in layers]
    copies = [device.copy_pinned([move], label(layer)) for layer, move in enumerate(zip(buffers, layers, strict=True))]
    for copy, buffer, weights in zip(copies, buffers, layers, strict=True):
        device.wait(copy)
        assert holds(buffer, weights)


def test_a_buffer_that_is_freed_while_its_copy_is_under_way_harms_nobody(device: Device) -> None:
    layers = pinned_layers(device, 8)
    for layer, weights in enumerate(layers):
        abandoned = buffer_of(device, weights)
        device.copy_pinned([(abandoned, weights)], label(layer))
        device.free(abandoned)
        del abandoned
    kept = buffer_of(device, layers[0])
    device.wait(device.copy_pinned([(kept, layers[0])], label(0)))
    device.synchronize()
    assert holds(kept, layers[0])
    assert device.memory().live_bytes[MemoryKind.WEIGHTS] == LAYER_BYTES


def test_memory_is_used_again_layer_after_layer(device: Device) -> None:
    layers = pinned_layers(device, 20)
    for layer, weights in enumerate(layers):
        buffer = buffer_of(device, weights)
        device.wait(device.copy_pinned([(buffer, weights)], label(layer)))
        device.begin_run(label(layer))
        result = buffer * 2
        device.end_run(label(layer))
        device.free(buffer)
        assert holds(result, weights * 2)
    assert device.memory().peak_bytes[MemoryKind.WEIGHTS] == LAYER_BYTES


def test_a_courier_ships_twenty_layers_through_two_slots(device: Device) -> None:
    layers = [host_layer(layer) for layer in range(20)]
    buffers = [buffer_of(device, weights) for weights in layers]
    courier = device.open_courier(LAYER_BYTES)
    moves = list(zip(buffers, layers, strict=True))
    copies = [courier.ship([move], label(layer)) for layer, move in enumerate(moves)]
    for copy, move in zip(copies, moves, strict=True):
        device.wait(copy)
        assert holds(*move)
    device.synchronize()
    reads = [copy.spans()[0] for copy in copies]
    landings = [copy.spans()[-1] for copy in copies]
    assert are_disjoint(reads)
    assert are_disjoint(landings)
    # Two clocks tell the times of a card's reads and copies.
    slack_s = 1e-4 if device.torch_device.type == "cuda" else 0.0
    assert all(read.end_s <= landing.start_s + slack_s for read, landing in zip(reads, landings, strict=True))
    assert all(landing.end_s <= read.start_s + slack_s for landing, read in zip(landings, reads[2:], strict=False))
    courier.close()


def test_couriers_share_one_read_lane_and_one_copy_lane(device: Device) -> None:
    layers = [host_layer(layer) for layer in range(8)]
    couriers = [device.open_courier(LAYER_BYTES) for _ in range(2)]
    buffers = [buffer_of(device, weights) for weights in layers]
    copies = [
        couriers[layer % 2].ship([move], label(layer)) for layer, move in enumerate(zip(buffers, layers, strict=True))
    ]
    (pinned,) = pinned_layers(device, 1)
    own = [device.copy_pinned([(buffer_of(device, pinned), pinned)], label(9)) for _ in range(4)]
    device.synchronize()
    assert all(holds(*move) for move in zip(buffers, layers, strict=True))
    assert are_disjoint(spans_on(Lane.READ, copies))
    assert are_disjoint(spans_on(Lane.H2D, [*copies, *own]))
    for courier in couriers:
        courier.close()


def test_load_now_has_arrived_when_it_returns(device: Device) -> None:
    weights = host_layer(4)
    courier = device.open_courier(LAYER_BYTES)
    buffer = buffer_of(device, weights)
    device.wait(courier.load_now([(buffer, weights)], label(4)))
    courier.forget_reads()
    assert holds(buffer, weights)
    courier.close()


def test_a_courier_refuses_a_layer_larger_than_its_slots(device: Device) -> None:
    courier = device.open_courier(LAYER_BYTES - 1)
    weights = host_layer(0)
    with pytest.raises(DeviceError, match=r"transformer\.blocks\.7 has 4096 bytes, a slot of its courier holds 4095"):
        courier.ship([(buffer_of(device, weights), weights)], label(7))
    courier.close()


def test_a_courier_is_closed_with_work_queued(device: Device) -> None:
    layers = [host_layer(layer) for layer in range(12)]
    courier = device.open_courier(LAYER_BYTES)
    copies = [
        courier.ship([(buffer_of(device, weights), weights)], label(layer)) for layer, weights in enumerate(layers)
    ]
    courier.close()
    courier.close()
    with pytest.raises(DeviceError, match="closed"):
        courier.ship([(buffer_of(device, layers[0]), layers[0])], label(0))
    for copy in copies:
        # Either it has landed or it was dropped; what it must not do is block for ever.
        with suppress(DeviceError):
            device.wait(copy)
    device.synchronize()


def test_bytes_are_counted_by_kind_with_their_peaks(device: Device) -> None:
    first = device.allocate(100, torch.float32)
    second = device.allocate(50, torch.float16, MemoryKind.BUFFERS)
    device.free(first)
    third = device.allocate(10, torch.int8)
    use = device.memory()
    assert use.live_bytes[MemoryKind.WEIGHTS] == 10
    assert use.live_bytes[MemoryKind.BUFFERS] == 100
    assert use.peak_bytes[MemoryKind.WEIGHTS] == 400
    assert use.peak_total_bytes >= 500
    device.reset_peaks()
    assert device.memory().peak_bytes[MemoryKind.WEIGHTS] == 10
    device.free(second)
    device.free(third)
    assert sum(device.memory().live_bytes.values()) == 0


def test_buffers_are_aligned_flat_tensors_of_the_device(device: Device) -> None:
    for numel in (1, 3, 1000, 0):
        buffer = device.allocate(numel, torch.bfloat16)
        assert buffer.shape == (numel,)
        assert buffer.dtype is torch.bfloat16
        assert buffer.device == device.torch_device
        assert buffer.data_ptr() % 32 == 0
        device.free(buffer)


def test_only_what_was_allocated_is_freed_and_only_once(device: Device) -> None:
    buffer = device.allocate(4, torch.float32)
    device.free(buffer)
    with pytest.raises(DeviceError, match="only once"):
        device.free(buffer)
    assert sum(device.memory().live_bytes.values()) == 0


def test_memory_is_pinned_unpinned_and_pinned_again(device: Device) -> None:
    weights = host_layer(0)
    for _ in range(2):
        device.pin(weights)
        with pytest.raises(PinError, match="pinned already"):
            device.pin(weights)
        device.unpin(weights)
    with pytest.raises(DeviceError, match="not pinned"):
        device.unpin(weights)


def test_only_contiguous_host_memory_is_pinned(device: Device) -> None:
    with pytest.raises(PinError, match="contiguous"):
        device.pin(torch.zeros(4, 4).t()[:, 1:])


def test_compute_waits_for_the_copy_and_later_copies_for_compute(device: Device) -> None:
    layers = pinned_layers(device, 6)
    marks, copies = [], []
    for layer, weights in enumerate(layers):
        buffer = buffer_of(device, weights)
        copies.append(device.copy_pinned([(buffer, weights)], label(layer)))
        device.wait(copies[-1])
        begin = device.mark()
        device.begin_run(label(layer))
        torch.mm(buffer.view(32, 32), buffer.view(32, 32))
        device.end_run(label(layer))
        marks.append((begin, device.mark()))
        device.free(buffer)
    device.synchronize()
    runs = [(device.time_of(begin), device.time_of(end)) for begin, end in marks]
    landings = [copy.spans()[-1] for copy in copies]
    assert all(begin <= end for begin, end in runs)
    assert all(landing.end_s <= run[0] for landing, run in zip(landings, runs, strict=True))
    assert all(run[1] <= landing.start_s for run, landing in zip(runs, landings[1:], strict=False))


def test_the_clock_begins_again_at_zero(device: Device) -> None:
    (weights,) = pinned_layers(device, 1)
    buffer = buffer_of(device, weights)
    device.wait(device.copy_pinned([(buffer, weights)], label(0)))
    device.synchronize()
    before = device.time_of(device.mark()) if device.torch_device.type == "cpu" else 0.0
    device.start_clock()
    copy = device.copy_pinned([(buffer, weights)], label(0))
    device.wait(copy)
    mark = device.mark()
    device.synchronize()
    assert 0.0 <= copy.spans()[0].start_s <= copy.spans()[0].end_s <= device.time_of(mark)
    assert before >= 0.0


def test_a_copy_of_an_earlier_time_line_can_be_waited_for(device: Device) -> None:
    (weights,) = pinned_layers(device, 1)
    buffer = buffer_of(device, weights)
    copy = device.copy_pinned([(buffer, weights)], label(0))
    device.synchronize()
    device.start_clock()
    device.wait(copy)
    assert holds(buffer, weights)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_everything_works_inside_and_outside_of_inference_mode(device: Device, mode: type) -> None:
    with mode():
        weights = host_layer(5)
        buffer = buffer_of(device, weights)
        courier = device.open_courier(LAYER_BYTES)
        with device.compute_scope():
            device.copy_pageable([(buffer, weights)], label(0))
            device.wait(courier.ship([(buffer, weights)], label(0)))
            device.copy_back([(weights, buffer)], label(0))
        courier.close()
    assert not buffer.is_inference()
    torch.nn.Parameter(buffer)
    device.copy_back([(weights, buffer)], label(0))
    assert holds(buffer, host_layer(5))


def test_a_closed_device_stays_closed(device: Device) -> None:
    (weights,) = pinned_layers(device, 1)
    buffer = buffer_of(device, weights)
    courier = device.open_courier(LAYER_BYTES)
    device.copy_pinned([(buffer, weights)], label(0))
    courier.ship([(buffer, weights)], label(0))
    device.close()
    device.close()
    courier.close()
    device.free(buffer)
    device.unpin(weights)
    with pytest.raises(DeviceError, match="closed"):
        device.allocate(1, torch.float32)
