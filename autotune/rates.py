"""How fast one device is, as the cost model uses it: effective rates, each from a datasheet, a measurement or a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.hardware import DevicePreset
from autotune.work import Work
from runtime.errors import InputError
from runtime.interference import NO_INTERFERENCE, Interference

# A kilobyte or a thousand operations a second: below that a figure is a slip, and times stop being numbers.
_LEAST_RATE = 1e3

DEFAULT_DISK_BYTES_PER_S = 3.4e9
"""What one NVMe drive gave while mapped weights of MiniMax-H3 were read again in every step (sglang PR #35816, PM129 of
the public measurements: 49 GiB a step, bound by the drive)."""

DEFAULT_DISK_SOURCE = "one NVMe drive, sglang PR #35816 (PM129)"
"""The same in short, for documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates that large operations reach on one device and its link.

    Attributes:
        pinned_bytes_per_s: host-to-device copies from pinned memory.
        pageable_bytes_per_s: host-to-device copies from pageable memory. A courier's read from the page cache takes as
            long: both are the copy of one thread into a pinned buffer.
        disk_bytes_per_s: reads of mapped weights from disk.
        d2h_bytes_per_s: device-to-host copies into pinned memory.
        matmul_flops_per_s: matrix products, per dtype.
        attention_flops_per_s: fused attention, per dtype.
        memory_bytes_per_s: device memory, read plus written.
        interference: how much copies to the device and compute slow each other down; none where it was not measured.
        exchange_bytes_per_s: what one rank of tensor parallelism sends, and receives at the same time; None for a card
            that works alone.
    """

    pinned_bytes_per_s: float
    pageable_bytes_per_s: float
    disk_bytes_per_s: float = DEFAULT_DISK_BYTES_PER_S
    d2h_bytes_per_s: float
    matmul_flops_per_s: Mapping[str, float]
    attention_flops_per_s: Mapping[str, float]
    memory_bytes_per_s: float
    interference: Interference = NO_INTERFERENCE
    exchange_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        rates = {
            "pinned_bytes_per_s": self.pinned_bytes_per_s,
            "pageable_bytes_per_s": self.pageable_bytes_per_s,
            "disk_bytes_per_s": self.disk_bytes_per_s,
            "d2h_bytes_per_s": self.d2h_bytes_per_s,
            "memory_bytes_per_s": self.memory_bytes_per_s,
            **{f"matmul_flops_per_s[{dtype}]": rate for dtype, rate in self.matmul_flops_per_s.items()},
            **{f"attention_flops_per_s[{dtype}]": rate for dtype, rate in self.attention_flops_per_s.items()},
        }
        if self.exchange_bytes_per_s is not None:
            rates["exchange_bytes_per_s"] = self.exchange_bytes_per_s
        for name, rate in rates.items():
            if not (math.isfinite(rate) and rate >= _LEAST_RATE):
                raise InputError(f"{name} is {rate}: a rate must be finite and at least {_LEAST_RATE:g} per second")
        if set(self.matmul_flops_per_s) != set(self.attention_flops_per_s) or not self.matmul_flops_per_s:
            raise InputError("matrix products and attention need rates for the same dtypes, at least one")

    def estimate_work_s(self, work: Work, dtype: str) -> float:
        """Seconds for ``work`` on this device, matrix products in ``dtype``.

        Matrix products take the longer of their arithmetic and their memory traffic (roofline); fused attention its
        arithmetic; everything else its memory traffic, as if no operation were fused with another. What was measured
        takes as long as it did. Ranks exchange what they have computed before they go on.

        Raises:
            InputError: the device has no rate for ``dtype``, or ranks exchange and nobody said how fast.
        """
        if dtype not in self.matmul_flops_per_s:
            known = ", ".join(sorted(self.matmul_flops_per_s))
            raise InputError(f"no matrix rate is known for {dtype!r} on this device: it has {known}")
        matmul_s = max(work.matmul_flops / self.matmul_flops_per_s[dtype], work.matmul_bytes / self.memory_bytes_per_s)
        attention_s = work.attention_flops / self.attention_flops_per_s[dtype]
        alone_s = matmul_s + attention_s + work.other_bytes / self.memory_bytes_per_s + work.measured_s
        if not work.exchange_bytes:
            return alone_s
        if self.exchange_bytes_per_s is None:
            raise InputError("ranks exchange results, and no exchange_bytes_per_s is given: share the rates first")
        return alone_s + work.exchange_bytes / self.exchange_bytes_per_s


def derive_rates(device: DevicePreset) -> Rates:
    """Datasheet rates of ``device`` times its efficiency ratios."""
    dtypes = tuple(device.matrix_flops_per_s)
    return Rates(
        pinned_bytes_per_s=device.pinned_bytes_per_s,
        pageable_bytes_per_s=device.pageable_bytes_per_s,
        d2h_bytes_per_s=device.d2h_pinned_bytes_per_s,
        matmul_flops_per_s={dtype: device.effective_matmul_flops_per_s(dtype) for dtype in dtypes},
        attention_flops_per_s={dtype: device.effective_attention_flops_per_s(dtype) for dtype in dtypes},
        memory_bytes_per_s=device.memory_bytes_per_s * device.bandwidth_ratio,
    )
