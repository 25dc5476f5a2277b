"""Holds Ctrl-C back while the executor changes what is where, so that nothing is left half-done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class InterruptShield:
    """Between ``hold`` and ``let_go`` an interrupt waits; a second one does not, in case something hangs.

    Only the main thread gets interrupts. In any other one, and where the program ignores them or has left them to the
    system, this does nothing.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._pending: tuple[int, FrameType | None] | None = None
        self._main = 0
        self._handler = self._receive  # one object, so that it can be recognised

    def install(self) -> None:
        """Stand before the program's own handler."""
        found = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(found):
            return
        self._previous = found
        signal.signal(signal.SIGINT, self._handler)
        self._main = threading.get_ident()

    def remove(self) -> None:
        """Give the handler back, unless somebody has put another one before this one since."""
        if self._main and threading.get_ident() == self._main:
            if signal.getsignal(signal.SIGINT) is self._handler:
                signal.signal(signal.SIGINT, self._previous)
            self._main = 0

    def hold(self) -> None:
        """From now on an interrupt waits."""
        if self._main and threading.get_ident() == self._main:
            self._depth += 1

    def let_go(self) -> None:
        """Undo one ``hold``; an interrupt that waited is delivered with the last one."""
        if not self._depth or threading.get_ident() != self._main:
            return
        self._depth -= 1
        if self._pending is not None and not self._depth:
            pending, self._pending = self._pending, None
            self._previous(*pending)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold an interrupt back for the length of a block."""
        self.hold()
        try:
            yield
        finally:
            self.let_go()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._depth and self._pending is None:
            self._pending = (number, frame)
            return
        self._pending = None
        self._previous(number, frame)
