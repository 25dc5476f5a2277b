"""M8: ceilings that free memory does not show, and pins that fail half-way."""

import itertools
import math
import mmap

import pytest
import torch

from autotune.host_memory.tree import ControlFiles
from autotune.measure.pin_cost import CeilingKind
from autotune.measure.pins import choose_pin_target, measure_pins
from autotune.measure.process_memory import ProcessMemory, read_process_memory
from runtime.devices.emulated import EmulatedDevice
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.errors import DeviceError, InputError
from runtime.units import GIB, MIB

TARGET = 16 * MIB
SMALLEST = TARGET // 64
RATES = LinkRates(
    pinned_bytes_per_s=math.inf,
    pageable_bytes_per_s=math.inf,
    d2h_bytes_per_s=math.inf,
    disk_bytes_per_s=math.inf,
    page_cache=PageCache.NOTHING,
)


class Ledger:
    """Refuses as it is told to, and knows what is pinned: the emulated driver tells a hook of every request."""

    def __init__(self, *, total=None, single=None, failing_calls=()):
        self.total, self.single, self.failing_calls = total, single, failing_calls
        self.granted = 0
        self.calls = 0

    def __call__(self, size_bytes):
        self.calls += 1
        if self.calls in self.failing_calls:
            raise OSError("refused this once")
        if self.total is not None and self.granted + size_bytes > self.total:
            raise OSError(f"total of {self.total} is reached")
        if self.single is not None and size_bytes >= self.single:
            raise OSError(f"{size_bytes} bytes are too many for one call")
        self.granted += size_bytes


class UnpinWatch(EmulatedDevice):
    """Counts what is pinned now."""

    pinned_now = 0

    def pin(self, buffer):
        super().pin(buffer)
        self.pinned_now += buffer.nbytes

    def unpin(self, buffer):
        super().unpin(buffer)
        self.pinned_now -= buffer.nbytes


def measure(ledger=None, target_bytes=TARGET, **options):
    """The cost, after the checks that hold in every case: nothing stays pinned and the next call works."""
    device = UnpinWatch(rates=RATES, pin_limit=ledger)
    try:
        cost = measure_pins(device, target_bytes, **options)
        assert device.pinned_now == 0
        device.free(device.allocate(16, torch.float32))
        assert cost.obtained_bytes == sum(each.size_bytes for each in cost.requests if not each.refusal)
        return cost
    finally:
        device.close()


def test_without_a_ceiling_the_target_is_reached_in_doubling_steps():
    cost = measure()
    assert [each.size_bytes // MIB for each in cost.requests] == [1, 1, 2, 4, 8]
    assert (cost.obtained_bytes, cost.ceilings, cost.pinning) == (TARGET, (), "emulated")


def test_m8_a_a_ceiling_of_the_total_is_found_and_what_succeeded_is_kept():
    cost = measure(Ledger(total=6 * MIB))
    [ceiling] = cost.ceilings
    assert ceiling.kind is CeilingKind.TOTAL
    assert cost.obtained_bytes == ceiling.granted_bytes
    assert 6 * MIB - SMALLEST <= ceiling.granted_bytes <= 6 * MIB < ceiling.refused_bytes
    assert ceiling.refused_bytes - ceiling.granted_bytes <= 2 * SMALLEST
    assert "total of 6291456 is reached" in ceiling.reason


def test_m8_b_a_ceiling_of_the_single_call_is_told_from_one_of_the_total():
    cost = measure(Ledger(single=3 * MIB))
    [ceiling] = cost.ceilings
    assert (ceiling.kind, cost.obtained_bytes) == (CeilingKind.SINGLE_CALL, TARGET)
    assert ceiling.granted_bytes == 2 * MIB
    assert ceiling.refused_bytes == 4 * MIB
    assert "too many for one call" in ceiling.reason


def test_m8_b_a_rest_of_one_page_does_not_become_the_size_of_every_request():
    page = mmap.PAGESIZE
    cost = measure(Ledger(single=129 * page), target_bytes=16 * 129 * page)
    [ceiling] = cost.ceilings
    assert (ceiling.granted_bytes, ceiling.refused_bytes) == (64 * page, 129 * page)
    assert len(cost.requests) < 50


def test_m8_b_both_ceilings_at_once_are_both_reported():
    cost = measure(Ledger(single=2 * MIB, total=11 * MIB))
    single, total = cost.ceilings
    assert (single.kind, single.granted_bytes, single.refused_bytes) == (CeilingKind.SINGLE_CALL, MIB, 2 * MIB)
    assert (total.kind, total.granted_bytes) == (CeilingKind.TOTAL, 11 * MIB)
    assert cost.obtained_bytes == 11 * MIB


def test_m8_c_a_refusal_that_does_not_come_back_is_passing():
    cost = measure(Ledger(failing_calls={3}))
    [ceiling] = cost.ceilings
    assert (ceiling.kind, cost.obtained_bytes) == (CeilingKind.PASSING, TARGET)
    assert [bool(each.refusal) for each in cost.requests] == [False, False, True, False, False, False]


@pytest.mark.parametrize("total", [0, MIB, TARGET - 1])
def test_m8_d_a_sticky_error_reaches_no_later_call(total):
    # The emulated driver reports an error that nobody cleared at the next unrelated call: see ``measure``.
    cost = measure(Ledger(total=total))
    assert cost.obtained_bytes <= total
    assert cost.ceilings[-1].kind is CeilingKind.TOTAL


def test_where_nothing_can_be_pinned_there_is_no_cost_per_byte():
    cost = measure(Ledger(total=0))
    assert (cost.obtained_bytes, cost.s_per_byte, cost.locked_per_byte) == (0, None, None)
    assert cost.ceilings[0].granted_bytes == 0


def test_the_time_of_granted_requests_alone_counts():
    instants = itertools.count()
    cost = measure(Ledger(failing_calls={3}), clock=lambda: float(next(instants)))
    assert cost.s_per_byte == 5 / TARGET


def test_growth_of_locked_and_resident_memory_is_per_pinned_byte():
    readings = iter(
        [
            ProcessMemory(locked_bytes=MIB, resident_bytes=100 * MIB),
            ProcessMemory(locked_bytes=17 * MIB, resident_bytes=108 * MIB),
        ]
    )
    cost = measure(read_memory=lambda: next(readings))
    assert (cost.locked_per_byte, cost.extra_resident_per_byte) == (1.0, 0.5)


def test_growth_that_the_system_does_not_tell_is_unknown():
    cost = measure(read_memory=lambda: ProcessMemory(locked_bytes=None, resident_bytes=None))
    assert cost.locked_per_byte is cost.extra_resident_per_byte is None


def test_the_buffers_own_pages_are_no_cost_of_pinning():
    # The buffer exists before the first reading; registering exact sizes adds nothing.
    assert abs(measure().extra_resident_per_byte) < 0.25


def test_an_interrupted_measurement_unpins_everything():
    ledger = Ledger()
    device = UnpinWatch(rates=RATES, pin_limit=ledger)
    steps = itertools.count()

    def interrupt():
        if next(steps) == 5:
            raise KeyboardInterrupt
        return 0.0

    with pytest.raises(KeyboardInterrupt):
        measure_pins(device, TARGET, clock=interrupt)
    assert ledger.granted > 0
    assert device.pinned_now == 0


def test_a_pin_that_cannot_be_undone_does_not_keep_the_others():
    class Stubborn(UnpinWatch):
        def unpin(self, buffer):
            super().unpin(buffer)
            if buffer.nbytes == 8 * MIB:
                raise DeviceError("8 MiB stay")

    device = Stubborn(rates=RATES)
    with pytest.raises(DeviceError, match="8 MiB stay"):
        measure_pins(device, TARGET)
    assert device.pinned_now == 0


@pytest.mark.parametrize(
    ("available", "target"), [(0, 0), (MIB, 0), (GIB, GIB // 8), (16 * GIB, 2 * GIB), (500 * GIB, 2 * GIB)]
)
def test_the_default_target_is_an_eighth_and_at_most_2_gib(available, target):
    assert choose_pin_target(available) == target


def test_a_target_that_cannot_be_stepped_through_is_refused():
    with pytest.raises(InputError, match="too small to pin in steps"):
        measure_pins(EmulatedDevice(rates=RATES), 63 * mmap.PAGESIZE)


def test_process_memory_is_read_from_its_status(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("VmLck:\t  4 kB\nVmPin:\t 8 kB\nRssAnon:\t 16 kB\nRssFile:\t 99 kB\n")
    memory = read_process_memory(ControlFiles(str(tmp_path)))
    assert memory == ProcessMemory(locked_bytes=12 * 1024, resident_bytes=16 * 1024)
    assert read_process_memory(ControlFiles(str(tmp_path / "nowhere"))) == ProcessMemory(
        locked_bytes=None, resident_bytes=None
    )
