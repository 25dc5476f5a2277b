"""Counts the memory that modules allocate while they compute, operator by operator, on a device that cannot ask."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from runtime.devices.emulated_memory import MemoryPool
from runtime.devices.protocol import MemoryKind


class ActivationTracker(TorchDispatchMode):  # type: ignore[misc] # torch is untyped to mypy here
    """Takes every storage that an operator creates from a pool, and gives it back when Python and torch drop it.

    A storage is created by an operator when none of the operator's arguments has it: views and results written in place
    are not counted, whoever owns them. What an operator takes and gives back inside itself is not seen, and inference
    mode shows composite operators whole, so peaks can be lower there than under ``no_grad``.

    Only the thread that entered the mode is watched.

    Args:
        pool: where the bytes are taken from.
        byte_scale: as how many bytes each byte counts.
    """

    def __init__(self, pool: MemoryPool, byte_scale: int) -> None:
        super().__init__()
        self._pool = pool
        self._byte_scale = byte_scale
        self._counted: set[int] = set()
        self._is_paused = False

    @contextmanager
    def active(self) -> Iterator[None]:
        """What is created inside is counted."""
        with self:
            yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What is created inside belongs to the device itself."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Run the operator, then count what it created.

        Raises:
            DeviceMemoryError: the pool has no room for it.
        """
        result = func(*args, **(kwargs or {}))
        if self._is_paused:
            return result
        # A literal's storage is made outside the dispatcher and shows up first as the argument of its lift.
        is_lift = func is torch.ops.aten.lift_fresh.default
        known = set() if is_lift else {id(tensor.untyped_storage()) for tensor in _tensors_in((args, kwargs))}
        for tensor in _tensors_in(result):
            storage = tensor.untyped_storage()
            if id(storage) not in known and id(storage) not in self._counted and tensor.device.type == "cpu":
                self._count(storage)
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size_bytes = id(storage), int(storage.nbytes()) * self._byte_scale
        self._pool.take(size_bytes, MemoryKind.ACTIVATIONS)
        self._counted.add(key)
        # Not a method: a finalizer must not keep the tracker alive until the storage dies.
        gone = weakref.finalize(storage, _forget, self._counted, key, self._pool.give_later, size_bytes)
        gone.atexit = False


def _forget(counted: set[int], key: int, give_later: Callable[[int, MemoryKind], None], size_bytes: int) -> None:
    counted.discard(key)
    give_later(size_bytes, MemoryKind.ACTIVATIONS)


def _tensors_in(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors_in(item)
