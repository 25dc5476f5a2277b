"""What only emulated devices can be asked: caps, faults, late copies, and figures that count for larger ones."""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from conftest import PACED, OpenEmulated
from device_work import LAYER_BYTES, LAYER_NUMEL, buffer_of, holds, host_layer, label, pinned_layers

from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.protocol import Label, MemoryKind
from runtime.errors import DeviceError, DeviceMemoryError, InputError, PinError
from runtime.interference import Interference
from runtime.units import GIB


def break_at(layer: int) -> Callable[[Label], None]:
    def fault(at: Label) -> None:
        if at.layer == layer:
            raise RuntimeError("the link broke")

    return fault


def refuse_from(total_bytes: int) -> Callable[[int], None]:
    asked: list[int] = []

    def limit(size_bytes: int) -> None:
        asked.append(size_bytes)
        if sum(asked) > total_bytes:
            raise OSError("cannot lock more memory")

    return limit


def refuse_large(size_bytes: int) -> None:
    if size_bytes >= 12 * GIB:
        raise ValueError("too much for one registration")


def refuse_call(number: int) -> Callable[[int], None]:
    calls: list[int] = []

    def limit(size_bytes: int) -> None:
        calls.append(size_bytes)
        if len(calls) == number:
            raise MemoryError("out of pages")

    return limit


def test_the_cap_refuses_the_allocation_that_passes_it(open_emulated: OpenEmulated) -> None:
    device = open_emulated(capacity_bytes=1000)
    kept = device.allocate(900, torch.int8)
    before = device.memory()
    with pytest.raises(
        DeviceMemoryError, match=r"101 bytes of buffers were asked for, 900 are in use .* there are 1000"
    ):
        device.allocate(101, torch.int8, MemoryKind.BUFFERS)
    assert device.memory() == before
    device.allocate(100, torch.int8)
    device.free(kept)
    device.allocate(900, torch.int8)
    assert device.memory().peak_total_bytes == 1000


def test_every_byte_counts_as_many_in_memory_and_pins(open_emulated: OpenEmulated) -> None:
    asked: list[int] = []
    device = open_emulated(byte_scale=1024, pin_limit=asked.append)
    device.allocate(3, torch.float32)
    device.pin(host_layer(0))
    assert device.memory().live_bytes[MemoryKind.WEIGHTS] == 12 * 1024
    assert asked == [LAYER_BYTES * 1024]


@pytest.mark.parametrize(
    ("make_limit", "accepted"),
    [
        pytest.param(lambda: refuse_from(GIB), [True, True, True, True, False], id="beyond-a-total"),
        pytest.param(lambda: refuse_call(3), [True, True, False, True, True], id="third-call"),
        pytest.param(lambda: refuse_from(0), [False] * 5, id="always"),
    ],
)
def test_refused_pins_are_translated_and_no_later_call_sees_them(
    open_emulated: OpenEmulated, make_limit: Callable[[], Callable[[int], None]], accepted: list[bool]
) -> None:
    device = open_emulated(byte_scale=GIB // 4 // LAYER_BYTES, pin_limit=make_limit())
    for layer, is_accepted in enumerate(accepted):
        with nullcontext() if is_accepted else pytest.raises(PinError, match="could not be pinned"):
            device.pin(host_layer(layer))
        device.free(device.allocate(1, torch.int8))


def test_one_large_request_is_refused_and_a_smaller_one_is_not(open_emulated: OpenEmulated) -> None:
    device = open_emulated(byte_scale=12 * GIB // LAYER_BYTES, pin_limit=refuse_large)
    with pytest.raises(PinError, match="too much for one registration"):
        device.pin(host_layer(0))
    device.pin(host_layer(0, LAYER_NUMEL // 2))


@pytest.mark.parametrize("refused", [1, 2])
def test_a_courier_without_both_slots_keeps_neither(open_emulated: OpenEmulated, refused: int) -> None:
    device = open_emulated(pin_limit=refuse_call(refused))
    with pytest.raises(PinError, match="out of pages"):
        device.open_courier(LAYER_BYTES)
    courier = device.open_courier(LAYER_BYTES)
    weights = host_layer(1)
    buffer = buffer_of(device, weights)
    device.wait(courier.ship([(buffer, weights)], label(1)))
    assert holds(buffer, weights)


def test_a_failed_copy_names_its_layer_at_wait_and_the_next_ones_arrive(open_emulated: OpenEmulated) -> None:
    device = open_emulated(fail_copy=break_at(1))
    layers = pinned_layers(device, 3)
    buffers = [buffer_of(device, weights) for weights in layers]
    copies = [device.copy_pinned([move], label(layer)) for layer, move in enumerate(zip(buffers, layers, strict=True))]
    device.wait(copies[2])
    with pytest.raises(DeviceError, match=r"transformer\.blocks\.1 failed: the link broke"):
        device.wait(copies[1])
    device.synchronize()
    assert holds(buffers[2], layers[2])


def test_a_failed_copy_that_nobody_waits_for_is_told_once_by_synchronize(open_emulated: OpenEmulated) -> None:
    device = open_emulated(fail_copy=break_at(0))
    layers = pinned_layers(device, 2)
    buffer = buffer_of(device, layers[0])
    device.copy_pinned([(buffer, layers[0])], label(0))
    device.copy_pinned([(buffer, layers[1])], label(1))
    with pytest.raises(DeviceError, match=r"transformer\.blocks\.0 failed"):
        device.synchronize()
    device.synchronize()
    assert holds(buffer, layers[1])


def test_a_failed_copy_to_the_host_names_its_layer(open_emulated: OpenEmulated) -> None:
    device = open_emulated(fail_copy=break_at(1))
    targets = pinned_layers(device, 3)
    buffer = device.allocate(LAYER_NUMEL, torch.float32)
    copies = [device.queue_back([(target, buffer)], label(layer)) for layer, target in enumerate(targets)]
    device.wait(copies[2])
    with pytest.raises(DeviceError, match=r"transformer\.blocks\.1 failed: the link broke"):
        device.synchronize()
    device.synchronize()


def test_copies_both_ways_are_on_their_way_at_once(open_emulated: OpenEmulated) -> None:
    # A layer takes a sixteenth of a second: the host may be away for a while between the two.
    device = open_emulated(rates=replace(PACED, pinned_bytes_per_s=2.0**16, d2h_bytes_per_s=2.0**16))
    source, target = pinned_layers(device, 2)
    buffers = [buffer_of(device, source) for _ in range(2)]
    back = device.queue_back([(target, buffers[0])], label(0))
    there = device.copy_pinned([(buffers[1], source)], label(1))
    device.synchronize()
    assert max(back.spans()[0].start_s, there.spans()[0].start_s) < min(back.spans()[0].end_s, there.spans()[0].end_s)


@pytest.mark.parametrize(
    "traits", [{"interference": Interference(compute_slowdown_ratio=0.1)}, {"duplex_slowdown_ratio": 0.1}]
)
def test_slowdowns_are_for_the_virtual_clock(traits: dict[str, object]) -> None:
    with pytest.raises(InputError, match="emulated on the virtual clock only: choose it"):
        EmulatedDevice(rates=PACED, clock=ClockKind.REAL, **traits)
    EmulatedDevice(rates=PACED, clock=ClockKind.VIRTUAL, **traits).close()


def test_a_duplex_slowdown_is_a_share() -> None:
    with pytest.raises(InputError, match=r"duplex_slowdown_ratio is -1: a slowdown is a share from 0"):
        EmulatedDevice(rates=PACED, clock=ClockKind.VIRTUAL, duplex_slowdown_ratio=-1)


def test_a_synchronous_copy_that_fails_says_so_at_once(open_emulated: OpenEmulated) -> None:
    device = open_emulated(fail_copy=break_at(0))
    weights = host_layer(0)
    buffer = buffer_of(device, weights)
    with pytest.raises(DeviceError, match=r"blocks\.0 failed"):
        device.copy_pageable([(buffer, weights)], label(0))
    device.copy_pageable([(buffer, weights)], label(1))
    assert holds(buffer, weights)


@pytest.mark.parametrize("hook", ["fail_read", "fail_copy"])
def test_a_failed_shipment_names_its_layer_and_the_courier_goes_on(open_emulated: OpenEmulated, hook: str) -> None:
    device = open_emulated(**{hook: break_at(3)})
    courier = device.open_courier(LAYER_BYTES)
    layers = [host_layer(layer) for layer in range(8)]
    buffers = [buffer_of(device, weights) for weights in layers]
    copies = [courier.ship([move], label(layer)) for layer, move in enumerate(zip(buffers, layers, strict=True))]
    for layer, copy in enumerate(copies):
        if layer == 3:
            with pytest.raises(DeviceError, match=r"transformer\.blocks\.3 failed: the link broke"):
                device.wait(copy)
        else:
            device.wait(copy)
            assert holds(buffers[layer], layers[layer])
    device.synchronize()


def test_a_failed_read_that_nobody_waits_for_is_told_by_synchronize(open_emulated: OpenEmulated) -> None:
    device = open_emulated(fail_read=break_at(0))
    courier = device.open_courier(LAYER_BYTES)
    weights = host_layer(0)
    courier.ship([(buffer_of(device, weights), weights)], label(0))
    with pytest.raises(DeviceError, match=r"blocks\.0 failed"):
        device.synchronize()
    device.synchronize()


@pytest.mark.parametrize("seed", range(8))
def test_poisoned_memory_is_not_a_number_before_its_copy_and_after_it_is_freed(
    open_emulated: OpenEmulated, seed: int
) -> None:
    device = open_emulated(poison=True, delay_seed=seed)
    weights = pinned_layers(device, 1)[0]
    buffer = buffer_of(device, weights)
    assert torch.isnan(buffer).all()
    device.copy_pinned([(buffer, weights)], label(0))
    device.free(buffer)
    device.synchronize()
    assert torch.isnan(buffer).all()


def test_a_missing_wait_shows_on_a_late_device(open_emulated: OpenEmulated) -> None:
    unseen = 0
    for seed in range(8):
        device = open_emulated(poison=True, delay_seed=seed)
        weights = pinned_layers(device, 1)[0]
        buffer = buffer_of(device, weights)
        copy = device.copy_pinned([(buffer, weights)], label(0))
        unseen += bool(torch.isnan(buffer).any())
        device.wait(copy)
        assert holds(buffer, weights)
    assert unseen


def test_a_device_that_is_closed_elsewhere_lets_nobody_wait_for_ever(open_emulated: OpenEmulated) -> None:
    device = open_emulated()
    layers = pinned_layers(device, 3)
    copies = [device.copy_pinned([(buffer_of(device, layer), layer)], label(0)) for layer in layers]
    closer = threading.Thread(target=device.close)
    closer.start()
    closer.join(10)
    assert not closer.is_alive()
    with pytest.raises(DeviceError, match="closed"):
        device.wait(copies[-1])


@pytest.mark.parametrize("traits", [{"byte_scale": 0}, {"time_scale": 0.0}, {"time_scale": float("nan")}])
def test_impossible_scales_are_refused(open_emulated: OpenEmulated, traits: dict[str, float]) -> None:
    with pytest.raises(InputError, match="must be"):
        open_emulated(**traits)
