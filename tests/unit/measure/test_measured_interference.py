"""What compute and copies of an emulated device do to each other, which is known."""

import random
from contextlib import nullcontext

import pytest
import torch
from node_builders import KIB, MemoryKeeper, bench_on, is_empty, virtual_device

from autotune.measure.interference import ComputeLoad, measure_interference
from autotune.measure.timing import PROTOCOLS
from autotune.measurements.timing import Effort
from runtime.devices.emulated import ClockKind
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.devices.protocol import Label
from runtime.interference import Interference

# Small copies over slow links: their times are computed, their bytes are really moved.
COPY = 16 * KIB
RATES = LinkRates(
    pinned_bytes_per_s=24e6,
    pageable_bytes_per_s=9e6,
    d2h_bytes_per_s=22e6,
    disk_bytes_per_s=2e6,
    page_cache=PageCache.STREAM,
)
COPY_S = COPY / RATES.pinned_bytes_per_s
LABEL = Label("transformer", "blocks", 0)


def load_of(run=lambda: None) -> ComputeLoad:
    return ComputeLoad(key="abc", title="toy transformer blocks[0]", label=LABEL, open=lambda: nullcontext(run))


@pytest.mark.parametrize("compute_s", [COPY_S / 300, COPY_S / 2, 3 * COPY_S, 60 * COPY_S])
@pytest.mark.parametrize("ratios", [(0.25, 0.4), (0.0, 0.3), (0.15, 0.0), (2.0, 1.5)])
def test_known_ratios_are_recovered_whichever_takes_longer(compute_s: float, ratios: tuple[float, float]) -> None:
    known = Interference(compute_slowdown_ratio=ratios[0], copy_slowdown_ratio=ratios[1])
    device = virtual_device(rates=RATES, interference=known, compute_s=lambda _: compute_s)
    record = measure_interference(bench_on(device), load_of(), COPY).record
    assert record.compute_alone.median_s == pytest.approx(compute_s, rel=0.02)
    assert record.copy_alone.median_s == pytest.approx(COPY_S, rel=0.02)
    assert 1 + record.compute_slowdown_ratio == pytest.approx(1 + ratios[0], rel=0.005)
    assert 1 + record.copy_slowdown_ratio == pytest.approx(1 + ratios[1], rel=0.005)
    assert is_empty(device)


def test_a_device_without_interference_has_none() -> None:
    device = virtual_device(rates=RATES, compute_s=lambda _: 2e-3)
    record = measure_interference(bench_on(device), load_of(), COPY).record
    assert record.compute_slowdown_ratio == pytest.approx(0.0, abs=1e-9)
    assert record.copy_slowdown_ratio == pytest.approx(0.0, abs=1e-9)


def test_a_load_that_takes_no_time_is_left_out_with_the_reason() -> None:
    found = measure_interference(bench_on(virtual_device(rates=RATES, compute_s=lambda _: 0.0)), load_of(), COPY)
    assert found.record is None
    assert any("takes no time" in reason for reason in found.left_out)


def test_a_load_that_no_number_of_copies_covers_is_left_out_with_the_reason() -> None:
    device = virtual_device(rates=RATES, compute_s=lambda _: 1e4 * COPY_S)
    found = measure_interference(bench_on(device), load_of(), COPY)
    assert found.record is None
    assert any("could not be kept going" in reason for reason in found.left_out)
    assert is_empty(device)


@pytest.mark.parametrize("trait", ["pin_limit", "fail_copy"])
def test_a_refusal_leaves_the_record_out_and_nothing_behind(trait: str) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("no more of that")

    device = virtual_device(rates=RATES, compute_s=lambda _: 1e-3, **{trait: refuse})
    found = measure_interference(bench_on(device), load_of(), COPY)
    assert found.record is None
    assert any("no more of that" in reason for reason in found.left_out)
    assert is_empty(device)


def test_a_load_that_runs_out_of_memory_beside_a_copy_is_left_out() -> None:
    def run_out() -> None:
        raise torch.OutOfMemoryError("tried to allocate 2 GiB")

    device = virtual_device(rates=RATES, compute_s=lambda _: 1e-3)
    found = measure_interference(bench_on(device), load_of(run_out), COPY)
    assert any("tried to allocate 2 GiB" in reason for reason in found.left_out)
    assert is_empty(device)


def test_a_record_is_kept_and_recalled() -> None:
    keeper, runs = MemoryKeeper(), list[int]()
    device = virtual_device(rates=RATES, compute_s=lambda _: 1e-3)
    first = measure_interference(bench_on(device, keeper), load_of(lambda: runs.append(1)), COPY)
    count = len(runs)
    assert measure_interference(bench_on(device, keeper), load_of(lambda: runs.append(1)), COPY) == first
    assert len(runs) == count > 0
    assert measure_interference(bench_on(device, keeper), load_of(), COPY // 2).record != first.record


def test_real_compute_beside_real_copies_gives_a_record_or_a_reason() -> None:
    device = virtual_device(rates=RATES, clock=ClockKind.REAL)
    weights = torch.randn(256, 256)
    found = measure_interference(bench_on(device), load_of(lambda: weights @ weights), COPY)
    assert (found.record is None) == bool(found.left_out)
    assert is_empty(device)
    device.close()


def test_ratios_are_recovered_from_runs_that_vary() -> None:
    known, noise = Interference(compute_slowdown_ratio=0.25, copy_slowdown_ratio=0.1), random.Random(11)
    device = virtual_device(
        rates=RATES, interference=known, compute_s=lambda _: 3e-4 * max(0.5, noise.gauss(1.0, 0.04))
    )
    bench = bench_on(device, protocol=PROTOCOLS[Effort.DEFAULT])
    record = measure_interference(bench, load_of(), COPY).record
    assert record.compute_alone.low_s < record.compute_alone.median_s == pytest.approx(3e-4, rel=0.02)
    assert 1 + record.compute_slowdown_ratio == pytest.approx(1.25, rel=0.02)
    assert 1 + record.copy_slowdown_ratio == pytest.approx(1.1, rel=0.02)
