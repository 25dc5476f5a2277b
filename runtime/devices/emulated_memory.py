"""Device memory as figures: an accounted pool with an optional hard cap."""

from __future__ import annotations

from collections import deque

from runtime.devices.protocol import MemoryKind, MemoryUse
from runtime.errors import DeviceMemoryError


class MemoryPool:
    """Counts bytes by kind. ``take`` and ``give`` are called from one thread, ``give_later`` from any.

    Args:
        capacity_bytes: the most that may be taken at one time; None for no limit.
    """

    def __init__(self, capacity_bytes: int | None) -> None:
        self._capacity_bytes = capacity_bytes
        self._live_bytes = dict.fromkeys(MemoryKind, 0)
        self._peak_bytes = dict.fromkeys(MemoryKind, 0)
        self._peak_total_bytes = 0
        # Finalizers run wherever the garbage collector does, in the middle of ``take`` too: they may only append.
        self._given_later: deque[tuple[MemoryKind, int]] = deque()

    def take(self, size_bytes: int, kind: MemoryKind) -> None:
        """Take bytes.

        Raises:
            DeviceMemoryError: they do not fit; nothing is taken.
        """
        self._settle()
        in_use = sum(self._live_bytes.values())
        if self._capacity_bytes is not None and in_use + size_bytes > self._capacity_bytes:
            parts = ", ".join(f"{live} {name}" for name, live in self._live_bytes.items())
            raise DeviceMemoryError(
                f"Device memory ran out: {size_bytes} bytes of {kind} were asked for, {in_use} are in use ({parts}), "
                f"there are {self._capacity_bytes}. Keep fewer layers on the device, or raise the cap."
            )
        self._live_bytes[kind] += size_bytes
        self._peak_bytes[kind] = max(self._peak_bytes[kind], self._live_bytes[kind])
        self._peak_total_bytes = max(self._peak_total_bytes, in_use + size_bytes)

    def give(self, size_bytes: int, kind: MemoryKind) -> None:
        """Give bytes back."""
        self._live_bytes[kind] -= size_bytes

    def give_later(self, size_bytes: int, kind: MemoryKind) -> None:
        """Give bytes back from a finalizer; they count as free from the next call on."""
        self._given_later.append((kind, size_bytes))

    def use(self) -> MemoryUse:
        """Bytes in use."""
        self._settle()
        return MemoryUse(
            live_bytes=dict(self._live_bytes),
            peak_bytes=dict(self._peak_bytes),
            peak_total_bytes=self._peak_total_bytes,
            reserved_bytes=None,
            capacity_bytes=self._capacity_bytes,
        )

    def reset_peaks(self) -> None:
        """Peaks count from what is live now."""
        self._settle()
        self._peak_bytes = dict(self._live_bytes)
        self._peak_total_bytes = sum(self._live_bytes.values())

    def _settle(self) -> None:
        while self._given_later:
            kind, size_bytes = self._given_later.popleft()
            self.give(size_bytes, kind)
