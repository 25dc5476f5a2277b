"""One copy of an emulated device: what it moves, whether it has been made, when it was on its way."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from runtime.devices.moves import count_bytes, move_bytes
from runtime.devices.protocol import CopySpan, Label, Moves
from runtime.errors import DeviceError

Fault = Callable[[Label], None]
"""Called before the bytes of a label are moved; raises to make that fail."""


class EmulatedCopy:
    """A copy that was queued; the engine that makes it calls ``make`` once, or ``fail``.

    Attributes:
        size_bytes: what it moves.
        label: whose bytes.
        epoch: the time line that it was queued on.
        lanes: when each lane works for it; empty until that is known.
        is_reported: its error has been raised, so ``synchronize`` need not raise it again.
    """

    def __init__(self, moves: Moves, label: Label, *, epoch: int = 0, fault: Fault | None = None) -> None:
        self.size_bytes = count_bytes(moves)
        self.label = label
        self.epoch = epoch
        self.lanes: tuple[CopySpan, ...] = ()
        self.is_reported = False
        self.landed = threading.Event()
        self._moves: Moves = moves
        self._fault = fault
        self._error: BaseException | None = None

    def spans(self) -> tuple[CopySpan, ...]:
        """See ``QueuedCopy``."""
        return self.lanes

    def writes_into(self, buffer: torch.Tensor) -> bool:
        """Whether a destination lies in the memory of ``buffer``."""
        address = buffer.untyped_storage().data_ptr()
        return any(destination.untyped_storage().data_ptr() == address for destination, _ in self._moves)

    def make(self) -> None:
        """Move the bytes. An error is kept, not raised; the tensors are let go either way."""
        try:
            if self._fault is not None:
                self._fault(self.label)
            move_bytes(self._moves)
        except Exception as error:
            self._error = error
        finally:
            self._moves = ()

    def fail(self, error: BaseException) -> None:
        """It will not be made."""
        self._error, self._moves = error, ()
        self.landed.set()

    @property
    def has_unreported_error(self) -> bool:
        """Whether it failed and nobody has been told."""
        return self._error is not None and not self.is_reported

    def check(self) -> None:
        """Raise what it failed with.

        Raises:
            DeviceError: it failed.
        """
        if self._error is not None:
            self.is_reported = True
            raise DeviceError(f"The copy of {self.label} failed: {self._error}") from self._error
