"""Counts what a forward on torch's meta device would compute and keep alive, one operator at a time.

===============================================  ======================================================================
operator                                         counted as
===============================================  ======================================================================
mm, addmm, bmm, baddbmm, convolution             ``matmul_flops`` (2 per multiply-add), ``matmul_bytes`` (operands,
                                                 weights, result)
fused attention                                  ``attention_flops`` = ``2 * B * H * Lq * Lk * (Dk + Dv)``; a causal
                                                 mask is counted in full
convolution, besides                             live bytes for a moment: channels-last copies of operand and result
views, allocations                               nothing
every other operator                             ``other_bytes``: operands and results (eager, nothing fused)
===============================================  ======================================================================

Attention is caught before it reaches the dispatcher: the meta device would decompose it and materialise the score
matrix (H3: 662 GB instead of 6 GB). Its own traffic is left out, because it is bound by its products. RMS norms are
caught for the same reason: one kernel on a GPU, six operators with float32 copies on meta.

Matrix cores convolve channels-last tensors. Others are copied into that layout and back inside cuDNN's workspace, which
comes from torch's allocator. With it and its weights the decode of Qwen-Image at 512, 1280 and 2048 pixels needs 1.270,
6.689 and 16.751 GiB; torch's own count on an RTX 4090 was 1.274, 6.693 and 16.754 (PM302, PM304, PM306 of the public
measurements), of which the graph alone explains 1.08, 5.51 and 13.75.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from autotune.work import Work

Label: TypeAlias = tuple[str, int]
"""Where work is booked: a stack and the index of its layer, or a named part and 0."""

OUTSIDE: Label = ("", 0)

_ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
_OVERWRITES = frozenset({"copy_", "fill_", "zero_"})
_LOOKUPS = frozenset({"embedding", "index_select", "gather", "index"})
_RMS_NORMS = frozenset({functional.rms_norm, torch.rms_norm})
_CHANNELS_LAST = {4: (torch.channels_last,), 5: (torch.channels_last_3d,)}
_FIRST_FACTOR = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Every tensor in nested tuples, lists and mappings, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


def touched_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the distinct elements of a tensor: an expanded dimension is read once."""
    extents = zip(tensor.shape, tensor.stride(), strict=True)
    elements: int = math.prod(size for size, stride in extents if stride or not size)
    return elements * int(tensor.element_size())


def product_flops(name: str, args: tuple[Any, ...], result: object) -> float | None:
    """Floating-point operations of one matrix product or convolution; None for any other operator."""
    if name in _FIRST_FACTOR:
        left, right = args[_FIRST_FACTOR[name] : _FIRST_FACTOR[name] + 2]
        return 2.0 * float(left.numel()) * float(right.shape[-1])
    if name == "convolution" and isinstance(result, torch.Tensor):
        operand, weight, transposed = args[0], args[1], bool(args[6])
        moved = operand if transposed else result
        return 2.0 * float(moved.numel()) * float(weight.numel()) / float(weight.shape[0])
    return None


def converted_bytes(operand: torch.Tensor, result: torch.Tensor) -> int:
    """Bytes of the channels-last copies of what a convolution reads and writes; none where its operand is so already.

    The meta device says nothing about the layout of the result, which is the operand's on a GPU.
    """
    if any(operand.is_contiguous(memory_format=layout) for layout in _CHANNELS_LAST.get(operand.dim(), ())):
        return 0
    return int(sum(tensor.numel() * tensor.element_size() for tensor in (operand, result)))


class _FusedOperators(TorchFunctionMode):  # type: ignore[misc] # torch is untyped to mypy here
    """Answers, with an empty result, the calls that are one kernel on a GPU but would be decomposed on meta."""

    def __init__(self, tracker: WorkTracker) -> None:
        super().__init__()
        self._tracker = tracker

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        if func is functional.scaled_dot_product_attention:
            named = dict(zip(("query", "key", "value"), args, strict=False)) | dict(kwargs or {})
            return self._tracker.book_attention(named["query"], named["key"], named["value"])
        if func in _RMS_NORMS:
            return self._tracker.book_pointwise(args[0] if args else (kwargs or {})["input"])
        return func(*args, **(kwargs or {}))


class WorkTracker(TorchDispatchMode):  # type: ignore[misc] # torch is untyped to mypy here
    """Books work under the current label, and follows the bytes of live storages.

    Weights (``fixed``) are not activations and are never live. Everything else created while the tracker is active is,
    the inputs of the forward included, from its creation until Python drops the last reference.

    Attributes:
        live_bytes: bytes of live activations now.
        peak_bytes: the most there have been.
    """

    def __init__(self, fixed: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self.live_bytes = 0
        self.peak_bytes = 0
        self._label: Label = OUTSIDE
        self._booked: dict[Label, Work] = {}
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._modes = ExitStack()
        for tensor in fixed:
            self._follow(tensor.untyped_storage(), size_bytes=0)

    def __enter__(self) -> Self:
        super().__enter__()
        self._modes.enter_context(_FusedOperators(self))
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._modes.close()
        super().__exit__(exc_type, exc, trace)

    def disown(self, tensor: torch.Tensor) -> None:
        """Stop counting a live tensor: it is accounted for elsewhere."""
        storage = tensor.untyped_storage()
        if self._storages.pop(id(storage), None) is not None:
            self.live_bytes -= storage.nbytes()
        self._follow(storage, size_bytes=0)

    @property
    def label(self) -> Label:
        """Where work is booked now."""
        return self._label

    @contextmanager
    def labelled(self, label: Label) -> Iterator[None]:
        """Book everything inside under ``label``."""
        before, self._label = self._label, label
        try:
            yield
        finally:
            self._label = before

    def work_of(self, label: Label = OUTSIDE) -> Work:
        """What was booked under one label."""
        return self._booked.get(label, Work())

    def booked(self) -> dict[Label, Work]:
        """A snapshot of everything booked so far."""
        return dict(self._booked)

    def book(self, work: Work, label: Label | None = None) -> None:
        """Add work to a label, by default the current one."""
        label = self._label if label is None else label
        self._booked[label] = self._booked.get(label, Work()) + work

    def book_attention(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Book one fused attention and return an empty result. Grouped keys count once per query head."""
        heads = math.prod(query.shape[:-2])
        products = float(heads) * query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1])
        self.book(Work(attention_flops=2.0 * products))
        return query.new_empty((*query.shape[:-1], value.shape[-1]))

    def book_pointwise(self, operand: torch.Tensor) -> torch.Tensor:
        """Book one fused kernel that reads a tensor once and writes another of its shape, which is returned empty."""
        self.book(Work(other_bytes=2.0 * touched_bytes(operand)))
        return torch.empty_like(operand)

    @contextmanager
    def local_peak(self) -> Iterator[list[int]]:
        """Yield a list that ends up holding how far live bytes rose above their value at entry."""
        before, entry = self.peak_bytes, self.live_bytes
        rise: list[int] = []
        self.peak_bytes = entry
        try:
            yield rise
        finally:
            rise.append(self.peak_bytes - entry)
            self.peak_bytes = max(before, self.peak_bytes)

    def note_rise(self, rise_bytes: int) -> None:
        """Record that live bytes would have risen by this much for a moment."""
        self.peak_bytes = max(self.peak_bytes, self.live_bytes + rise_bytes)

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        operands, results = list(tensors_in((args, kwargs))), list(tensors_in(result))
        flops = product_flops(func.overloadpacket.__name__, args, result)
        if flops is None:
            self._book_other(func, operands, results)
        else:
            moved = sum(touched_bytes(tensor) for tensor in (*operands, *results))
            self.book(Work(matmul_flops=flops, matmul_bytes=float(moved)))
        for tensor in results:
            self._track(tensor)
        if func.overloadpacket.__name__ == "convolution" and isinstance(result, torch.Tensor):
            self.note_rise(converted_bytes(args[0], result))
        return result

    def _book_other(
        self, func: torch._ops.OpOverload, operands: list[torch.Tensor], results: list[torch.Tensor]
    ) -> None:
        name = str(func.overloadpacket.__name__)
        if name in _ALLOCATIONS or (not func._schema.is_mutable and _is_view(operands, results)):
            return
        written = sum(touched_bytes(tensor) for tensor in results)
        if name in _LOOKUPS:
            indices = (tensor for tensor in operands if not tensor.is_floating_point())
            read = written + sum(touched_bytes(tensor) for tensor in indices)
        else:
            sources = operands[1:] if name in _OVERWRITES else operands
            read = sum(touched_bytes(tensor) for tensor in sources)
        self.book(Work(other_bytes=float(read + written)))

    def _track(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        size_bytes = int(storage.nbytes())
        if self._follow(storage, size_bytes=size_bytes):
            self.live_bytes += size_bytes
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _follow(self, storage: torch.UntypedStorage, *, size_bytes: int) -> bool:
        """Watch a storage until it dies; False when it is known already."""
        key = id(storage)
        if key in self._storages:
            return False

        def forget(reference: weakref.ref[torch.UntypedStorage]) -> None:
            if self._storages.get(key) is reference:
                del self._storages[key]
                self.live_bytes -= size_bytes

        self._storages[key] = weakref.ref(storage, forget)
        return True


def _is_view(operands: list[torch.Tensor], results: list[torch.Tensor]) -> bool:
    owners = {id(tensor.untyped_storage()) for tensor in operands}
    return bool(results) and all(id(tensor.untyped_storage()) in owners for tensor in results)
