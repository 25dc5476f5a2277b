"""A software accelerator that ships with the product: CPU tensors, accounted memory, paced or computed time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import torch

from runtime.devices.activation_tracker import ActivationTracker
from runtime.devices.emulated_copy import Fault
from runtime.devices.emulated_memory import MemoryPool
from runtime.devices.engine import Engine, fill_poison
from runtime.devices.link_rates import LinkRates
from runtime.devices.moves import count_bytes
from runtime.devices.pinning import EmulatedPinDriver, Pins
from runtime.devices.protocol import Courier, Label, Mark, MemoryKind, MemoryUse, Moves, QueuedCopy
from runtime.devices.real_engine import RealEngine
from runtime.devices.virtual_engine import VirtualEngine
from runtime.devices.virtual_time import VirtualLanes
from runtime.errors import DeviceError, DeviceMemoryError, InputError
from runtime.interference import NO_INTERFERENCE, Interference, check_slowdown


class ClockKind(StrEnum):
    """Where an emulated device has its times from."""

    REAL = "real"
    VIRTUAL = "virtual"


@dataclass(frozen=True, slots=True)
class EmulatedMark:
    """An instant of an emulated device."""

    at_s: float


class EmulatedDevice:
    """See ``Device``. Compute runs on the CPU when it is called, so only copies and reads go on beside the host.

    On the *real* clock one thread copies and one per courier reads; each lasts as long as ``rates`` say, and
    ``end_run`` sleeps until the layer has lasted as long as ``compute_s`` says. On the *virtual* clock there is no
    thread and no sleep: times are computed (``runtime.devices.virtual_time``), are the same in every run, and say
    nothing about the host's own work.

    Synchronous copies raise ``DeviceError`` where they fail.

    Args:
        rates: of the links.
        capacity_bytes: the most device memory that may be in use; None for no limit.
        clock: ``real`` or ``virtual``.
        compute_s: how long the layer of a label computes; None for as long as it does (virtual: no time).
        work_s: how long work outside the layers lasts, by its index; None for no time.
        byte_scale: as how many bytes each byte counts, for memory, pins and durations. Figures of memory are scaled.
        time_scale: wall seconds per emulated second, for the real clock. All times are emulated seconds.
        poison: fill fresh and freed buffers with bytes 0xFF, which are NaN.
        delay_seed: move bytes late by a random amount, so that a missing wait shows. On the virtual clock that changes
            no time.
        pin_limit: called with the bytes of every request to pin; raises to refuse it.
        fail_copy, fail_read: called with the label before every copy, and before every read of a courier; raises to
            make it fail.
        tracks_activations: count what operators allocate inside ``compute_scope``, under the same limit.
        interference: how copies to the device and compute slow each other down; on the virtual clock only.
        duplex_slowdown_ratio: by this share of itself a copy takes longer while one goes the other way; likewise.
        name: of the device; ``cpu`` where nothing is paced, so that it is the processor itself.
    """

    def __init__(  # noqa: PLR0913 - each is a trait of the emulated machine; all have a neutral default
        self,
        *,
        rates: LinkRates,
        capacity_bytes: int | None = None,
        clock: ClockKind = ClockKind.REAL,
        compute_s: Callable[[Label], float] | None = None,
        work_s: Callable[[int], float] | None = None,
        byte_scale: int = 1,
        time_scale: float = 1.0,
        poison: bool = False,
        delay_seed: int | None = None,
        pin_limit: Callable[[int], None] | None = None,
        fail_copy: Fault | None = None,
        fail_read: Fault | None = None,
        tracks_activations: bool = False,
        interference: Interference = NO_INTERFERENCE,
        duplex_slowdown_ratio: float = 0.0,
        name: str = "emulated",
    ) -> None:
        if byte_scale < 1 or not time_scale > 0:
            raise InputError(
                f"byte_scale must be at least 1, not {byte_scale}; time_scale must be above 0, not {time_scale}."
            )
        check_slowdown("duplex_slowdown_ratio", duplex_slowdown_ratio)
        self.name = name
        self.torch_device = torch.device("cpu")
        self.pinning = "emulated"
        self._rates = rates
        self._compute_s, self._work_s = compute_s, work_s
        self._byte_scale = byte_scale
        self._poisons = poison
        self._pool = MemoryPool(capacity_bytes)
        self._tracker = ActivationTracker(self._pool, byte_scale) if tracks_activations else None
        self._pin_driver = EmulatedPinDriver(pin_limit, byte_scale)
        self._pins = Pins(self._pin_driver)
        self._buffers: dict[int, tuple[torch.Tensor, MemoryKind]] = {}
        self._is_closed = False
        self._engine: Engine
        if ClockKind(clock) is ClockKind.REAL:
            if not interference.is_none or duplex_slowdown_ratio:
                raise InputError(
                    f"Copies that slow others down ({interference}, duplex_slowdown_ratio={duplex_slowdown_ratio}) are "
                    "emulated on the virtual clock only: choose it, or leave them out."
                )
            self._engine = RealEngine(
                rates=rates,
                byte_scale=byte_scale,
                time_scale=time_scale,
                delay_seed=delay_seed,
                fail_copy=fail_copy,
                fail_read=fail_read,
            )
        else:
            self._engine = VirtualEngine(
                lanes=VirtualLanes(interference, duplex_slowdown_ratio),
                rates=rates,
                byte_scale=byte_scale,
                delay_seed=delay_seed,
                fail_copy=fail_copy,
                fail_read=fail_read,
            )

    def allocate(self, numel: int, dtype: torch.dtype, kind: MemoryKind = MemoryKind.WEIGHTS) -> torch.Tensor:
        """See ``Device``."""
        self._enter()
        size_bytes = numel * int(dtype.itemsize) * self._byte_scale
        self._pool.take(size_bytes, kind)
        try:
            # A tensor of inference mode could not become a parameter, nor be written outside that mode.
            with self.host_scope(), torch.inference_mode(False):
                buffer = torch.empty(numel, dtype=dtype)
        except RuntimeError as error:
            self._pool.give(size_bytes, kind)
            raise DeviceMemoryError(f"The host has no {size_bytes} bytes to emulate device memory: {error}") from error
        self._buffers[id(buffer)] = (buffer, kind)
        if self._poisons:
            with self.host_scope():
                fill_poison(buffer)
        return buffer

    def free(self, buffer: torch.Tensor) -> None:
        """See ``Device``."""
        if self._is_closed:
            return
        self._enter()
        if id(buffer) not in self._buffers:
            raise DeviceError("Only what allocate returned can be freed, and only once.")
        _, kind = self._buffers.pop(id(buffer))
        self._pool.give(int(buffer.nbytes) * self._byte_scale, kind)
        if self._poisons:
            with self.host_scope():
                self._engine.retire(buffer)

    def pin(self, buffer: torch.Tensor) -> None:
        """See ``Device``."""
        self._enter()
        self._pins.pin(buffer)

    def unpin(self, buffer: torch.Tensor) -> None:
        """See ``Device``; waits for the host's copies, which may still use it."""
        if self._is_closed:
            return
        self._enter()
        self._engine.finish_copies()
        self._pins.unpin(buffer)

    def copy_pinned(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``Device``."""
        self._enter()
        return self._engine.copy(moves, label, self._rates.pinned_s(self._scaled_bytes(moves)))

    def copy_pageable(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``Device``."""
        self._enter()
        return self._engine.copy_now(moves, label, self._rates.pageable_s(self._scaled_bytes(moves)))

    def copy_back(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``Device``."""
        self._enter()
        return self._engine.copy_now(moves, label, self._rates.back_s(self._scaled_bytes(moves)))

    def queue_back(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``Device``."""
        self._enter()
        return self._engine.copy_back(moves, label, self._rates.back_s(self._scaled_bytes(moves)))

    def open_courier(self, slot_bytes: int) -> Courier:
        """See ``Device``."""
        self._enter()
        with self.host_scope():
            slots = self._pins.take_slots(slot_bytes)
        return self._engine.open_courier(slots, partial(self._pins.give_slots_back, slots))

    def wait(self, copy: QueuedCopy) -> None:
        """See ``Device``."""
        self._enter()
        self._engine.wait(copy)

    def catch_up(self) -> None:
        """See ``Device``."""
        self._enter()
        self._engine.catch_up()

    def begin_run(self, label: Label) -> None:
        """See ``Device``."""
        self._enter()
        self._engine.begin_run()

    def end_run(self, label: Label) -> None:
        """See ``Device``."""
        self._engine.end_run(None if self._compute_s is None else self._compute_s(label))

    def work(self, index: int) -> None:
        """See ``Device``."""
        self._enter()
        if self._work_s is not None:
            self._engine.work(self._work_s(index))

    def mark(self) -> EmulatedMark:
        """See ``Device``."""
        self._enter()
        return EmulatedMark(self._engine.now_s())

    def time_of(self, mark: Mark) -> float:
        """See ``Device``."""
        if not isinstance(mark, EmulatedMark):
            raise DeviceError("Only marks of this device have a time on its clock.")
        return mark.at_s

    def synchronize(self) -> None:
        """See ``Device``."""
        self._enter()
        self._engine.synchronize()

    def start_clock(self) -> None:
        """See ``Device``."""
        self._enter()
        self._engine.start_clock()

    def memory(self) -> MemoryUse:
        """See ``Device``."""
        return self._pool.use()

    def reset_peaks(self) -> None:
        """See ``Device``."""
        self._pool.reset_peaks()

    def compute_scope(self, *, counts: bool = True) -> AbstractContextManager[None]:
        """See ``Device``."""
        return self._tracker.active() if counts and self._tracker is not None else nullcontext()

    def close(self) -> None:
        """See ``Device``."""
        if self._is_closed:
            return
        self._is_closed = True
        self._engine.close()
        self._pins.unpin_all()
        while self._buffers:
            _, (buffer, kind) = self._buffers.popitem()
            self._pool.give(int(buffer.nbytes) * self._byte_scale, kind)

    def _enter(self) -> None:
        if self._is_closed:
            raise DeviceError("The device is closed.")
        self._pin_driver.report_error()
        self._engine.tick()

    def host_scope(self) -> AbstractContextManager[None]:
        """See ``Device``."""
        return nullcontext() if self._tracker is None else self._tracker.paused()

    def _scaled_bytes(self, moves: Moves) -> int:
        return count_bytes(moves) * self._byte_scale
