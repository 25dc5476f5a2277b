"""Runs one piece of a model by itself on a device: its time, and the memory that it needs. Imports torch."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from autotune.live_components import fill_module
from autotune.measure.bench import Bench
from autotune.measure.call_template import fill_template, list_tensors, random_tensors
from autotune.measure.cold_start import cold_start
from autotune.measure.piece_capture import AROUND, CapturedPiece, Place
from autotune.measure.timing import time_on_device
from autotune.measurements.model_profile import RunOptions
from autotune.measurements.records import Outcome, PieceRecord
from autotune.measurements.timing import Timing
from autotune.work import Work
from runtime.devices.protocol import Device, Label, MemoryKind
from runtime.errors import DeviceMemoryError, InputError

ATTENTION_BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
AUTOCAST_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How pieces are run.

    Attributes:
        bench: what they are measured with.
        options: attention, autocast and compilation.
        seed: of weights and inputs.
    """

    bench: Bench
    options: RunOptions = field(default_factory=RunOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("attention", self.options.attention, ("auto", *ATTENTION_BACKENDS)),
            ("autocast", self.options.autocast, ("none", *AUTOCAST_DTYPES)),
        ):
            if value not in known:
                raise InputError(f"{name} {value!r} is not known: choose {', '.join(known)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    timing: Timing
    rise_bytes: int
    reserved_bytes: int | None


def label_of(component: str, place: Place) -> Label:
    """What a device calls the piece: as the executor does for layers, by its path for everything else."""
    return Label(component, place.path if place.stack is None else place.stack, place.index)


def run_piece(component: str, piece: CapturedPiece, module: nn.Module, settings: RunSettings) -> PieceRecord:
    """Give ``module``, which is on the meta device, random weights on the device, time it there, and take them away.

    Nothing else of the model is on the device meanwhile. Running out of memory, and everything that the module raises,
    is an outcome.
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
        with piece_on_device(piece, module, settings) as call:
            return _measure_call(label_of(component, piece.place), call, settings)

    return _complete(record, measure, settings)


@contextmanager
def piece_on_device(piece: CapturedPiece, module: nn.Module, settings: RunSettings) -> Iterator[Callable[[], object]]:
    """Give ``module``, which is on the meta device, weights and inputs on the device while the block runs.

    Yields:
        A call of it, as the options say, for inside of the device's ``compute_scope``.

    Raises:
        DeviceMemoryError: it does not fit.
    """
    with _weights_on_device(module, settings):
        call = _make_caller(piece, module, settings)

        def call_with_options() -> object:
            with torch.no_grad(), _options_in_force(settings):
                return call()

        yield call_with_options


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
        with _weights_on_device(own, settings), torch.no_grad(), _options_in_force(settings):
            return _measure_call(Label(component), run, settings)

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
            reserved_bytes=figures.reserved_bytes,
            conditions=seen.conditions,
            disturbances=seen.disturbances,
            measured_at=seen.measured_at,
        )
    _give_memory_back(settings.bench.device)
    return replace(record, outcome=outcome, note=note, measured_at=settings.bench.watch.now())


def _make_caller(piece: CapturedPiece, module: nn.Module, settings: RunSettings) -> Callable[[], object]:
    """A call of ``module`` with inputs that are on the device already."""
    device = settings.bench.device
    make = random_tensors(device.torch_device, settings.seed)
    with device.compute_scope():
        tensors = [
            make(tensor) for template in (piece.call.args, piece.call.kwargs) for tensor in list_tensors(template)
        ]
    called = torch.compile(module, dynamic=False) if settings.options.compiled else module

    def call() -> object:
        # Lists are new for every call: decoders with a cache put their tensors into them.
        waiting = iter(tensors)
        args: Any = fill_template(piece.call.args, lambda _: next(waiting))
        kwargs: Any = fill_template(piece.call.kwargs, lambda _: next(waiting))
        return called(*args, **kwargs)

    return call


def _measure_call(label: Label, call: Callable[[], object], settings: RunSettings) -> _Figures:
    device = settings.bench.device
    with device.compute_scope(counts=False):
        call()  # loads kernels and takes workspaces, which are no activations
    device.synchronize()
    device.reset_peaks()
    before_bytes = device.memory().live_bytes[MemoryKind.ACTIVATIONS]
    with device.compute_scope():
        call()
    device.synchronize()
    memory = device.memory()
    with device.compute_scope(counts=False), cold_start(device, settings.bench.cold_bytes, call) as cold:
        timing = time_on_device(device, label, call, settings.bench.protocol, cold)
    return _Figures(
        timing=timing,
        rise_bytes=max(0, memory.peak_bytes[MemoryKind.ACTIVATIONS] - before_bytes),
        reserved_bytes=memory.reserved_bytes,
    )


@contextmanager
def _weights_on_device(module: nn.Module, settings: RunSettings) -> Iterator[None]:
    device, buffers = settings.bench.device, list[torch.Tensor]()

    def make_empty(size: torch.Size, dtype: torch.dtype) -> torch.Tensor:
        buffer = device.allocate(size.numel(), dtype)
        buffers.append(buffer)
        return buffer.view(size)

    try:
        with device.compute_scope(counts=False):
            fill_module(module, device=device.torch_device, seed=settings.seed, make_empty=make_empty)
        yield
    finally:
        device.synchronize()
        _return_to_meta(module)
        while buffers:
            device.free(buffers.pop())


def _return_to_meta(module: nn.Module) -> None:
    module.to("meta")
    for owner in module.modules():
        for name, held in list(vars(owner).items()):
            if isinstance(held, torch.Tensor) and not held.is_meta:
                setattr(owner, name, held.to("meta"))


@contextmanager
def _options_in_force(settings: RunSettings) -> Iterator[None]:
    options, kind = settings.options, settings.bench.device.torch_device.type
    contexts: list[AbstractContextManager[object]] = [nullcontext()]
    if options.attention != "auto":
        contexts.append(sdpa_kernel([ATTENTION_BACKENDS[options.attention]]))
    if options.autocast != "none":
        contexts.append(torch.autocast(kind, dtype=AUTOCAST_DTYPES[options.autocast]))
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


def _give_memory_back(device: Device) -> None:
    gc.collect()
    if device.torch_device.type == "cuda":
        torch.cuda.empty_cache()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
