"""Runs one piece of a model by itself on a device: its time, and the memory that it needs. Imports torch."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from autotune.measure.call_template import list_tensors, make_template
from autotune.measure.cold_start import cold_start
from autotune.measure.held_piece import HeldPiece, hold_piece, hold_weights
from autotune.measure.piece_capture import CapturedPiece, Place
from autotune.measure.run_settings import RunSettings, options_in_force
from autotune.measure.timing import time_on_device
from autotune.measurements.records import AROUND, Outcome, PieceRecord
from autotune.measurements.timing import Timing
from autotune.work import Work
from runtime.devices.protocol import Device, Label, MemoryKind
from runtime.errors import DeviceMemoryError, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    timing: Timing
    rise_bytes: int


def label_of(component: str, place: Place) -> Label:
    """What a device calls the piece: as the executor does for layers, by its path for everything else."""
    return Label(component, place.path if place.stack is None else place.stack, place.index)


def run_piece(component: str, piece: CapturedPiece, module: nn.Module, settings: RunSettings) -> PieceRecord:
    """Give ``module``, which is on the meta device, random weights on the device, time it there, and take them away.

    Nothing else of the model is on the device meanwhile. It is an outcome where memory runs out, where the module
    raises anything, and where its result has other shapes than in the model's own run.

    Raises:
        DeviceError: the device does not answer any more; nothing that it says afterwards means anything.
    """
    weights = [*module.parameters(), *module.buffers()]
    record = PieceRecord(
        key=piece.digest,
        component=component,
        name=piece.place.name,
        class_name=piece.class_name,
        inputs=piece.describe_inputs(),
        weight_bytes=sum(int(weight.nbytes) for weight in weights),
        outcome="skipped",
        flops=piece.work.flops,
        moved_bytes=piece.work.matmul_bytes + piece.work.other_bytes,
    )

    def measure() -> _Figures:
        with hold_piece(piece, module, settings) as held:
            _warm_up(held, settings.bench.device, expected=piece.call.result)
            return _measure_call(label_of(component, piece.place), held, settings)

    return _complete(record, measure, settings)


def run_around(
    *,
    component: str,
    key: str,
    work: Work,
    run: Callable[[], object],
    own: nn.Module,
    settings: RunSettings,
    note: str,
) -> PieceRecord:
    """Time what a component computes in no piece: ``run`` is its whole run with every piece replaced.

    Args:
        component: its name.
        key: identifies the run.
        work: what was counted of it.
        run: makes it once; what it needs of weights is in ``own``, on the meta device still.
        own: the component, whose pieces hold nothing.
        settings: as for pieces.
        note: what the figure is.
    """
    record = PieceRecord(
        key=key,
        component=component,
        name=AROUND,
        class_name=type(own).__name__,
        inputs=(),
        flops=work.flops,
        moved_bytes=work.matmul_bytes + work.other_bytes,
        weight_bytes=sum(int(weight.nbytes) for weight in (*own.parameters(), *own.buffers()) if weight.is_meta),
        outcome="skipped",
        note=note,
    )

    def measure() -> _Figures:
        with hold_weights(own, settings), torch.no_grad(), options_in_force(settings):
            held = HeldPiece(run=run)
            _warm_up(held, settings.bench.device)
            return _measure_call(Label(component), held, settings)

    return _complete(record, measure, settings)


def _complete(record: PieceRecord, measure: Callable[[], _Figures], settings: RunSettings) -> PieceRecord:
    """``record`` with what ``measure`` finds, or with why it finds nothing."""
    outcome: Outcome = "failed"
    try:
        figures, seen = settings.bench.watch.around(measure)
    except (DeviceMemoryError, torch.OutOfMemoryError) as error:
        outcome, note = "out_of_memory", _first_line(error)
    except Exception as error:  # whatever a library's module raises is a fact about it
        note = f"{type(error).__name__}: {_first_line(error)}"
    else:
        return replace(
            record,
            outcome="measured",
            timing=figures.timing,
            rise_bytes=figures.rise_bytes,
            conditions=seen.conditions,
            disturbances=seen.disturbances,
            measured_at=seen.measured_at,
        )
    _give_memory_back(settings.bench.device)
    return replace(record, outcome=outcome, note=note, measured_at=settings.bench.watch.now())


def _warm_up(held: HeldPiece, device: Device, expected: object = None) -> None:
    """Load kernels and take workspaces, which are no activations.

    Args:
        held: what is run, once.
        device: where.
        expected: template of the result on the meta device; None to take any. What does something else is not timed.
    """
    with device.compute_scope(counts=False):
        found = make_template(held.run())
    device.synchronize()
    shapes, wanted = ([tensor.shape for tensor in list_tensors(template)] for template in (found, expected))
    if expected is not None and shapes != wanted:
        raise InputError(f"it returns tensors of the shapes {shapes}, and {wanted} in the model's own run")


def _measure_call(label: Label, held: HeldPiece, settings: RunSettings) -> _Figures:
    device = settings.bench.device
    device.reset_peaks()
    before_bytes = device.memory().live_bytes[MemoryKind.ACTIVATIONS]
    with device.compute_scope():
        held.run()
    device.synchronize()
    memory = device.memory()
    bench = settings.bench
    with device.compute_scope(counts=False), cold_start(device, bench.cold_bytes, held.run, held.inputs) as cold:
        timing = time_on_device(device, label, held.run, bench.protocol, cold)
    return _Figures(
        timing=timing,
        rise_bytes=max(0, memory.peak_bytes[MemoryKind.ACTIVATIONS] - before_bytes),
    )


def _give_memory_back(device: Device) -> None:
    gc.collect()
    device.synchronize()  # before the pool is emptied, which a device that failed for good answers with any error
    if device.torch_device.type == "cuda":
        torch.cuda.empty_cache()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
