"""Device memory of a CUDA card: buffers from one stream's pool, with figures of torch's allocator."""

from __future__ import annotations

import torch

from runtime.devices.emulated_memory import MemoryPool
from runtime.devices.protocol import MemoryKind, MemoryUse
from runtime.errors import DeviceError, DeviceMemoryError


class CudaMemory:
    """What one device has allocated, counted exactly, and what the allocator says of all the rest of the process.

    Activations are not counted one by one. ``live`` is what was requested of the allocator beyond this device's buffers
    and what the process held before; ``peak`` is the peak of everything less the peak of the buffers. The two need not
    fall together, so activations have reached at least that much, and more where buffers were fewer while they peaked.

    Args:
        device: the card.
        stream: whose pool the buffers come from.
    """

    def __init__(self, device: torch.device, stream: torch.cuda.Stream) -> None:
        self._device = device
        self._stream = stream
        self._own = MemoryPool(None)
        self._buffers: dict[int, tuple[torch.Tensor, MemoryKind]] = {}
        self._foreign_bytes = self._requested_bytes("current")

    def allocate(self, numel: int, dtype: torch.dtype, kind: MemoryKind) -> torch.Tensor:
        """See ``Device``."""
        size_bytes = numel * int(dtype.itemsize)
        try:
            # A tensor of inference mode could not become a parameter, nor be written outside that mode.
            with torch.cuda.stream(self._stream), torch.inference_mode(False):
                buffer = torch.empty(numel, dtype=dtype, device=self._device)
        except torch.OutOfMemoryError as error:
            free_bytes, total_bytes = torch.cuda.mem_get_info(self._device)
            raise DeviceMemoryError(
                f"Device memory ran out: {size_bytes} bytes of {kind} were asked for, {free_bytes} of {total_bytes} "
                f"are free, {sum(self._own.use().live_bytes.values())} are in use here. Keep fewer layers there."
            ) from error
        self._own.take(size_bytes, kind)
        self._buffers[id(buffer)] = (buffer, kind)
        return buffer

    def free(self, buffer: torch.Tensor) -> None:
        """See ``Device``."""
        if id(buffer) not in self._buffers:
            raise DeviceError("Only what allocate returned can be freed, and only once.")
        _, kind = self._buffers.pop(id(buffer))
        self._own.give(int(buffer.nbytes), kind)

    def free_all(self) -> None:
        """Give every buffer back."""
        for buffer, _ in list(self._buffers.values()):
            self.free(buffer)

    def use(self) -> MemoryUse:
        """See the class."""
        own = self._own.use()
        live_bytes = self._requested_bytes("current") - self._foreign_bytes
        peak_bytes = self._requested_bytes("peak") - self._foreign_bytes
        activations = MemoryKind.ACTIVATIONS
        rest_bytes = max(live_bytes - sum(own.live_bytes.values()), 0)
        rest_peak_bytes = max(peak_bytes - own.peak_total_bytes, rest_bytes)
        return MemoryUse(
            live_bytes={**own.live_bytes, activations: rest_bytes},
            peak_bytes={**own.peak_bytes, activations: rest_peak_bytes},
            peak_total_bytes=max(peak_bytes, own.peak_total_bytes),
            reserved_bytes=int(torch.cuda.max_memory_reserved(self._device)),
            capacity_bytes=int(torch.cuda.mem_get_info(self._device)[1]),
        )

    def reset_peaks(self) -> None:
        """See ``Device``."""
        self._own.reset_peaks()
        torch.cuda.reset_peak_memory_stats(self._device)

    def _requested_bytes(self, which: str) -> int:
        # Allocated bytes are rounded up to 512; requested ones are what tensors really have.
        return int(torch.cuda.memory_stats(self._device).get(f"requested_bytes.all.{which}", 0))
