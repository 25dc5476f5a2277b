"""Devices by the names that people type."""

from __future__ import annotations

import math
import re

from runtime.devices.protocol import Device
from runtime.errors import InputError

_CUDA = re.compile(r"cuda(:[0-9]{1,3})?")


def open_device(name: str) -> Device:
    """Open ``cuda``, ``cuda:N``, ``cpu`` or ``emulated``.

    The last two have CPU tensors, real time, copies that last as long as they do, and no cap; ``cpu`` counts
    activations too, operator by operator.

    Raises:
        InputError: no device has that name.
        UnsupportedError: there is no such card here.
    """
    # torch is loaded only where a device is opened, and emulated devices start without what CUDA needs.
    if _CUDA.fullmatch(name):
        from runtime.devices.cuda import CudaDevice  # noqa: PLC0415

        return CudaDevice(name)
    if name in ("cpu", "emulated"):
        from runtime.devices.emulated import EmulatedDevice  # noqa: PLC0415
        from runtime.devices.link_rates import LinkRates, PageCache  # noqa: PLC0415

        rates = LinkRates(
            pinned_bytes_per_s=math.inf,
            pageable_bytes_per_s=math.inf,
            d2h_bytes_per_s=math.inf,
            disk_bytes_per_s=math.inf,
            page_cache=PageCache.ALL,
        )
        return EmulatedDevice(rates=rates, name=name, tracks_activations=name == "cpu")
    raise InputError(f"There is no device {name!r}: known are cuda, cuda:0 (or another index), cpu and emulated.")
