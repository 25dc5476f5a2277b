"""Measures what compute and copies to the device do to each other.

::

    copies   [c][c][c][c][c][c][c][c]           compute under copies: the marks m enclose the runs; all of it counts,
    compute     m[r][r][r]m                     if the engine was never idle in between

    copies   [c][c][c][c][c][c][c]              copy under compute: only copies count that compute covered from
    compute   m[r][r][r][r][r][r][r][r]m        beginning to end

Copies are queued first, because one that is queued behind compute waits for it. How much of the one has to be queued
beside the other is found by trying, and whether it was enough is read from the spans. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from autotune.measure.bench import Bench, LeftOut
from autotune.measure.beside import CoveredRuns, Meeting
from autotune.measure.buffers import CopyBuffers
from autotune.measure.copies import QueueCopy, queue_pinned, spans_of, time_copies
from autotune.measure.timing import begin_sample, time_on_device, time_repeatedly
from autotune.measurements.records import InterferenceRecord
from autotune.measurements.timing import Timing
from runtime.devices.protocol import Device, Label
from runtime.errors import DeviceMemoryError
from runtime.units import MIB

_SPARE_COPIES = 2  # the first begins before compute does, the last may end after it


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeLoad:
    """Compute to measure beside copies.

    Attributes:
        key: identifies it, as the key of a piece does.
        title: what computes, for people (``H3 transformer blocks[0]``).
        label: what an emulated device paces it by.
        run: calls one layer on the device, whose ``compute_scope`` has been entered; everything that it needs is there.
    """

    key: str
    title: str
    label: Label
    run: Callable[[], object]


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
    record = bench.keeper.recall("interference", key)
    if record is not None:
        return InterferenceFindings(record=record)
    bench.notify(f"interference: {title}")
    with (
        left_out.unless_measured(f"interference of {title}"),
        CopyBuffers(bench.device) as buffers,
        bench.device.compute_scope(counts=False),
    ):
        queue = queue_pinned(bench.device, buffers, copy_bytes)
        timings, seen = bench.watch.around(lambda: _time_all(bench, _translate(load), queue))
        record = InterferenceRecord(
            load=title,
            **timings,
            conditions=seen.conditions,
            disturbances=seen.disturbances,
            measured_at=seen.measured_at,
        )
    if record is not None:
        bench.keeper.remember("interference", key, record)
    return InterferenceFindings(record=record, left_out=left_out.reasons)


def _translate(load: ComputeLoad) -> ComputeLoad:
    def run() -> None:
        try:
            load.run()
        except torch.OutOfMemoryError as error:
            raise DeviceMemoryError(f"Device memory ran out in {load.title} beside a copy: {error}") from error

    return replace(load, run=run)


def _time_all(bench: Bench, load: ComputeLoad, queue: QueueCopy) -> dict[str, Timing]:
    device, protocol = bench.device, bench.protocol
    return {
        "compute_alone": time_on_device(device, load.label, load.run, protocol),
        "compute_under_copies": time_repeatedly(_compute_under_copies(device, load, queue), protocol),
        "copy_alone": time_copies(device, queue, protocol),
        "copy_under_compute": time_repeatedly(_copies_under_compute(device, load, queue), protocol),
    }


def _compute_under_copies(device: Device, load: ComputeLoad, queue: QueueCopy) -> CoveredRuns:
    def meet(runs: int, copies: int) -> Meeting:
        met = _meet(device, load, queue, runs=runs, copies=copies)
        return Meeting(met.cover, runs, met.measured)

    return CoveredRuns(f"{load.title} under copies", meet)


def _copies_under_compute(device: Device, load: ComputeLoad, queue: QueueCopy) -> CoveredRuns:
    def meet(copies: int, runs: int) -> Meeting:
        return _meet(device, load, queue, runs=runs, copies=copies + _SPARE_COPIES)

    return CoveredRuns(f"copies under {load.title}", meet)


def _meet(device: Device, load: ComputeLoad, queue: QueueCopy, *, runs: int, copies: int) -> Meeting:
    begin_sample(device)
    queued = [queue() for _ in range(copies)]
    begin = device.mark()
    for _ in range(runs):
        device.begin_run(load.label)
        load.run()
        device.end_run(load.label)
    end = device.mark()
    device.synchronize()
    return Meeting(spans_of(queued), 1, [(device.time_of(begin), device.time_of(end))])
