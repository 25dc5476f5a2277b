"""Measures what compute and copies to the device do to each other.

::

    copies   [c][c][c][c][c][c][c][c]           compute under copies: the marks m enclose the runs; all of it counts,
    compute     m[r][r][r]m                     if the engine was never idle in between

    copies   [c][c][c][c][c][c][c]              copy under compute: only copies count that compute covered from
    compute   m[r][r][r][r][r][r][r][r]m        beginning to end

Copies are queued first, because one that is queued behind compute waits for it. How much of the one has to be queued
beside the other is found by trying, and whether it was enough is read from the spans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

from autotune.measure.bench import Bench, LeftOut
from autotune.measure.beside import CoveredRuns, CoveredSample
from autotune.measure.buffers import CopyBuffers
from autotune.measure.copies import QueueCopy, queue_pinned, spans_of, time_copies
from autotune.measure.timing import TimingProtocol, begin_sample, time_on_device, time_repeatedly
from autotune.measurements.records import InterferenceRecord
from autotune.measurements.timing import Timing
from runtime.devices.protocol import Device, Label
from runtime.errors import DeviceError
from runtime.units import MIB

_SPARE_COPIES = 2  # the first begins before compute does, the last may end after it


Run = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeLoad:
    """Compute to measure beside copies.

    Attributes:
        key: identifies it, as the key of a piece does.
        title: what computes, for people (``H3 transformer blocks[0]``).
        label: what an emulated device paces it by.
        open: entered for as long as it is measured, and not at all where its record is recalled: puts on the device
            what is needed, and gives what calls one layer there, inside the device's ``compute_scope``.
    """

    key: str
    title: str
    label: Label
    open: Callable[[], AbstractContextManager[Run]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InterferenceFindings:
    """The record, or why there is none."""

    record: InterferenceRecord | None
    left_out: tuple[str, ...] = ()


def measure_interference(bench: Bench, load: ComputeLoad, copy_bytes: int) -> InterferenceFindings:
    """Measure ``load`` and copies of ``copy_bytes`` from pinned memory, each alone and beside the other.

    Beside what the load holds, host and device memory for one copy are taken, and given back in every case.
    """
    title, key, left_out = f"{load.title}, copies of {copy_bytes / MIB:,.4g} MiB", f"{load.key}/{copy_bytes}", LeftOut()
    record = bench.keeper.recall(InterferenceRecord, key)
    if record is not None:
        return InterferenceFindings(record=record)
    bench.notify(f"interference: {title}")
    with (
        left_out.unless_measured(f"interference of {title}"),
        CopyBuffers(bench.device) as buffers,
        _translated(load.title),
        load.open() as run,
        bench.device.compute_scope(counts=False),
    ):
        pair = _Pair(
            device=bench.device,
            load=load,
            run=run,
            queue=queue_pinned(bench.device, buffers, copy_bytes),
        )
        timings, seen = bench.watch.around(partial(_time_all, pair, bench.protocol))
        record = InterferenceRecord(
            load=title,
            **timings,
            conditions=seen.conditions,
            disturbances=seen.disturbances,
            measured_at=seen.measured_at,
        )
    if record is not None:
        bench.keeper.remember(key, record)
    return InterferenceFindings(record=record, left_out=left_out.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Compute and copies that meet on a device."""

    device: Device
    load: ComputeLoad
    run: Run
    queue: QueueCopy


@contextmanager
def _translated(title: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # what torch raises, out of memory included
        raise DeviceError(f"{title} failed beside copies: {error}") from error


def _time_all(pair: _Pair, protocol: TimingProtocol) -> dict[str, Timing]:
    return {
        "compute_alone": time_on_device(pair.device, pair.load.label, pair.run, protocol),
        "compute_under_copies": time_repeatedly(_compute_under_copies(pair), protocol),
        "copy_alone": time_copies(pair.device, pair.queue, protocol),
        "copy_under_compute": time_repeatedly(_copies_under_compute(pair), protocol),
    }


def _compute_under_copies(pair: _Pair) -> CoveredRuns:
    def meet(runs: int, copies: int) -> CoveredSample:
        met = _meet(pair, runs=runs, copies=copies)
        return CoveredSample(met.cover, runs, met.measured)

    return CoveredRuns(f"{pair.load.title} under copies", meet)


def _copies_under_compute(pair: _Pair) -> CoveredRuns:
    def meet(copies: int, runs: int) -> CoveredSample:
        return _meet(pair, runs=runs, copies=copies + _SPARE_COPIES)

    return CoveredRuns(f"copies under {pair.load.title}", meet)


def _meet(pair: _Pair, *, runs: int, copies: int) -> CoveredSample:
    device, label = pair.device, pair.load.label
    begin_sample(device)
    queued = [pair.queue() for _ in range(copies)]
    begin = device.mark()
    for _ in range(runs):
        device.begin_run(label)
        pair.run()
        device.end_run(label)
    end = device.mark()
    device.synchronize()
    return CoveredSample(spans_of(queued), 1, [(device.time_of(begin), device.time_of(end))])
