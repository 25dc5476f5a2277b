"""What couriers need of a CUDA card."""

from __future__ import annotations

import threading

import torch

from runtime.devices.cuda_clock import CudaClock
from runtime.devices.cuda_copies import CudaCopies, CudaCopy
from runtime.devices.moves import move_bytes
from runtime.devices.protocol import CopySpan, Label, Moves, QueuedCopy
from runtime.timeline import Lane


class CudaCourierPort:
    """See ``CourierPort``.

    Args:
        copies, clock: of the card.
        read_lock: shared by all couriers of the card, which read one at a time.
    """

    def __init__(self, copies: CudaCopies, clock: CudaClock, read_lock: threading.Lock) -> None:
        self.copies = copies
        self.clock = clock
        self.read_lock = read_lock

    def begin_shipment(self, label: Label, size_bytes: int) -> CudaShipment:
        """See ``CourierPort``."""
        return CudaShipment(self, label, self.copies.ready())

    def await_landing(self, copy: QueuedCopy) -> None:
        """See ``CourierPort``."""
        if isinstance(copy, CudaCopy):
            copy.end.synchronize()

    def load_now(self, moves: Moves, label: Label) -> CudaCopy:
        """See ``CourierPort``."""
        return self.copies.copy_now(moves, label)

    def forget_reads(self) -> None:
        """See ``CourierPort``; the system's page cache decides by itself what it keeps."""


class CudaShipment:
    """See ``Shipment``."""

    def __init__(self, port: CudaCourierPort, label: Label, ready: torch.cuda.Event) -> None:
        self._port, self._label, self._ready = port, label, ready

    def read(self, moves: Moves) -> tuple[CopySpan, ...]:
        """See ``Shipment``; timed by the host's clock."""
        with self._port.read_lock:
            start_s = self._port.clock.host_now_s()
            move_bytes(moves)
            return (CopySpan(Lane.READ, start_s, self._port.clock.host_now_s()),)

    def send(self, moves: Moves) -> CudaCopy:
        """See ``Shipment``."""
        return self._port.copies.queue(moves, self._label, self._ready)
