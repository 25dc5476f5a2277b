"""Runs a component with every piece replaced by its recorded result: what is left is the work around the pieces.

Projections, layers and all else that was recorded as a piece return tensors of the right shapes at once and hold no
weights; what containers compute themselves (packing, joins, blends of tiles, sampling) is run for real. Imports torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import torch
from torch import nn

from autotune.catalog.built_component import BuiltComponent
from autotune.live_components import synthetic_input
from autotune.measure.call_template import (
    MakeTensor,
    TensorTemplate,
    describe_template,
    fill_template,
    make_template,
    random_tensors,
)
from autotune.measure.piece_capture import CallTemplate, CapturedRun
from autotune.measure.piece_run import run_around
from autotune.measure.run_settings import RunSettings
from autotune.measurements.records import PieceRecord

_NOTE = "one whole run with every piece replaced; where the device waits for the host between operators, that counts"


def describe_around(component: str, run: CapturedRun) -> str:
    """Identifies what is around the pieces of ``run``; it was counted with them."""
    parts = (component, *(f"{piece.digest} {piece.calls}" for piece in run.pieces), str(run.around))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def measure_around(built: BuiltComponent, run: CapturedRun, settings: RunSettings) -> PieceRecord:
    """Time what ``built``, on the meta device and not captured, computes outside the pieces of ``run``."""
    component, device = built.spec.name, settings.bench.device
    results = _Results(random_tensors(device.torch_device, settings.seed))
    calls: dict[str, dict[str, CallTemplate]] = {}
    for piece in run.pieces:
        signature = describe_template(piece.call.args) + describe_template(piece.call.kwargs)
        calls.setdefault(piece.place.path, {})[signature] = piece.call
    replaced = {path: built.module.get_submodule(path) for path in calls}
    for path, module in replaced.items():
        module.forward = _make_stand_in(calls[path], results)
    _hollow_out(built.module, replaced.values(), device.torch_device)

    def make_run() -> object:
        return built.run(synthetic_input(device.torch_device, settings.seed), None)

    return run_around(
        component=component,
        key=describe_around(component, run),
        work=run.around,
        run=make_run,
        own=built.module,
        settings=settings,
        note=_NOTE,
    )


class _Results:
    """Hands out recorded results; tensors of one shape at one position of a result are one tensor."""

    def __init__(self, make: MakeTensor) -> None:
        self._make = make
        self._made: dict[tuple[TensorTemplate, int], torch.Tensor] = {}

    def fill(self, template: object) -> object:
        """What ``template`` describes."""
        position = -1

        def pick(tensor: TensorTemplate) -> torch.Tensor:
            nonlocal position
            position += 1
            key = (tensor, position)
            if key not in self._made:
                self._made[key] = self._make(tensor)
            return self._made[key]

        return fill_template(template, pick)


def _make_stand_in(calls: dict[str, CallTemplate], results: _Results) -> Callable[..., object]:
    only = next(iter(calls.values())) if len(calls) == 1 else None

    def forward(*args: object, **kwargs: object) -> object:
        # Describing a call takes the host longer than many a call takes the device.
        call = only or calls[describe_template(make_template(args)) + describe_template(make_template(kwargs))]
        _put_into_lists([list(args), dict(kwargs)], results.fill(call.after))
        return results.fill(call.result)

    return forward


def _put_into_lists(found: object, after: object) -> None:
    """Leave the lists among the arguments, and those that their objects hold, as the piece left them."""
    if isinstance(found, dict) and isinstance(after, dict):
        for key, value in found.items():
            _put_into_lists(value, after.get(key))
    elif isinstance(found, list) and isinstance(after, list):
        if any(isinstance(item, list | dict) for item in after):
            for one, other in zip(found, after, strict=False):
                _put_into_lists(one, other)
        else:
            found[:] = after
    elif type(found) is type(after) and not isinstance(found, torch.Tensor | nn.Module | type):
        _put_into_lists(getattr(found, "__dict__", {}), getattr(after, "__dict__", {}))


def _hollow_out(module: nn.Module, replaced: Iterable[nn.Module], device: torch.device) -> None:
    """Give everything that holds no piece weights of one element each, shown in their shapes.

    Code around a piece may ask for a weight's dtype or device, and uses only those of the containers.
    """
    pieces = {id(part) for part in replaced}
    for owner in module.modules():
        if id(owner) not in pieces and any(id(part) in pieces for part in owner.modules()):
            continue
        for name, weight in list(owner.named_parameters(recurse=False, remove_duplicate=False)):
            owner.register_parameter(name, nn.Parameter(_hollow(weight, device), requires_grad=False))
        # Buffers, and what some classes keep as plain attributes (weights that are made of others, tables).
        for held in (owner._buffers, vars(owner)):
            held |= {name: _hollow(item, device) for name, item in held.items() if isinstance(item, torch.Tensor)}


def _hollow(weight: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.zeros((), dtype=weight.dtype, device=device).expand(weight.shape)
