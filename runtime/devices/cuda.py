"""A CUDA card: copies on a stream of their own, ordered against compute by events."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial

import torch

from runtime.devices.courier import ShippedCopy, ThreadedCourier
from runtime.devices.cuda_clock import CudaClock, CudaMark
from runtime.devices.cuda_copies import CudaCopies, CudaCopy
from runtime.devices.cuda_courier import CudaCourierPort
from runtime.devices.cuda_memory import CudaMemory
from runtime.devices.cuda_pins import CudaPinDriver
from runtime.devices.pinning import Pins
from runtime.devices.protocol import Courier, Label, Mark, MemoryKind, MemoryUse, Moves, QueuedCopy
from runtime.errors import DeviceError, UnsupportedError
from runtime.timeline import Lane


class CudaDevice:
    """See ``Device``. Copies that CUDA refuses raise ``DeviceError`` where they are queued.

    Buffers come from the copy stream's pool, and what writes into them first is a copy on that stream. That is why
    ``free`` needs no ``record_stream``: memory that compute has used goes to a buffer whose copy is queued later, and
    every copy to the device waits for all compute that was queued before it. Who lets compute write first has waited
    for every copy into what was freed before; the profiler synchronizes.

    Copies that are queued to the host have a stream of their own: cards have a copy engine for each direction, and one
    stream would put both directions in one order. The allocator does not know that this stream uses a buffer, which is
    why a source must not be freed before its copy has landed.

    Args:
        device: ``cuda:0``, or an index.
        compute_stream: where modules compute inside ``compute_scope``; None for the card's default stream.

    Raises:
        UnsupportedError: torch has no such card here.
    """

    def __init__(self, device: str | int = "cuda:0", compute_stream: torch.cuda.Stream | None = None) -> None:
        self.torch_device = _find_card(device)
        self.name = str(self.torch_device)
        self.pinning = "cudaHostRegister"
        # Before the memory, which takes what is allocated by now for somebody else's.
        self._pins = Pins(CudaPinDriver(self.torch_device))
        self._compute_stream = compute_stream or torch.cuda.default_stream(self.torch_device)
        self._copy_stream = torch.cuda.Stream(self.torch_device)
        self._back_stream = torch.cuda.Stream(self.torch_device)
        self._memory = CudaMemory(self.torch_device, self._copy_stream)
        self._clock = CudaClock(self._compute_stream)
        self._copies = CudaCopies(self._compute_stream, self._copy_stream, self._clock)
        self._back_copies = CudaCopies(self._compute_stream, self._back_stream, self._clock, Lane.D2H)
        self._read_lock = threading.Lock()
        self._couriers: list[ThreadedCourier] = []
        self._is_closed = False

    def allocate(self, numel: int, dtype: torch.dtype, kind: MemoryKind = MemoryKind.WEIGHTS) -> torch.Tensor:
        """See ``Device``."""
        self._check_open()
        return self._memory.allocate(numel, dtype, kind)

    def free(self, buffer: torch.Tensor) -> None:
        """See ``Device``."""
        if not self._is_closed:
            self._memory.free(buffer)

    def pin(self, buffer: torch.Tensor) -> None:
        """See ``Device``. Drivers lock whole pages, so ``buffer`` should share none with other pinned memory."""
        self._check_open()
        self._pins.pin(buffer)

    def unpin(self, buffer: torch.Tensor) -> None:
        """See ``Device``; waits for the copies queued so far, which may still use it."""
        if not self._is_closed:
            self._copy_stream.synchronize()
            self._back_stream.synchronize()
            self._pins.unpin(buffer)

    def copy_pinned(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``Device``."""
        self._check_open()
        return self._copies.queue(moves, label, self._copies.ready())

    def copy_pageable(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``Device``."""
        self._check_open()
        return self._copies.copy_now(moves, label)

    def copy_back(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``Device``."""
        self._check_open()
        return self._copies.copy_now(moves, label)

    def queue_back(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``Device``."""
        self._check_open()
        return self._back_copies.queue(moves, label, self._back_copies.ready())

    def open_courier(self, slot_bytes: int) -> Courier:
        """See ``Device``."""
        self._check_open()
        slots = self._pins.take_slots(slot_bytes)
        port = CudaCourierPort(self._copies, self._clock, self._read_lock)
        courier = ThreadedCourier(port, slots, partial(self._pins.give_slots_back, slots))
        self._couriers = [*(each for each in self._couriers if not each.is_closed), courier]
        return courier

    def wait(self, copy: QueuedCopy) -> None:
        """See ``Device``; blocks while a courier has not read the layer."""
        queued = copy.await_copy() if isinstance(copy, ShippedCopy) else copy
        if not isinstance(queued, CudaCopy):
            raise DeviceError("Only copies that this device has queued can be waited for.")
        self._compute_stream.wait_event(queued.end)

    def catch_up(self) -> None:
        """See ``Device``."""
        self._compute_stream.synchronize()

    def begin_run(self, label: Label) -> None:
        """See ``Device``."""

    def end_run(self, label: Label) -> None:
        """See ``Device``."""

    def work(self, index: int) -> None:
        """See ``Device``."""

    def mark(self) -> CudaMark:
        """See ``Device``."""
        self._check_open()
        return self._clock.mark()

    def time_of(self, mark: Mark) -> float:
        """See ``Device``."""
        if not isinstance(mark, CudaMark):
            raise DeviceError("Only marks of this device have a time on its clock.")
        return mark.at_s()

    def synchronize(self) -> None:
        """See ``Device``."""
        self._check_open()
        unread = [shipped for courier in self._couriers for shipped in courier.finish_reads()]
        try:
            torch.cuda.synchronize(self.torch_device)
        except RuntimeError as error:
            raise DeviceError(f"{self.name} failed: {error}") from error
        for shipped in unread:
            if not shipped.is_reported:
                shipped.await_copy()

    def start_clock(self) -> None:
        """See ``Device``."""
        self._check_open()
        self._clock.restart()

    def memory(self) -> MemoryUse:
        """See ``Device``, and ``CudaMemory`` for what is known of activations."""
        return self._memory.use()

    def reset_peaks(self) -> None:
        """See ``Device``."""
        self._memory.reset_peaks()

    def compute_scope(self, *, counts: bool = True) -> AbstractContextManager[None]:
        """See ``Device``: the compute stream is the current one inside; the allocator counts at no cost."""
        scope: AbstractContextManager[None] = torch.cuda.stream(self._compute_stream)
        return scope

    def host_scope(self) -> AbstractContextManager[None]:
        """See ``Device``; the allocator counts device memory only, so there is nothing to leave out."""
        return nullcontext()

    def close(self) -> None:
        """See ``Device``."""
        if self._is_closed:
            return
        self._is_closed = True
        for courier in self._couriers:
            courier.close()
        # A card that has failed cannot be waited for, and has no copy on its way.
        with suppress(RuntimeError):
            torch.cuda.synchronize(self.torch_device)
        self._pins.unpin_all()
        self._memory.free_all()

    def _check_open(self) -> None:
        if self._is_closed:
            raise DeviceError("The device is closed.")


def _find_card(device: str | int) -> torch.device:
    if not torch.cuda.is_available():
        raise UnsupportedError(
            f"torch {torch.__version__} finds no CUDA device here: install a CUDA build of torch and a driver, "
            "or use the device 'emulated'."
        )
    wanted = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    index = wanted.index or 0
    if wanted.type != "cuda" or index >= torch.cuda.device_count():
        raise UnsupportedError(f"There is no {wanted}: torch finds {torch.cuda.device_count()} CUDA device(s).")
    return torch.device("cuda", index)
