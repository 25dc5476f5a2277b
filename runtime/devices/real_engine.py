"""The engine of an emulated device on the real clock: threads move bytes and sleep for as long as that should last."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import torch

from runtime.devices.compute_lane import ComputeLane
from runtime.devices.copy_thread import CopyThread
from runtime.devices.courier import ShippedCopy, ThreadedCourier
from runtime.devices.emulated_copy import EmulatedCopy, Fault
from runtime.devices.engine import Slots
from runtime.devices.link_rates import LinkRates, ReadCache
from runtime.devices.moves import count_bytes, move_bytes
from runtime.devices.protocol import CopySpan, Label, Moves, QueuedCopy
from runtime.devices.real_time import RealTime
from runtime.errors import DeviceError
from runtime.timeline import Lane


class RealEngine:
    """See ``Engine``. Compute runs on the host's thread; ``ComputeLane`` keeps times as if the host could run ahead.

    Args:
        rates: of the links.
        byte_scale: as how many bytes each byte counts.
        time_scale: wall seconds per emulated second.
        delay_seed: for random sleeps before copies; None for none.
        fail_copy, fail_read: see ``EmulatedDevice``.
    """

    def __init__(
        self,
        *,
        rates: LinkRates,
        byte_scale: int,
        time_scale: float,
        delay_seed: int | None,
        fail_copy: Fault | None,
        fail_read: Fault | None,
    ) -> None:
        self.rates = rates
        self.byte_scale = byte_scale
        self.time = RealTime(time_scale)
        self.reads = ReadLane(self.time, fail_read)
        self._fail_copy = fail_copy
        # Not equally late: what overtakes the other way only then would not show.
        delays, back_delays = (None if delay_seed is None else random.Random(delay_seed + way) for way in range(2))
        self._thread = CopyThread(Lane.H2D, self.time, delays)
        self._back_thread = CopyThread(Lane.D2H, self.time, back_delays)
        self._couriers: list[ThreadedCourier] = []
        self.compute = ComputeLane(self.time)

    def tick(self) -> None:
        """See ``Engine``."""

    def copy(self, moves: Moves, label: Label, took_s: float) -> EmulatedCopy:
        """See ``Engine``."""
        return self.copy_from(moves, label, took_s, self.compute.now_s())

    def copy_from(self, moves: Moves, label: Label, took_s: float, ready_s: float) -> EmulatedCopy:
        """Queue a copy that begins at ``ready_s`` at the earliest. Any thread may call it."""
        copy = EmulatedCopy(moves, label, epoch=self.time.epoch, fault=self._fail_copy)
        self._thread.queue(copy, took_s, ready_s)
        return copy

    def copy_now(self, moves: Moves, label: Label, took_s: float) -> EmulatedCopy:
        """See ``Engine``."""
        copy = self.copy(moves, label, took_s)
        self.wait(copy)
        self.catch_up()
        return copy

    def copy_back(self, moves: Moves, label: Label, took_s: float) -> EmulatedCopy:
        """See ``Engine``."""
        copy = EmulatedCopy(moves, label, epoch=self.time.epoch, fault=self._fail_copy)
        self._back_thread.queue(copy, took_s, self.compute.now_s())
        return copy

    def open_courier(self, slots: Slots, give_back: Callable[[], None]) -> ThreadedCourier:
        """See ``Engine``."""
        courier = ThreadedCourier(RealCourierPort(self), slots, give_back)
        self._couriers = [*(each for each in self._couriers if not each.is_closed), courier]
        return courier

    def wait(self, copy: QueuedCopy) -> None:
        """See ``Engine``; blocks."""
        since_s = self.time.now_s()
        queued = copy.await_copy() if isinstance(copy, ShippedCopy) else copy
        if not isinstance(queued, EmulatedCopy):
            raise DeviceError("Only copies that this device has queued can be waited for.")
        queued.landed.wait()
        # What was queued on an earlier time line has landed when this one begins.
        is_of_now = queued.epoch == self.time.epoch and bool(queued.lanes)
        self.compute.wait_until(queued.lanes[-1].end_s if is_of_now else 0.0, since_s=since_s)
        if isinstance(copy, ShippedCopy) and is_of_now:
            # The host itself waits for a courier's read, and cannot queue compute before it.
            self.compute.host_waits_until(copy.read_end_s)
        queued.check()

    def catch_up(self) -> None:
        """See ``Engine``."""
        self.compute.catch_up()

    def begin_run(self) -> None:
        """See ``Engine``."""
        self.compute.begin_run()

    def end_run(self, took_s: float | None) -> None:
        """See ``Engine``."""
        self.compute.end_run(took_s)

    def work(self, took_s: float) -> None:
        """See ``Engine``."""
        self.compute.begin_run()
        self.compute.end_run(took_s)

    def now_s(self) -> float:
        """See ``Engine``."""
        return self.compute.now_s()

    def retire(self, buffer: torch.Tensor) -> None:
        """See ``Engine``."""
        self._thread.retire(buffer)

    def finish_copies(self) -> None:
        """See ``Engine``."""
        self._thread.finish()
        self._back_thread.finish()

    def synchronize(self) -> None:
        """See ``Engine``."""
        unread = [shipped for courier in self._couriers for shipped in courier.finish_reads()]
        self.finish_copies()
        unmade = []
        for thread in (self._thread, self._back_thread):
            unmade += [copy for copy in thread.failed if copy.has_unreported_error]
            thread.failed.clear()
        for shipped in unread:
            if not shipped.is_reported:
                shipped.await_copy()
        self.compute.catch_up()
        for copy in unmade:
            copy.check()

    def start_clock(self) -> None:
        """See ``Engine``."""
        self.time.restart()
        self.compute.restart()
        self.reads.restart()
        self._thread.restart()
        self._back_thread.restart()

    def close(self) -> None:
        """See ``Engine``."""
        self.time.stop()
        for courier in self._couriers:
            courier.close()
        self._thread.close()
        self._back_thread.close()


class ReadLane:
    """The reads of all couriers of one device, one at a time, paced like copies.

    Args:
        time: the clock.
        fail_read: called with the label before every read; raises to make it fail.
    """

    def __init__(self, time: RealTime, fail_read: Fault | None) -> None:
        self._time = time
        self._fail_read = fail_read
        self._lock = threading.Lock()
        self._free_s = 0.0

    def read(self, moves: Moves, label: Label, took_s: float, ready_s: float) -> CopySpan:
        """Move the bytes of ``label`` into a slot that was free at ``ready_s``; blocks while that lasts."""
        with self._lock:
            start_s = max(self._free_s, ready_s)
            if self._fail_read is not None:
                self._fail_read(label)
            move_bytes(moves)
            end_s = max(start_s + took_s, self._time.now_s())
            self._time.sleep_until(end_s)
            self._free_s = end_s
            return CopySpan(Lane.READ, start_s, end_s)

    def restart(self) -> None:
        """The clock has been restarted, while nothing was read."""
        self._free_s = 0.0


class RealCourierPort:
    """See ``CourierPort``; one per courier."""

    def __init__(self, engine: RealEngine) -> None:
        self.engine = engine
        self.slot_free_s = 0.0
        self._cache = ReadCache(engine.rates)

    def begin_shipment(self, label: Label, size_bytes: int) -> RealShipment:
        """See ``CourierPort``."""
        return RealShipment(self, label, self._cache.read_s(label, size_bytes * self.engine.byte_scale))

    def await_landing(self, copy: QueuedCopy) -> None:
        """See ``CourierPort``."""
        if isinstance(copy, EmulatedCopy):
            copy.landed.wait()
            is_of_now = copy.epoch == self.engine.time.epoch and bool(copy.lanes)
            self.slot_free_s = copy.lanes[-1].end_s if is_of_now else 0.0

    def load_now(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``CourierPort``."""
        size_bytes = count_bytes(moves) * self.engine.byte_scale
        return self.engine.copy_now(moves, label, self._cache.load_now_s(label, size_bytes))

    def forget_reads(self) -> None:
        """See ``CourierPort``."""
        self._cache.forget()


class RealShipment:
    """See ``Shipment``."""

    def __init__(self, port: RealCourierPort, label: Label, read_s: float) -> None:
        self._port = port
        self._label = label
        self._read_s = read_s
        self._asked_s = self._read_end_s = port.engine.compute.host_s()
        self._ready_s = port.engine.now_s()

    def read(self, moves: Moves) -> tuple[CopySpan, ...]:
        """See ``Shipment``."""
        port = self._port
        span = port.engine.reads.read(moves, self._label, self._read_s, max(self._asked_s, port.slot_free_s))
        self._read_end_s = span.end_s
        return (span,)

    def send(self, moves: Moves) -> QueuedCopy:
        """See ``Shipment``."""
        engine = self._port.engine
        size_bytes = count_bytes(moves) * engine.byte_scale
        ready_s = max(self._ready_s, self._read_end_s)
        return engine.copy_from(moves, self._label, engine.rates.pinned_s(size_bytes), ready_s)
