"""What an accelerator offers to the executor: memory, copies, a compute lane, and times.

Every implementation passes ``tests/contract``. The executor performs one program on it from one host thread:

- *Compute* is what the host thread calls between ``begin_run`` and ``end_run``. It may be queued (CUDA) or run at once
  (emulated): nothing here says that it is over when ``end_run`` returns.
- *Copies* to the device are made by one engine, in the order in which they are queued. A copy starts when the engine is
  free and all compute that was queued before it is done; so a buffer that compute has finished with may be freed and
  its memory written by a later copy without any further wait.
- Copies to the host that are *queued* are made by an engine of their own, likewise in order: both directions can be on
  their way at once.
- ``wait`` makes compute wait for a copy. Nobody reads a buffer before ``wait`` has been called for the copy into it.

Two kinds of memory are counted apart from each other: what the executor allocates (weights, buffers of modules), and
activations, which the modules allocate themselves. Bytes are exact; what an allocator reserves beyond them is reported,
not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

import torch

from runtime.timeline import Lane

Moves: TypeAlias = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""Pairs of destination and source of one copy: contiguous, of one dtype and one size each."""


class Label(NamedTuple):
    """Whose work something is: a layer's, or the whole component's where ``stack`` is None."""

    component: str
    stack: str | None = None
    layer: int | None = None

    def __str__(self) -> str:
        return ".".join(str(part) for part in self if part is not None)


class MemoryKind(StrEnum):
    """Who takes device memory."""

    WEIGHTS = "weights"
    BUFFERS = "buffers"
    ACTIVATIONS = "activations"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Device bytes, now and at the most since ``reset_peaks``.

    Attributes:
        live_bytes, peak_bytes: per kind; the peaks of the kinds need not lie at one instant.
        peak_total_bytes: the most of all kinds together.
        reserved_bytes: what the allocator holds at the most; None where there is no allocator to ask.
        capacity_bytes: what there is; None when unknown.
    """

    live_bytes: dict[MemoryKind, int]
    peak_bytes: dict[MemoryKind, int]
    peak_total_bytes: int
    reserved_bytes: int | None
    capacity_bytes: int | None


class CopySpan(NamedTuple):
    """When one lane worked for a copy."""

    lane: Lane
    start_s: float
    end_s: float


class QueuedCopy(Protocol):
    """A copy that was queued. ``size_bytes`` is what it moves."""

    size_bytes: int

    def spans(self) -> tuple[CopySpan, ...]:
        """Spans of the copy (and of the read before it), on the device's clock; known once ``synchronize`` returned."""
        ...


class Mark(Protocol):
    """An instant on the compute lane; ``Device.time_of`` says when it was."""


class Courier(Protocol):
    """Ships layers that wait in the checkpoint file, or in memory that is not pinned, through two pinned slots.

    Each ``ship`` reads its layer into a slot and then copies it like a pinned one, both while compute goes on. Layers
    are shipped in the order of the calls. A slot is free again once its copy has landed. Couriers of one device share
    one read lane.
    """

    def ship(self, moves: Moves, label: Label) -> QueuedCopy:
        """Queue one layer; sources may be any host memory. Returns at once."""
        ...

    def load_now(self, moves: Moves, label: Label) -> QueuedCopy:
        """Load one layer without the slots; the host waits for it, and compute as well."""
        ...

    def forget_reads(self) -> None:
        """The component's use has ended: what was read may have left the page cache by the next one."""
        ...

    def close(self) -> None:
        """Stop the thread and give the slots back; what is still queued is dropped. May be called twice."""
        ...


class Device(Protocol):
    """One accelerator.

    Attributes:
        name: ``cuda:0``, ``emulated``.
        torch_device: where the tensors live that modules compute with.
        pinning: how host memory is pinned, for reports.

    All methods but ``close`` are called from one host thread.
    """

    name: str
    torch_device: torch.device
    pinning: str

    def allocate(self, numel: int, dtype: torch.dtype, kind: MemoryKind = MemoryKind.WEIGHTS) -> torch.Tensor:
        """A one-dimensional tensor of ``numel`` elements in device memory, which is taken at once; content undefined.

        Its address is a multiple of 32 bytes.

        Raises:
            DeviceMemoryError: it does not fit; the message says what was asked for, what is in use and what there is.
        """
        ...

    def free(self, buffer: torch.Tensor) -> None:
        """Give back what ``allocate`` returned. A copy into it may still be on its way: it does no harm to copies.

        Compute may be the first to write into what is allocated next only when every such copy has been waited for.
        """
        ...

    def pin(self, buffer: torch.Tensor) -> None:
        """Lock the memory of a contiguous host tensor at its exact size.

        Raises:
            PinError: refused; the device is as it was, and no later call sees anything of it.
        """
        ...

    def unpin(self, buffer: torch.Tensor) -> None:
        """Undo ``pin``."""
        ...

    def copy_pinned(self, moves: Moves, label: Label) -> QueuedCopy:
        """Queue a copy from pinned memory. Returns at once."""
        ...

    def copy_pageable(self, moves: Moves, label: Label) -> QueuedCopy:
        """Copy from memory that is not pinned: after all queued compute; the host waits, and compute as well."""
        ...

    def copy_back(self, moves: Moves, label: Label) -> QueuedCopy:
        """Copy to the host, after all queued compute; the host waits, and compute as well."""
        ...

    def queue_back(self, moves: Moves, label: Label) -> QueuedCopy:
        """Queue a copy to pinned host memory, after all compute queued so far. Returns at once.

        Until it has landed its sources must neither be written nor freed: copies to the device do not wait for it. The
        host reads the destinations after ``synchronize``, or after ``wait`` and then ``catch_up``.
        """
        ...

    def open_courier(self, slot_bytes: int) -> Courier:
        """A courier whose two pinned slots hold ``slot_bytes`` each.

        Raises:
            PinError: the slots cannot be pinned.
        """
        ...

    def wait(self, copy: QueuedCopy) -> None:
        """Compute that is called from now on starts after ``copy`` has landed.

        Raises:
            DeviceError: the copy failed; the message names its label.
        """
        ...

    def catch_up(self) -> None:
        """The host waits until all queued compute is done."""
        ...

    def begin_run(self, label: Label) -> None:
        """The layer ``label`` is about to be called."""
        ...

    def end_run(self, label: Label) -> None:
        """The layer's call has returned. An emulated device makes it last as long as it is meant to."""
        ...

    def work(self, index: int) -> None:
        """Work outside the layers, by its index in the request (``number_work``); only an emulated device spends it."""
        ...

    def mark(self) -> Mark:
        """An instant: when all compute that was called so far is done."""
        ...

    def time_of(self, mark: Mark) -> float:
        """Seconds of ``mark`` on the device's clock; known once ``synchronize`` returned."""
        ...

    def synchronize(self) -> None:
        """The host waits until compute and every queued copy are done.

        Raises:
            DeviceError: a copy failed.
        """
        ...

    def start_clock(self) -> None:
        """Begin a new time line at zero, after ``synchronize``; marks and copies of before must not be asked for."""
        ...

    def memory(self) -> MemoryUse:
        """Bytes in use."""
        ...

    def reset_peaks(self) -> None:
        """Peaks count from what is live now."""
        ...

    def compute_scope(self, *, counts: bool = True) -> AbstractContextManager[None]:
        """Entered around everything that computes on the device; counts activations where the device can.

        Counting takes time of its own for every operator: where that is measured, ``counts`` is False.
        """
        ...

    def host_scope(self) -> AbstractContextManager[None]:
        """Entered, inside a ``compute_scope``, around work on host memory: nothing of it counts as activations."""
        ...

    def close(self) -> None:
        """Stop threads and give memory back, whatever state it is in. May be called twice."""
        ...
