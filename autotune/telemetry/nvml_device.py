"""What NVML says about one card, or about one MIG instance of a card."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from autotune.telemetry.answers import Answer, Unknown
from autotune.telemetry.nvml_query import NvmlQuery, check_text, check_whole
from autotune.telemetry.throttling import name_reasons

_BUS_ID = re.compile(r"(?P<domain>[0-9a-f]{4,8}):(?P<rest>[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])")
_REASON_QUERIES = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
_SENSOR_GPU, _CLOCK_SM, _CLOCK_MEMORY = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """Memory of a device in bytes. ``reserved_bytes`` is what the driver keeps of the total; None where unknown."""

    total_bytes: int
    reserved_bytes: int | None
    free_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLink:
    """A link as the driver reports it. Idle cards report a low generation: it says nothing about a copy's rate."""

    generation: int
    lanes: int

    def describe(self) -> str:
        """``gen4 x16``."""
        return f"gen{self.generation} x{self.lanes}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process with memory on a device; ``used_bytes`` is None where the driver does not tell it."""

    pid: int
    used_bytes: int | None


class NvmlDevice:
    """Queries of one device.

    Args:
        query: of the library.
        handle: the library's own.
        whole: the card's handle, where ``handle`` is a MIG instance: clocks, temperature and link are the card's.
    """

    def __init__(self, query: NvmlQuery, handle: Any, whole: Any = None) -> None:  # noqa: ANN401 - opaque handles
        self._query = query
        self._handle = handle
        self._whole = handle if whole is None else whole

    def title(self) -> Answer[str]:
        """The driver's name for it; a MIG instance's ends in its profile."""
        return self._query.text("nvmlDeviceGetName", self._handle)

    def uuid(self) -> Answer[str]:
        """``GPU-...`` or ``MIG-...``."""
        return self._query.text("nvmlDeviceGetUUID", self._handle)

    def bus_id(self) -> Answer[str]:
        """PCI address of the card, as ``00000000:01:00.0`` in small letters."""
        info = self._query.ask("nvmlDeviceGetPciInfo", self._whole)
        if isinstance(info, Unknown):
            return info
        text = check_text(getattr(info, "busId", None), "nvmlDeviceGetPciInfo")
        return text if isinstance(text, Unknown) else normalise_bus_id(text)

    def memory(self) -> Answer[DeviceMemory]:
        """Total, reserved, free and used memory; version 2 of the query alone tells what is reserved."""
        name = "nvmlDeviceGetMemoryInfo"
        version = getattr(self._query.module, "nvmlMemory_v2", None)
        info = Unknown(reason="no version 2") if version is None else self._query.ask(name, self._handle, version)
        has_reserved = not isinstance(info, Unknown)
        if not has_reserved:
            info = self._query.ask(name, self._handle)
        if isinstance(info, Unknown):
            return info
        total, free, used = (check_whole(getattr(info, part, None), name) for part in ("total", "free", "used"))
        reserved = check_whole(getattr(info, "reserved", None), name) if has_reserved else None
        if isinstance(total, Unknown) or isinstance(free, Unknown) or isinstance(used, Unknown) or total == 0:
            return Unknown(reason=f"{name} reports no memory of the device")
        if isinstance(reserved, Unknown) or max(free, used, reserved or 0) > total:
            return Unknown(reason=f"{name} reports figures that exceed the total")
        return DeviceMemory(total_bytes=total, reserved_bytes=reserved, free_bytes=free, used_bytes=used)

    def compute_capability(self) -> Answer[tuple[int, int]]:
        """Major and minor."""
        name = "nvmlDeviceGetCudaComputeCapability"
        pair = self._query.read(name, tuple, self._whole)
        if isinstance(pair, Unknown):
            return pair
        if len(pair) != 2:
            return Unknown(reason=f"{name} reports no version")
        major, minor = (check_whole(part, name) for part in pair)
        if isinstance(major, Unknown) or isinstance(minor, Unknown) or major == 0:
            return Unknown(reason=f"{name} reports no version")
        return major, minor

    def link_current(self) -> Answer[PcieLink]:
        """The link in its present power state."""
        return self._link("nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth")

    def link_max(self) -> Answer[PcieLink]:
        """The most that card and slot agree on."""
        return self._link("nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth")

    def _link(self, generation_name: str, width_name: str) -> Answer[PcieLink]:
        generation = self._query.positive(generation_name, self._whole)
        lanes = self._query.positive(width_name, self._whole)
        if isinstance(generation, Unknown):
            return generation
        return lanes if isinstance(lanes, Unknown) else PcieLink(generation=generation, lanes=lanes)

    def temperature_c(self) -> Answer[int]:
        """Of the chip, in degrees Celsius."""
        return self._query.positive("nvmlDeviceGetTemperature", self._whole, _SENSOR_GPU)

    def sm_clock_mhz(self) -> Answer[int]:
        """Of the multiprocessors, now."""
        return self._query.positive("nvmlDeviceGetClockInfo", self._whole, _CLOCK_SM)

    def max_sm_clock_mhz(self) -> Answer[int]:
        """Of the multiprocessors, at the most."""
        return self._query.positive("nvmlDeviceGetMaxClockInfo", self._whole, _CLOCK_SM)

    def memory_clock_mhz(self) -> Answer[int]:
        """Of the memory, now."""
        return self._query.positive("nvmlDeviceGetClockInfo", self._whole, _CLOCK_MEMORY)

    def throttle_reasons(self) -> Answer[tuple[str, ...]]:
        """Why clocks are what they are; the query has had two names."""
        # The module may know the newer name while the driver does not.
        names = [name for name in _REASON_QUERIES if hasattr(self._query.module, name)] or _REASON_QUERIES[:1]
        bits = self._query.whole(names[0], self._whole)
        if isinstance(bits, Unknown) and len(names) > 1:
            bits = self._query.whole(names[1], self._whole)
        return bits if isinstance(bits, Unknown) else name_reasons(bits)

    def utilization_ratio(self) -> Answer[float]:
        """Share of the last sample period in which a kernel ran."""
        rates = self._query.ask("nvmlDeviceGetUtilizationRates", self._handle)
        percent = check_whole(rates if isinstance(rates, Unknown) else getattr(rates, "gpu", None), "utilisation")
        return percent if isinstance(percent, Unknown) else percent / 100

    def power_w(self) -> Answer[float]:
        """What the card draws."""
        milliwatts = self._query.positive("nvmlDeviceGetPowerUsage", self._whole)
        return milliwatts if isinstance(milliwatts, Unknown) else milliwatts / 1000

    def compute_processes(self) -> Answer[tuple[GpuProcess, ...]]:
        """Processes with a CUDA context, this one included."""
        return self._processes("nvmlDeviceGetComputeRunningProcesses")

    def graphics_processes(self) -> Answer[tuple[GpuProcess, ...]]:
        """Processes that draw."""
        return self._processes("nvmlDeviceGetGraphicsRunningProcesses")

    def _processes(self, name: str) -> Answer[tuple[GpuProcess, ...]]:
        return self._query.read(name, _read_processes, self._handle)

    def instances(self) -> Answer[tuple[NvmlDevice, ...] | None]:
        """MIG instances of the card; None where the card is not in MIG mode."""
        is_on = self._query.read("nvmlDeviceGetMigMode", lambda modes: bool(modes[0]), self._handle)
        if isinstance(is_on, Unknown):
            return None if is_on.is_unsupported else is_on
        if not is_on:
            return None
        count = self._query.whole("nvmlDeviceGetMaxMigDeviceCount", self._handle)
        if isinstance(count, Unknown):
            return count
        handles = (self._query.ask("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, at) for at in range(count))
        # A place without an instance is "not found".
        return tuple(
            NvmlDevice(self._query, handle, self._handle) for handle in handles if not isinstance(handle, Unknown)
        )


def _read_processes(listed: Iterable[Any]) -> tuple[GpuProcess, ...]:
    found = []
    for process in listed:
        used = check_whole(getattr(process, "usedGpuMemory", None), "the process list")
        # In containers some drivers list the process and report 0 bytes (open-gpu-kernel-modules #614).
        used_bytes = None if isinstance(used, Unknown) or used == 0 else used
        found.append(GpuProcess(pid=int(process.pid), used_bytes=used_bytes))
    return tuple(found)


def normalise_bus_id(text: str) -> Answer[str]:
    """A PCI address with eight digits of domain and in small letters, as every tool may write it otherwise."""
    match = _BUS_ID.fullmatch(text.strip().lower())
    if match is None:
        return Unknown(reason=f"{text!r} is no PCI address")
    return f"{int(match['domain'], 16):08x}:{match['rest']}"
