"""Walks identical submodule calls once and replays what they booked.

The fifty layers of a stack and the tiles of a VAE decode repeat one call: same class, same weight shapes, same input
shapes. The first runs under the tracker. Each further one books the same work under its own label, raises the peak by
the same amount and returns empty tensors of the recorded shapes: an exact H3 decode of 196 tiles takes one second
instead of fifty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import nn

from autotune.meta_tracker import Label, WorkTracker, tensors_in
from autotune.work import Work

Description: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """One returned tensor as a view of a source: an input of the call, or a buffer that the call allocated."""

    source: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What a call returned: views in their structure, and the buffers that they keep alive, whole."""

    structure: object
    buffers: tuple[tuple[int, torch.dtype], ...]

    def rebuild(self, inputs: list[torch.Tensor]) -> object:
        """The same structure of empty tensors, in buffers of the same sizes; a returned input is that input."""
        owned = [torch.empty(elements, dtype=dtype, device="meta") for elements, dtype in self.buffers]
        return self._rebuild(self.structure, [*inputs, *owned])

    def _rebuild(self, recipe: object, sources: list[torch.Tensor]) -> object:
        if isinstance(recipe, _View):
            source = sources[recipe.source]
            if recipe == _describe_view(source, recipe.source):
                return source
            return source.as_strided(recipe.size, recipe.stride, recipe.offset)
        if isinstance(recipe, list):
            return recipe[0](self._rebuild(item, sources) for item in recipe[1:])
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedCall:
    """What one call did; work under the label None belongs to the caller's own label."""

    work: dict[Label | None, Work]
    rise_bytes: int
    result: _Result


def describe_value(value: object) -> Description | None:
    """A hashable description of an argument that decides what a call computes; None when it cannot be told."""
    if isinstance(value, torch.Tensor):
        return ("tensor", tuple(value.shape), value.stride(), value.dtype)
    if value is None or isinstance(value, bool | int | float | str | torch.dtype | torch.device):
        return (type(value).__name__, value)
    if isinstance(value, Mapping):
        return describe_value([item for pair in value.items() for item in pair])
    if isinstance(value, list | tuple):
        items = [describe_value(item) for item in value]
        return None if any(item is None for item in items) else (type(value).__name__, *items)
    return None


def describe_module(module: nn.Module) -> Description:
    """What two modules must share for one to stand for the other: class, printed settings, weights."""
    weights = tuple((name, tuple(weight.shape), weight.dtype) for name, weight in module.named_parameters())
    return (type(module).__qualname__, repr(module), weights)


class CallReplayer:
    """Replaces ``forward`` of chosen modules by one that books under a label and replays repeated calls.

    The modules are changed for good: use it on models built for one capture. ``replay=False`` walks every call, which
    is how tests check the shortcut.
    """

    def __init__(self, tracker: WorkTracker, *, replay: bool = True) -> None:
        self._tracker = tracker
        self._replay = replay
        self._records: dict[Description, _RecordedCall] = {}

    def watch_stacks(self, stacks: Mapping[str, Iterable[nn.Module]]) -> None:
        """Book each layer of each stack under ``(stack, index)``."""
        for name, layers in stacks.items():
            for index, layer in enumerate(layers):
                self.watch(layer, label=(name, index))

    def watch(self, module: nn.Module, *, label: Label | None = None) -> None:
        """Book calls of ``module`` under ``label`` (None: under the caller's) and replay those that repeat."""
        forward = module.forward
        signature = describe_module(module)

        def call(*args: object, **kwargs: object) -> object:
            with self._tracker.labelled(self._tracker.label if label is None else label):
                return self._call(forward, signature, args, kwargs)

        module.forward = call

    def _call(
        self,
        forward: Callable[..., object],
        signature: Description,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        described = describe_value((args, kwargs)) if self._replay else None
        if described is None:
            return forward(*args, **kwargs)
        key = (signature, described)
        inputs = list(tensors_in((args, kwargs)))
        if key in self._records:
            return self._replay_call(self._records[key], inputs)
        before, here = self._tracker.booked(), self._tracker.label
        with self._tracker.local_peak() as rise:
            result = forward(*args, **kwargs)
        self._records[key] = _RecordedCall(
            work=_booked_since(before, self._tracker.booked(), here),
            rise_bytes=rise[0],
            result=_ResultRecorder(inputs).record(result),
        )
        return result

    def _replay_call(self, record: _RecordedCall, inputs: list[torch.Tensor]) -> object:
        self._tracker.note_rise(record.rise_bytes)
        for label, work in record.work.items():
            self._tracker.book(work, label)
        return record.result.rebuild(inputs)


def _booked_since(before: dict[Label, Work], after: dict[Label, Work], here: Label) -> dict[Label | None, Work]:
    """What was added per label; ``here`` becomes None, so that a replay books it under the label of its own call."""
    added: dict[Label | None, Work] = {}
    for label, work in after.items():
        change = work + before.get(label, Work()).scaled(-1.0)
        if change != Work():
            added[None if label == here else label] = change
    return added


def _describe_view(tensor: torch.Tensor, source: int) -> _View:
    return _View(source=source, size=tuple(tensor.shape), stride=tensor.stride(), offset=tensor.storage_offset())


class _ResultRecorder:
    """Describes what a call returned. No closure: one that refers to itself would keep the inputs alive."""

    def __init__(self, inputs: list[torch.Tensor]) -> None:
        self._owners = {(id(tensor.untyped_storage()), tensor.dtype): index for index, tensor in enumerate(inputs)}
        self._inputs = len(inputs)
        self._buffers: list[tuple[int, torch.dtype]] = []

    def record(self, result: object) -> _Result:
        structure = self._describe(result)
        return _Result(structure=structure, buffers=tuple(self._buffers))

    def _describe(self, value: object) -> object:
        if isinstance(value, torch.Tensor):
            return _describe_view(value, self._find_source(value))
        if value is None:
            return None
        if isinstance(value, tuple | list) and type(value) in (tuple, list):
            return [type(value), *(self._describe(part) for part in value)]
        name = type(value).__name__
        raise TypeError(f"a replayed call returned {name}: only tensors and tuples of them can be rebuilt")

    def _find_source(self, tensor: torch.Tensor) -> int:
        storage, dtype = tensor.untyped_storage(), tensor.dtype
        key = (id(storage), dtype)
        if key not in self._owners:
            self._owners[key] = self._inputs + len(self._buffers)
            self._buffers.append((storage.nbytes() // dtype.itemsize, dtype))
        return self._owners[key]
