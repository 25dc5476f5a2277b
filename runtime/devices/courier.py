"""A thread that reads layers into two pinned slots in turn, then has them copied from there, for any device."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch

from runtime.devices.engine import Slots
from runtime.devices.moves import count_bytes
from runtime.devices.protocol import CopySpan, Label, Moves, QueuedCopy
from runtime.errors import DeviceError


class Shipment(Protocol):
    """One layer on its way. It is made on the host thread; the courier's thread calls the rest, in this order."""

    def read(self, moves: Moves) -> tuple[CopySpan, ...]:
        """Fill a slot: from the layer's memory into parts of the slot."""
        ...

    def send(self, moves: Moves) -> QueuedCopy:
        """Queue the copy: from those parts to the device, after all compute that was queued when this was made."""
        ...


class CourierPort(Protocol):
    """What a courier needs of its device."""

    def begin_shipment(self, label: Label, size_bytes: int) -> Shipment:
        """Called on the host thread, for every layer that is shipped."""
        ...

    def await_landing(self, copy: QueuedCopy) -> None:
        """Block the courier's thread until ``copy`` reads its slot no more, even if it failed."""
        ...

    def load_now(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``Courier.load_now``."""
        ...

    def forget_reads(self) -> None:
        """See ``Courier.forget_reads``."""
        ...


def check_fits(moves: Moves, label: Label, slot_bytes: int) -> int:
    """Bytes of ``moves``.

    Raises:
        DeviceError: a slot does not hold them.
    """
    size_bytes = count_bytes(moves)
    if size_bytes > slot_bytes:
        raise DeviceError(f"{label} has {size_bytes} bytes, a slot of its courier holds {slot_bytes}.")
    return size_bytes


class ShippedCopy:
    """A layer that was given to a courier: queued with the device some time later."""

    def __init__(self, label: Label, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.label = label
        self.is_reported = False
        self._settled = threading.Event()
        self._read: tuple[CopySpan, ...] = ()
        self._copy: QueuedCopy | None = None
        self._error: BaseException | None = None

    def spans(self) -> tuple[CopySpan, ...]:
        """See ``QueuedCopy``."""
        return self._read if self._copy is None else (*self._read, *self._copy.spans())

    @property
    def read_end_s(self) -> float:
        """When its read was over, on the device's clock; 0 while it is not."""
        return max((span.end_s for span in self._read), default=0.0)

    def sent(self, read: tuple[CopySpan, ...], copy: QueuedCopy) -> None:
        """It has been read and queued."""
        self._read, self._copy = read, copy
        self._settled.set()

    def fail(self, error: BaseException) -> None:
        """It will not be queued."""
        self._error = error
        self._settled.set()

    def await_settled(self) -> None:
        """Block until the layer has been read, or has failed to be."""
        self._settled.wait()

    def await_copy(self) -> QueuedCopy:
        """Block until the layer has been read; returns its copy.

        Raises:
            DeviceError: the read failed, or the courier was closed before it.
        """
        self._settled.wait()
        if self._copy is None:
            self.is_reported = True
            raise DeviceError(f"The read of {self.label} failed: {self._error}") from self._error
        return self._copy


class _Order(NamedTuple):
    shipped: ShippedCopy
    moves: Moves
    shipment: Shipment


class ThreadedCourier:
    """See ``Courier``. A slot is written again only after the copy from it has landed.

    Args:
        port: the device.
        slots: they belong to the courier until it calls ``give_back``.
    """

    def __init__(self, port: CourierPort, slots: Slots, give_back: Callable[[], None]) -> None:
        self._port = port
        self._slots = slots
        self._give_back = give_back
        self._closing = threading.Event()
        # A device may be closed from another thread than the host's: no order may follow the end of the queue.
        self._order_lock = threading.Lock()
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._last: ShippedCopy | None = None
        self._failed: list[ShippedCopy] = []
        self._thread = threading.Thread(target=self._serve, name="courier", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        """Whether ``close`` has been called."""
        return self._closing.is_set()

    def ship(self, moves: Moves, label: Label) -> ShippedCopy:
        """See ``Courier``."""
        size_bytes = check_fits(moves, label, int(self._slots[0].nbytes))
        shipped = ShippedCopy(label, size_bytes)
        with self._order_lock:
            self._check_open(label)
            self._orders.put(_Order(shipped, moves, self._port.begin_shipment(label, size_bytes)))
        self._last = shipped
        return shipped

    def load_now(self, moves: Moves, label: Label) -> QueuedCopy:
        """See ``Courier``."""
        self._check_open(label)
        return self._port.load_now(moves, label)

    def forget_reads(self) -> None:
        """See ``Courier``."""
        self._port.forget_reads()

    def finish_reads(self) -> list[ShippedCopy]:
        """Block until every layer has been read and queued; returns those that failed since the last call.

        Layers that were dropped have not failed.
        """
        if self._last is not None:
            self._last.await_settled()
        failed, self._failed = self._failed, []
        return [] if self.is_closed else failed

    def close(self) -> None:
        """See ``Courier``."""
        with self._order_lock:
            if self._closing.is_set():
                return
            self._closing.set()
            self._orders.put(None)
        self._thread.join()
        self._give_back()

    def _check_open(self, label: Label) -> None:
        if self._closing.is_set():
            raise DeviceError(f"The courier that should load {label} is closed.")

    def _serve(self) -> None:
        sent: list[QueuedCopy | None] = [None, None]
        turn = 0
        while (order := self._orders.get()) is not None:
            try:
                if self._closing.is_set():
                    raise DeviceError("its courier was closed before it was read")
                if (before := sent[turn]) is not None:
                    self._port.await_landing(before)
                parts = _cut(self._slots[turn], order.moves)
                targets = [(_as_bytes(target), part) for part, (target, _) in zip(parts, order.moves, strict=True)]
                sources = [(part, _as_bytes(source)) for part, (_, source) in zip(parts, order.moves, strict=True)]
                read = order.shipment.read(sources)
                sent[turn] = copy = order.shipment.send(targets)
                turn = 1 - turn
                order.shipped.sent(read, copy)
            except Exception as error:
                self._failed.append(order.shipped)
                order.shipped.fail(error)
        for copy_or_none in sent:
            if copy_or_none is not None:
                self._port.await_landing(copy_or_none)


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    # As bytes, layers of several dtypes fill a slot without gaps, whatever their alignment.
    return tensor.view(-1).view(torch.uint8)


def _cut(slot: torch.Tensor, moves: Moves) -> list[torch.Tensor]:
    parts, begin = [], 0
    for destination, _ in moves:
        end = begin + int(destination.nbytes)
        parts.append(slot[begin:end])
        begin = end
    return parts
