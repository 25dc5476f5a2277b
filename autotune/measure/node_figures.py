"""Puts what was read of a node into figures with their sources, and what could not be read into reasons. Pure."""

from __future__ import annotations

from autotune.measure.node_readings import NodeReadings
from autotune.measure.pin_cost import CeilingKind, PinCost
from autotune.telemetry.answers import Answer, Unknown
from autotune.telemetry.reading import GpuReading
from runtime.devices.protocol import MemoryUse
from runtime.target_summary import Figure
from runtime.units import format_gib

_GPU_FIELDS = {
    "vram_total_bytes": "total_bytes",
    "vram_usable_bytes": "usable_bytes",
    "vram_free_bytes": "free_bytes",
    "vram_used_by_others_bytes": "others_bytes",
    "context_bytes": "context_bytes",
}
_PIN_CEILINGS = ("pin_ceiling_bytes", "pin_call_ceiling_bytes")
_PIN_COSTS = ("pin_s_per_byte", "pin_locked_ratio", "pin_resident_ratio")
EMULATED_PINNING = "emulated"
"""How a device without a driver says that it pins."""

_NO_PINS = "nothing is pinned for a device that computes on the processor, in the host's memory"

_SHARED_FIELDS = ("shared_capacity_bytes", "shared_available_bytes")


class FigureSheet:
    """Figures of a node by name while they are put together.

    Attributes:
        figures: known ones.
        unknown: the others, each with the reason.
    """

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {}
        self.unknown: dict[str, str] = {}

    def take(self, name: str, answer: Answer[Figure]) -> None:
        """Keep a figure, or why there is none."""
        if isinstance(answer, Unknown):
            self.unknown[name] = answer.reason
        else:
            self.figures[name] = answer

    def take_value(self, name: str, value: float | None, unit: str, source: str, why_not: str) -> None:
        """Keep a value with its source; ``why_not`` where it is None."""
        self.take(name, Unknown(reason=why_not) if value is None else Figure(value=value, unit=unit, source=source))


def take_device_memory(sheet: FigureSheet, readings: NodeReadings, memory: MemoryUse) -> None:
    """VRAM and context.

    Args:
        sheet: where figures go.
        readings: of the node; without a card, ``memory`` is all there is.
        memory: of the device, before anything was measured on it.
    """
    gpu = readings.gpu
    if isinstance(gpu, Unknown):
        _take_capacity(sheet, memory, gpu.reason)
        return
    for name, field in _GPU_FIELDS.items():
        _take_field(sheet, name, gpu, field)
    if gpu.is_unified:
        for field in _SHARED_FIELDS:
            _take_field(sheet, field, gpu, field)
    if "context_bytes" in sheet.unknown:
        _take_fall_of_free_memory(sheet, readings, gpu, memory)


def take_host(sheet: FigureSheet, readings: NodeReadings) -> None:
    """Memory of the host and its limits."""
    host = readings.host
    files, sources = "; ".join(host.unknown), "; ".join(host.sources)
    sheet.take_value("host_total_bytes", host.total_bytes, "bytes", "/proc/meminfo", files or "the system does not say")
    available_bytes = None if host.unknown else host.available_bytes
    sheet.take_value("host_available_bytes", available_bytes, "bytes", sources, files or "the system does not say")
    unmet = "no cgroup limits memory" if host.has_cgroups else "no cgroup was found"
    binding = "" if host.binding is None else host.binding.describe()
    sheet.take_value("host_limit_bytes", host.limit_bytes, "bytes", binding, files or unmet)
    lock = host.memlock
    limit_bytes = lock.soft_bytes if lock.binds else None
    sheet.take_value("host_memlock_bytes", limit_bytes, "bytes", lock.describe(), f"no limit binds: {lock.describe()}")


def take_pins(sheet: FigureSheet, cost: Answer[PinCost]) -> None:
    """What pins cost, and where they end."""
    if isinstance(cost, Unknown):
        sheet.unknown |= dict.fromkeys((*_PIN_CEILINGS, *_PIN_COSTS), cost.reason)
        return
    tried = f"{len(cost.requests)} requests, {format_gib(cost.obtained_bytes)} in all, through {cost.pinning}"
    source, untold = f"measured: {tried}", "the system does not tell"
    is_emulated = cost.pinning == EMULATED_PINNING
    unmet = _NO_PINS if is_emulated else f"none was met up to {format_gib(cost.obtained_bytes)}; more was not tried"
    ceilings = {ceiling.kind: ceiling.granted_bytes for ceiling in cost.ceilings}
    sheet.take_value("pin_ceiling_bytes", ceilings.get(CeilingKind.TOTAL), "bytes", source, unmet)
    sheet.take_value("pin_call_ceiling_bytes", ceilings.get(CeilingKind.SINGLE_CALL), "bytes", source, unmet)
    if is_emulated:
        sheet.unknown |= dict.fromkeys(_PIN_COSTS, _NO_PINS)
        return
    sheet.take_value("pin_s_per_byte", cost.s_per_byte, "s/byte", source, "every pin was refused")
    sheet.take_value("pin_locked_ratio", _not_negative(cost.locked_per_byte), "ratio", source, untold)
    sheet.take_value("pin_resident_ratio", _not_negative(cost.extra_resident_per_byte), "ratio", source, untold)


def _take_field(sheet: FigureSheet, name: str, gpu: GpuReading, field: str) -> None:
    reason = "the device shares the host's memory" if gpu.is_unified else "the driver does not tell it"
    value: int | None = getattr(gpu, field)
    sheet.take_value(name, value, "bytes", gpu.sources.get(field, ""), gpu.unknown.get(field, reason))


def _take_capacity(sheet: FigureSheet, memory: MemoryUse, why_no_card: str) -> None:
    capacity_bytes, live_bytes = memory.capacity_bytes, sum(memory.live_bytes.values())
    source = f"the device itself; {why_no_card}"
    for name in ("vram_total_bytes", "vram_usable_bytes"):
        sheet.take_value(name, capacity_bytes, "bytes", source, f"no limit of its own: {why_no_card}")
    # What others hold is unknown without a driver, so that on a card less may be free; a device without one is ours.
    sheet.unknown["vram_used_by_others_bytes"] = sheet.unknown["context_bytes"] = why_no_card
    free_bytes = None if capacity_bytes is None else max(0, capacity_bytes - live_bytes)
    is_alone = memory.reserved_bytes is None
    sheet.take_value("vram_free_bytes", free_bytes if is_alone else None, "bytes", source, why_no_card)


def _take_fall_of_free_memory(sheet: FigureSheet, readings: NodeReadings, gpu: GpuReading, memory: MemoryUse) -> None:
    """The context as what opening the device took, where the driver does not tell it of this process."""
    before_bytes, after_bytes = readings.free_before_bytes, gpu.free_bytes
    if before_bytes is None or after_bytes is None:
        return
    fall_bytes = before_bytes - after_bytes - (memory.reserved_bytes or 0)
    if fall_bytes > 0:
        reason = sheet.unknown.pop("context_bytes")
        source = f"measured: fall of free memory when the device was opened, less what torch reserved ({reason})"
        sheet.figures["context_bytes"] = Figure(value=fall_bytes, unit="bytes", source=source)


def _not_negative(ratio: float | None) -> float | None:
    # Other threads free memory, too: the growth of a process can come out below nothing.
    return None if ratio is None else max(0.0, ratio)
