"""Holds one module with random weights and made-up inputs on a device, then takes them away again. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from autotune.live_components import fill_module
from autotune.measure.call_template import fill_template, list_tensors, random_tensors
from autotune.measure.piece_capture import CapturedPiece
from autotune.measure.run_settings import RunSettings, options_in_force


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPiece:
    """A module on the device.

    Attributes:
        run: calls it once, as the options say; for inside of the device's ``compute_scope``.
        inputs: the tensors that it is called with.
    """

    run: Callable[[], object]
    inputs: tuple[torch.Tensor, ...] = ()


@contextmanager
def hold_piece(piece: CapturedPiece, module: nn.Module, settings: RunSettings) -> Iterator[HeldPiece]:
    """Give ``module``, which is on the meta device, weights and inputs on the device while the block runs.

    Raises:
        DeviceMemoryError: it does not fit.
    """
    device = settings.bench.device
    with hold_weights(module, settings):
        make = random_tensors(device.torch_device, settings.seed)
        templates = [tensor for part in (piece.call.args, piece.call.kwargs) for tensor in list_tensors(part)]
        with device.compute_scope():
            inputs = tuple(make(template) for template in templates)
        called = torch.compile(module, dynamic=False) if settings.options.compiled else module

        def run() -> object:
            # Lists are new for every call: decoders with a cache put their tensors into them.
            waiting = iter(inputs)
            args: Any = fill_template(piece.call.args, lambda _: next(waiting))
            kwargs: Any = fill_template(piece.call.kwargs, lambda _: next(waiting))
            with torch.no_grad(), options_in_force(settings):
                return called(*args, **kwargs)

        yield HeldPiece(run=run, inputs=inputs)


@contextmanager
def hold_weights(module: nn.Module, settings: RunSettings) -> Iterator[None]:
    """Give ``module``, which is on the meta device, random weights on the device while the block runs.

    Raises:
        DeviceMemoryError: they do not fit.
    """
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
        try:
            device.synchronize()
            _return_to_meta(module)
        finally:
            while buffers:
                device.free(buffers.pop())


def _return_to_meta(module: nn.Module) -> None:
    module.to("meta")
    for owner in module.modules():
        for name, held in list(vars(owner).items()):
            if isinstance(held, torch.Tensor) and not held.is_meta:
                setattr(owner, name, held.to("meta"))
