"""Pinning with ``cudaHostRegister``: exact sizes, where torch's own pinned allocator rounds up to powers of two."""

from __future__ import annotations

import torch

from runtime.errors import DeviceError

# Every context sees the memory as pinned; torch registers with the same flag.
_PORTABLE = 1


class CudaPinDriver:
    """See ``PinDriver``.

    Args:
        device: a card whose errors are cleared.
    """

    def __init__(self, device: torch.device) -> None:
        self._scratch = torch.zeros(1, device=device)

    def register(self, address: int, size_bytes: int) -> None:
        """See ``PinDriver``."""
        self._check("cudaHostRegister", torch.cuda.cudart().cudaHostRegister(address, size_bytes, _PORTABLE))

    def unregister(self, address: int) -> None:
        """See ``PinDriver``."""
        self._check("cudaHostUnregister", torch.cuda.cudart().cudaHostUnregister(address))

    def clear_error(self) -> None:
        """See ``PinDriver``.

        torch does not offer ``cudaGetLastError``, which is what clears it. It calls that itself after every launch of a
        kernel, and raises what it finds: so one is launched here.
        """
        try:
            self._scratch.add_(1)
        except RuntimeError:
            return

    def _check(self, function: str, code: object) -> None:
        number = int(code)  # type: ignore[call-overload] # an enumeration of torch's binding
        if number != 0:
            raise DeviceError(
                f"{function} returned CUDA error {number} ({torch.cuda.cudart().cudaGetErrorString(code)})"
            )
