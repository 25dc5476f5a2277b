"""One reading of one device: every figure with its source, every missing one with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.telemetry.nvml_device import GpuProcess, PcieLink
from runtime.errors import InputError

_DESCRIPTIVE = frozenset({"sources", "unknown"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """What is known of a device at one instant.

    A figure that is None is named in ``unknown``, or does not apply: VRAM on a device that shares the host's memory,
    what is shared on one that does not, the MIG profile of a whole card, the context of a process that has none.

    Attributes:
        title, uuid, bus_id, compute_capability: which device it is.
        driver: version of the driver.
        mig_profile: such as ``1g.10gb``.
        is_unified: whether it shares the host's memory instead of having its own.
        total_bytes: memory of the device as the driver reports it.
        usable_bytes: ``total_bytes`` less what the driver reserves: what all processes together can have.
        free_bytes: what is left now.
        own_bytes: what this process holds, its context included.
        others_bytes: what all else holds.
        processes: other processes with memory on the device.
        context_bytes: what of ``own_bytes`` is not torch's allocator: context, kernel modules, libraries.
        link_current, link_max: PCIe link now and at the most. Notes for people: an idle card reports a low generation,
            so no rate may be derived from them; measure a copy.
        temperature_c, sm_clock_mhz, max_sm_clock_mhz, memory_clock_mhz, power_w: of the card, now.
        throttle_reasons: why the clocks are what they are (``autotune.telemetry.throttling``).
        utilization_ratio: share of the last sample period in which a kernel ran.
        shared_capacity_bytes: host memory that the device can share with this process, limits included.
        shared_available_bytes: what of it is available.
        sources: field -> where its figure comes from.
        unknown: field -> why it is None.
    """

    title: str | None
    uuid: str | None
    bus_id: str | None
    compute_capability: tuple[int, int] | None
    driver: str | None
    mig_profile: str | None
    is_unified: bool | None
    total_bytes: int | None
    usable_bytes: int | None
    free_bytes: int | None
    own_bytes: int | None
    others_bytes: int | None
    processes: tuple[GpuProcess, ...] | None
    context_bytes: int | None
    link_current: PcieLink | None
    link_max: PcieLink | None
    temperature_c: int | None
    sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    power_w: float | None
    throttle_reasons: tuple[str, ...] | None
    utilization_ratio: float | None
    shared_capacity_bytes: int | None
    shared_available_bytes: int | None
    sources: Mapping[str, str]
    unknown: Mapping[str, str]

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if name in _DESCRIPTIVE:
                continue
            value = getattr(self, name)
            if (value is not None) != (name in self.sources) or (value is not None and name in self.unknown):
                raise InputError(f"{name} is {value!r}: a figure has a source, a missing one has at most a reason")
            if name.endswith("_bytes") and value is not None and value < 0:
                raise InputError(f"{name} is {value}: no figure in bytes may be negative")
        if self.is_unified and self.total_bytes is not None:
            raise InputError("a device that shares the host's memory has no memory of its own: leave total_bytes None")
