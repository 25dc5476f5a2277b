"""Pinning host memory at its exact size, whatever driver does it, so that a refusal leaves nothing behind."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Protocol

import torch

from runtime.devices.engine import Slots
from runtime.errors import DeviceError, PinError


class PinDriver(Protocol):
    """What registers memory. Errors of drivers are *sticky*: an unrelated later call reports them again."""

    def register(self, address: int, size_bytes: int) -> None:
        """Lock memory; raises anything when refused."""
        ...

    def unregister(self, address: int) -> None:
        """Undo ``register``; raises anything when refused."""
        ...

    def clear_error(self) -> None:
        """Forget an error that a later call would report."""
        ...


class Pins:
    """The host memory that one device has pinned."""

    def __init__(self, driver: PinDriver) -> None:
        self._driver = driver
        self._pinned: dict[int, torch.Tensor] = {}

    @property
    def pinned_bytes(self) -> int:
        """Bytes of all pinned tensors."""
        return sum(int(tensor.nbytes) for tensor in self._pinned.values())

    def pin(self, buffer: torch.Tensor) -> None:
        """Lock the memory of ``buffer``, which is kept alive until it is unpinned.

        Raises:
            PinError: it is refused, is no contiguous host tensor, is empty or is pinned already.
        """
        if buffer.device.type != "cpu" or not buffer.is_contiguous() or not buffer.nbytes:
            raise PinError("Only contiguous host tensors that are not empty can be pinned.")
        address = int(buffer.data_ptr())
        if address in self._pinned:
            raise PinError(f"The {buffer.nbytes} bytes at {address:#x} are pinned already; unpin them first.")
        try:
            self._driver.register(address, int(buffer.nbytes))
        except Exception as error:
            self._driver.clear_error()
            raise PinError(
                f"{buffer.nbytes} bytes of host memory could not be pinned beside {self.pinned_bytes} that are: {error}"
            ) from error
        self._pinned[address] = buffer

    def unpin(self, buffer: torch.Tensor) -> None:
        """Undo ``pin``.

        Raises:
            DeviceError: the tensor is not pinned, or the driver refuses.
        """
        address = int(buffer.data_ptr())
        if address not in self._pinned:
            raise DeviceError(f"The {buffer.nbytes} bytes at {address:#x} are not pinned.")
        self._release(address)

    def take_slots(self, slot_bytes: int) -> Slots:
        """Two pinned slots of ``slot_bytes`` each.

        Raises:
            PinError: one of them is refused; the other is not kept.
        """
        slots = (allocate_own_pages(slot_bytes), allocate_own_pages(slot_bytes))
        self.pin(slots[0])
        try:
            self.pin(slots[1])
        except PinError:
            self.unpin(slots[0])
            raise
        return slots

    def give_slots_back(self, slots: Slots) -> None:
        """Undo ``take_slots``."""
        for slot in slots:
            self.unpin(slot)

    def unpin_all(self) -> None:
        """Undo every ``pin``, as far as the driver lets it."""
        for address in list(self._pinned):
            try:
                self._release(address)
            except DeviceError:
                continue

    def _release(self, address: int) -> None:
        buffer = self._pinned.pop(address)
        try:
            self._driver.unregister(address)
        except Exception as error:
            self._driver.clear_error()
            raise DeviceError(f"{buffer.nbytes} bytes of host memory could not be unpinned: {error}") from error


def allocate_own_pages(size_bytes: int) -> torch.Tensor:
    """Bytes of host memory, not pinned yet, that share no page with anything else."""
    # Drivers lock whole pages; one that is shared with other locked memory cannot be locked again.
    page_bytes = mmap.PAGESIZE
    with torch.inference_mode(False):
        whole = torch.empty(-(-size_bytes // page_bytes) * page_bytes + page_bytes, dtype=torch.uint8)
        begin = -int(whole.data_ptr()) % page_bytes
        return whole[begin : begin + size_bytes]


class EmulatedPinDriver:
    """Pins nothing, asks a hook instead, and is as sticky as a real driver.

    Args:
        limit: called with the bytes of every request; raises to refuse it. None refuses nothing.
        byte_scale: as how many bytes each byte counts.
    """

    def __init__(self, limit: Callable[[int], None] | None, byte_scale: int) -> None:
        self._limit = limit
        self._byte_scale = byte_scale
        self._pending: Exception | None = None

    def register(self, address: int, size_bytes: int) -> None:
        """See ``PinDriver``."""
        if self._limit is None:
            return
        try:
            self._limit(size_bytes * self._byte_scale)
        except Exception as error:
            self._pending = error
            raise

    def unregister(self, address: int) -> None:
        """See ``PinDriver``."""

    def clear_error(self) -> None:
        """See ``PinDriver``."""
        self._pending = None

    def report_error(self) -> None:
        """What every other call into a driver does.

        Raises:
            DeviceError: an earlier error was never cleared.
        """
        if self._pending is not None:
            error, self._pending = self._pending, None
            raise DeviceError(f"An earlier call failed: {error}") from error
