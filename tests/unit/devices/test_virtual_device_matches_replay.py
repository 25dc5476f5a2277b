"""The emulated device on the virtual clock and the replay give the same times, though they share no code."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from autotune.clock_choice import make_clock
from autotune.recorder import Recorder
from autotune.replay_core import Clock, Costs, TierCosts
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.devices.protocol import Label, QueuedCopy
from runtime.interference import NO_INTERFERENCE, Interference
from runtime.program import Op

# Slots 0 to 5: pinned, pageable and mapped of each of two stacks. Rates are powers of two, so nothing is rounded.
SIZES = (64, 96, 80, 48, 128, 112)
KINDS = ("pinned", "pageable", "mapped") * 2
RATES = {"pinned_bytes_per_s": 32.0, "pageable_bytes_per_s": 16.0, "disk_bytes_per_s": 8.0, "d2h_bytes_per_s": 4.0}
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from((Op.H2D, Op.RUN, Op.H2D_BLOCKING)), st.integers(0, 5)),
        st.tuples(st.sampled_from((Op.DRAIN, Op.END_USE)), st.integers(0, 1)),
        st.tuples(st.just(Op.WORK), st.integers(0, 1)),
    ),
    max_size=60,
)


def compute_s(label: Label) -> float:
    assert label.layer is not None
    return (0.5, 4.0, 0.25, 16.0, 1.0, 2.0)[label.layer]


def work_s(index: int) -> float:
    return (8.0, 0.125)[index]


def replay_clock(rates: LinkRates, interference: Interference = NO_INTERFERENCE) -> Clock:
    def only(kind: str, seconds: list[float]) -> tuple[float, ...]:
        return tuple(time_s if kind == own else 0.0 for time_s, own in zip(seconds, KINDS, strict=True))

    pageable = [size / rates.pageable_bytes_per_s for size in SIZES]
    disk = [size / rates.disk_bytes_per_s for size in SIZES]
    first = pageable if rates.page_cache is PageCache.ALL else disk
    later = disk if rates.page_cache is PageCache.NOTHING else pageable
    blocking = [
        {"pinned": 0.0, "pageable": copy, "mapped": copy + (0 if first is pageable else read)}[kind]
        for copy, read, kind in zip(pageable, disk, KINDS, strict=True)
    ]
    tiers = TierCosts(
        sync_s=only("pageable", pageable),
        is_mapped=tuple(kind == "mapped" for kind in KINDS),
        read_s=only("mapped", later),
        first_read_s=only("mapped", first),
        blocking_s=tuple(blocking),
        disk_bytes=(0,) * 6,
        first_disk_bytes=(0,) * 6,
        mapped_of_component=((2,), (5,)),
    )
    costs = Costs(
        copy_s=tuple(
            0.0 if kind == "pageable" else size / rates.pinned_bytes_per_s
            for size, kind in zip(SIZES, KINDS, strict=True)
        ),
        compute_s=tuple(compute_s(Label("c", "s", slot)) for slot in range(6)),
        weight_bytes=SIZES,
        work_s=(work_s(0), work_s(1)),
        up_s=(),
        first_up_s=(),
        down_s=(),
        component_bytes=(),
        cast_bytes=(),
        stack_of_slot=(0, 0, 0, 1, 1, 1),
        stacks_of_component=((0,), (1,)),
        tiers=tiers,
        interference=interference,
    )
    return make_clock(costs)


class Performer:
    """Performs actions on a device as the executor is meant to."""

    def __init__(self, device: EmulatedDevice) -> None:
        self.device = device
        self.couriers = [device.open_courier(128) for _ in range(2)]
        self.hosts = [torch.full((size,), slot, dtype=torch.uint8) for slot, size in enumerate(SIZES)]
        self.buffers = [device.allocate(size, torch.uint8) for size in SIZES]
        self.own: dict[int, QueuedCopy] = {}
        self.last_of_stack: dict[int, list[QueuedCopy]] = {0: [], 1: []}
        self.last_shipped: dict[int, list[QueuedCopy]] = {0: [], 1: []}

    def perform(self, op: Op, argument: int) -> None:
        device = self.device
        if op is Op.H2D or op is Op.H2D_BLOCKING:
            self._copy(op, argument)
        elif op is Op.RUN:
            if argument in self.own:
                device.wait(self.own[argument])
                assert torch.equal(self.buffers[argument], self.hosts[argument])
            device.begin_run(Label("c", "s", argument))
            device.end_run(Label("c", "s", argument))
        elif op is Op.WORK:
            device.work(argument)
        else:
            for copy in self.last_of_stack[argument]:
                device.wait(copy)
            if op is Op.END_USE:
                for copy in self.last_shipped[argument]:
                    device.wait(copy)
                device.catch_up()
                self.couriers[argument].forget_reads()

    def _copy(self, op: Op, slot: int) -> None:
        device, stack, kind = self.device, slot // 3, KINDS[slot]
        moves, label = [(self.buffers[slot], self.hosts[slot])], Label("c", "s", slot)
        if kind == "mapped" and op is Op.H2D:
            copy = self.couriers[stack].ship(moves, label)
            self.last_shipped[stack] = [copy]
        else:
            if kind == "mapped":
                copy = self.couriers[stack].load_now(moves, label)
            elif kind == "pageable":
                copy = device.copy_pageable(moves, label)
            else:
                copy = device.copy_pinned(moves, label)
            self.last_of_stack[stack] = [copy]
            if op is Op.H2D_BLOCKING:
                device.wait(copy)
                device.catch_up()
        self.own[slot] = copy


@given(ACTIONS, st.sampled_from(PageCache), st.none() | st.integers(0, 3))
def test_every_action_ends_at_the_same_time(
    actions: list[tuple[Op, int]], page_cache: PageCache, delay_seed: int | None
) -> None:
    rates = LinkRates(**RATES, page_cache=page_cache)
    clock = replay_clock(rates)
    device = EmulatedDevice(
        rates=rates, clock=ClockKind.VIRTUAL, compute_s=compute_s, work_s=work_s, delay_seed=delay_seed, poison=True
    )
    performer = Performer(device)
    for number, (op, argument) in enumerate(actions):
        if number == 12:
            clock.settle()
            device.synchronize()
            device.start_clock()
        clock.run([(int(op), argument)])
        performer.perform(op, argument)
        assert device.time_of(device.mark()) == clock.compute_free_s
        if op is Op.H2D:
            spans = {(span.start_s, span.end_s) for span in performer.own[argument].spans()}
            assert spans == {span[1:] for span in clock.last_spans((int(op), argument), False)}
    device.close()


# One more than each of these is a power of two, so nothing is rounded either.
SLOWDOWNS = st.sampled_from((0.0, 1.0, 3.0))
INTERFERENCES = st.builds(Interference, compute_slowdown_ratio=SLOWDOWNS, copy_slowdown_ratio=SLOWDOWNS)


@given(ACTIONS, st.sampled_from(PageCache), INTERFERENCES)
def test_every_action_ends_at_the_same_time_where_copies_and_compute_slow_each_other_down(
    actions: list[tuple[Op, int]], page_cache: PageCache, interference: Interference
) -> None:
    rates = LinkRates(**RATES, page_cache=page_cache)
    clock, recorder = replay_clock(rates, interference), Recorder()
    device = EmulatedDevice(
        rates=rates, clock=ClockKind.VIRTUAL, compute_s=compute_s, work_s=work_s, interference=interference
    )
    performer, copies = Performer(device), []
    for op, argument in actions:
        recorder.run(clock, [(int(op), argument)])
        performer.perform(op, argument)
        assert device.time_of(device.mark()) == clock.compute_free_s
        if op in (Op.H2D, Op.H2D_BLOCKING):
            copies.append(performer.own[argument])
    # Until the last copy is over on both.
    for _ in range(500):
        clock.run([(int(Op.WORK), 0)])
        device.work(0)
    recorder.place_copies(clock)
    device.synchronize()
    measured = sorted((span.start_s, span.end_s) for copy in copies for span in copy.spans())
    replayed = sorted((start_s, end_s) for lane, start_s, end_s, _ in recorder.spans if lane != 0)
    assert measured == replayed
    device.close()
