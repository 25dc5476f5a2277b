"""The engine of an emulated device on the virtual clock: no threads, exact times, bytes moved now or late."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from runtime.devices.courier import check_fits
from runtime.devices.emulated_copy import EmulatedCopy, Fault
from runtime.devices.engine import Slots, fill_poison
from runtime.devices.link_rates import LinkRates, ReadCache
from runtime.devices.moves import count_bytes
from runtime.devices.pending_copies import PendingCopies
from runtime.devices.protocol import CopySpan, Label, Moves, QueuedCopy
from runtime.devices.virtual_time import Interval, LaneWork, VirtualLanes
from runtime.errors import DeviceError
from runtime.timeline import Lane

_STAYS_PENDING_RATIO = 0.7


class VirtualCopy(EmulatedCopy):
    """A copy that was planned when it was queued.

    Args:
        works: what lanes do for it, the last one the copy itself.
    """

    def __init__(
        self, moves: Moves, label: Label, works: tuple[LaneWork, ...], *, epoch: int, fault: Fault | None
    ) -> None:
        super().__init__(moves, label, epoch=epoch, fault=fault)
        self.works = works

    def spans(self) -> tuple[CopySpan, ...]:
        """See ``QueuedCopy``."""
        return tuple(work.span() for work in self.works)


class VirtualEngine:
    """See ``Engine``.

    Times never depend on when bytes are moved. Without a seed that is when a copy is queued. With one, a copy stays
    pending over a random number of calls, at the latest until somebody waits for it or for one behind it in its queue:
    who reads without waiting finds what was there before. The host has a queue for each direction, every courier one.

    Args:
        lanes: which lane works when.
        rates: of the links.
        byte_scale: as how many bytes each byte counts.
        delay_seed: decides which calls make pending copies; None to make them when they are queued.
        fail_copy, fail_read: see ``EmulatedDevice``.
    """

    def __init__(
        self,
        *,
        lanes: VirtualLanes,
        rates: LinkRates,
        byte_scale: int,
        delay_seed: int | None,
        fail_copy: Fault | None,
        fail_read: Fault | None,
    ) -> None:
        self.lanes = lanes
        self.rates = rates
        self.byte_scale = byte_scale
        self._delays = None if delay_seed is None else random.Random(delay_seed)
        self._fail_copy, self._fail_read = fail_copy, fail_read
        self._epoch = 0
        self._failed: list[EmulatedCopy] = []
        self._own = PendingCopies(self._failed)
        self._back = PendingCopies(self._failed)
        self._queues = [self._own, self._back]
        self._couriers: list[VirtualCourier] = []

    def tick(self) -> None:
        """See ``Engine``."""
        for queue in self._queues:
            while queue and (self._delays is None or self._delays.random() >= _STAYS_PENDING_RATIO):
                queue.make_next()

    def copy(self, moves: Moves, label: Label, took_s: float) -> VirtualCopy:
        """See ``Engine``."""
        return self._queue_own(moves, label, self.lanes.copy(took_s))

    def copy_now(self, moves: Moves, label: Label, took_s: float) -> VirtualCopy:
        """See ``Engine``."""
        copy = self._queue_own(moves, label, self.lanes.copy_now(took_s))
        self._own.make_until(copy)
        copy.check()
        return copy

    def copy_back(self, moves: Moves, label: Label, took_s: float) -> VirtualCopy:
        """See ``Engine``."""
        works = (self.lanes.work(Lane.D2H, self.lanes.copy_back(took_s)),)
        return self._queue(VirtualCopy(moves, label, works, epoch=self._epoch, fault=self._fail_copy), self._back)

    def ship(self, moves: Moves, label: Label, times: tuple[Interval, Interval], queue: PendingCopies) -> VirtualCopy:
        """Queue what a courier reads and copies at ``times``."""
        works = (self.lanes.work(Lane.READ, times[0]), self.lanes.work(Lane.H2D, times[1]))
        return self._queue(VirtualCopy(moves, label, works, epoch=self._epoch, fault=self._fail_shipment), queue)

    def open_courier(self, slots: Slots, give_back: Callable[[], None]) -> VirtualCourier:
        """See ``Engine``."""
        queue = PendingCopies(self._failed)
        self._queues.append(queue)
        courier = VirtualCourier(self, int(slots[0].nbytes), queue, give_back)
        self._couriers.append(courier)
        return courier

    def forget_courier(self, courier: VirtualCourier, queue: PendingCopies) -> None:
        """It is closed; its copies that are pending fail."""
        queue.drop_all(DeviceError("its courier was closed before it was made"))
        self._queues.remove(queue)
        self._couriers.remove(courier)

    def wait(self, copy: QueuedCopy) -> None:
        """See ``Engine``."""
        if not isinstance(copy, VirtualCopy):
            raise DeviceError("Only copies that this device has queued can be waited for.")
        for queue in self._queues:
            queue.make_until(copy)
        # What was queued on an earlier time line has landed when this one begins.
        if copy.epoch == self._epoch:
            self.lanes.wait(copy.works[-1].planned.end_s, copy.works[-1].lane)
        copy.check()

    def catch_up(self) -> None:
        """See ``Engine``."""
        self.lanes.catch_up()

    def begin_run(self) -> None:
        """See ``Engine``."""

    def end_run(self, took_s: float | None) -> None:
        """See ``Engine``; compute of an unknown duration takes none."""
        self.lanes.compute(took_s or 0.0)

    def work(self, took_s: float) -> None:
        """See ``Engine``."""
        self.lanes.compute(took_s)

    def now_s(self) -> float:
        """See ``Engine``."""
        return self.lanes.now_s

    def retire(self, buffer: torch.Tensor) -> None:
        """See ``Engine``; behind copies of couriers, too."""
        are_pending = [queue.retire(buffer) for queue in self._queues]
        if not any(are_pending):
            fill_poison(buffer)

    def finish_copies(self) -> None:
        """See ``Engine``."""
        for queue in self._queues:
            queue.make_all()

    def synchronize(self) -> None:
        """See ``Engine``."""
        self.finish_copies()
        self.lanes.finish()
        unreported = [copy for copy in self._failed if copy.has_unreported_error]
        self._failed.clear()
        for copy in unreported:
            copy.check()

    def start_clock(self) -> None:
        """See ``Engine``."""
        self._epoch += 1
        self.lanes.reset()

    def close(self) -> None:
        """See ``Engine``."""
        for courier in list(self._couriers):
            courier.close()
        for queue in (self._own, self._back):
            queue.drop_all(DeviceError("the device was closed before it was made"))

    def _queue_own(self, moves: Moves, label: Label, planned: Interval) -> VirtualCopy:
        works = (self.lanes.work(Lane.H2D, planned),)
        return self._queue(VirtualCopy(moves, label, works, epoch=self._epoch, fault=self._fail_copy), self._own)

    def _queue(self, copy: VirtualCopy, queue: PendingCopies) -> VirtualCopy:
        queue.add(copy)
        if self._delays is None:
            queue.make_all()
        return copy

    def _fail_shipment(self, label: Label) -> None:
        for fault in (self._fail_read, self._fail_copy):
            if fault is not None:
                fault(label)


class VirtualCourier:
    """See ``Courier``. Its slots are two times: the bytes go straight to the device."""

    def __init__(
        self, engine: VirtualEngine, slot_bytes: int, queue: PendingCopies, give_back: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._slot_bytes = slot_bytes
        self._queue = queue
        self._give_back = give_back
        self._slots = engine.lanes.add_courier()
        self._cache = ReadCache(engine.rates)
        self._is_closed = False

    def ship(self, moves: Moves, label: Label) -> VirtualCopy:
        """See ``Courier``."""
        engine = self._engine
        engine.tick()
        self._check_open(label)
        size_bytes = check_fits(moves, label, self._slot_bytes) * engine.byte_scale
        read_s = self._cache.read_s(label, size_bytes)
        times = engine.lanes.ship(self._slots, read_s, engine.rates.pinned_s(size_bytes))
        return engine.ship(moves, label, times, self._queue)

    def load_now(self, moves: Moves, label: Label) -> VirtualCopy:
        """See ``Courier``."""
        engine = self._engine
        engine.tick()
        self._check_open(label)
        size_bytes = count_bytes(moves) * engine.byte_scale
        return engine.copy_now(moves, label, self._cache.load_now_s(label, size_bytes))

    def forget_reads(self) -> None:
        """See ``Courier``."""
        self._cache.forget()

    def close(self) -> None:
        """See ``Courier``."""
        if not self._is_closed:
            self._is_closed = True
            self._engine.forget_courier(self, self._queue)
            self._give_back()

    def _check_open(self, label: Label) -> None:
        if self._is_closed:
            raise DeviceError(f"The courier that should load {label} is closed.")
