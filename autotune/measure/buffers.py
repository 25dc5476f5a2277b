"""Host and device memory that copies are measured with, given back in every case. Imports torch."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

import torch

from runtime.devices.pinning import allocate_own_pages
from runtime.devices.protocol import Device
from runtime.errors import DeviceError


class CopyBuffers:
    """Memory by name and size: the same is returned when it is asked for again. Leaving the block gives all back.

    Args:
        device: where it is allocated and pinned.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._held = ExitStack()
        self._buffers: dict[tuple[str, str, int], torch.Tensor] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._buffers.clear()
        self._held.callback(self._settle)
        self._held.close()

    def pageable(self, name: str, size_bytes: int) -> torch.Tensor:
        """Host memory that is not pinned, every page of it in use.

        Raises:
            DeviceError: the host has none.
        """
        key = ("pageable", name, size_bytes)
        if key not in self._buffers:
            self._buffers[key] = _fill_pages(size_bytes)
        return self._buffers[key]

    def pinned(self, name: str, size_bytes: int) -> torch.Tensor:
        """Pinned host memory.

        Raises:
            PinError: the system refuses.
            DeviceError: the host has none.
        """
        key = ("pinned", name, size_bytes)
        if key not in self._buffers:
            buffer = _fill_pages(size_bytes)
            self._device.pin(buffer)
            self._held.callback(self._device.unpin, buffer)
            self._buffers[key] = buffer
        return self._buffers[key]

    def on_device(self, name: str, size_bytes: int) -> torch.Tensor:
        """Device memory.

        Raises:
            DeviceMemoryError: it does not fit.
        """
        key = ("device", name, size_bytes)
        if key not in self._buffers:
            buffer = self._device.allocate(size_bytes, torch.uint8)
            self._held.callback(self._device.free, buffer)
            self._buffers[key] = buffer
        return self._buffers[key]

    def _settle(self) -> None:
        # Nothing may be on its way into what is given back. What fails only now has nobody left to tell: every sample
        # has waited for its own copies.
        with suppress(DeviceError):
            self._device.synchronize()


def _fill_pages(size_bytes: int) -> torch.Tensor:
    try:
        buffer = allocate_own_pages(size_bytes)
    except RuntimeError as error:
        raise DeviceError(f"The host has no {size_bytes} bytes to copy from: {error}") from error
    # Memory that was never written has no pages of its own: all of it would be read from one page of zeros.
    return buffer.fill_(1)
