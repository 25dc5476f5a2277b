"""Reads one card: asks NVML, the CUDA runtime where it is open, and the host where memory is shared."""

from __future__ import annotations

import re
from typing import Any

from autotune.host_memory import HostReading
from autotune.telemetry.answers import Answer, Unknown, or_none
from autotune.telemetry.cards import Card
from autotune.telemetry.cuda_runtime import CudaIdentity
from autotune.telemetry.nvml_device import DeviceMemory
from autotune.telemetry.processes import OwnProcess, split_processes
from autotune.telemetry.reading import GpuReading

# Parts whose GPU and CPU share one memory, by the names that NVIDIA's drivers give them: Jetson modules and DGX Spark.
_INTEGRATED = re.compile(r"\b(Jetson|Tegra|Xavier|Orin|Thor|GB10)\b|\bnvgpu\b", re.IGNORECASE)
_MIG_PROFILE = re.compile(r"\bMIG (?P<profile>\S+)$")
_VRAM = ("total_bytes", "usable_bytes", "free_bytes", "own_bytes", "others_bytes", "context_bytes")
_STATE = (
    "temperature_c",
    "sm_clock_mhz",
    "max_sm_clock_mhz",
    "memory_clock_mhz",
    "power_w",
    "throttle_reasons",
    "utilization_ratio",
)
_NO_RESERVE = Unknown(reason="this driver does not tell what it reserves of the total")
_SHARED = "the device shares the host's memory"


class _Figures:
    """Values, sources and reasons of a reading while it is put together."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.unknown: dict[str, str] = {}

    def take(self, name: str, answer: Answer[Any], source: str) -> None:
        """Keep a value with its source, or its absence with the reason."""
        self.values[name] = or_none(answer)
        if isinstance(answer, Unknown):
            self.unknown[name] = answer.reason
        else:
            self.sources[name] = source

    def skip(self, *names: str) -> None:
        """Figures that this device does not have."""
        self.values |= dict.fromkeys(names)

    def build(self) -> GpuReading:
        """The reading."""
        return GpuReading(**self.values, sources=dict(self.sources), unknown=dict(self.unknown))


def read_card(
    card: Card, *, driver: Answer[str], own: OwnProcess, host: HostReading, identity: CudaIdentity | None = None
) -> GpuReading:
    """Everything that is known of ``card`` now.

    Args:
        card: what to read.
        driver: its version.
        own: this process.
        host: memory of the machine, for a card that shares it.
        identity: the card in the CUDA runtime, where this process has opened it.
    """
    figures, device = _Figures(), card.device
    memory = device.memory()
    for name, value in (("title", card.title), ("uuid", card.uuid), ("bus_id", card.bus_id)):
        figures.take(name, Unknown(reason="the driver does not tell it") if value is None else value, "NVML")
    figures.take("driver", driver, "NVML")
    figures.take("compute_capability", device.compute_capability(), "NVML")
    match = _MIG_PROFILE.search(card.title or "")
    if match is None:
        figures.skip("mig_profile")
    else:
        figures.take("mig_profile", match["profile"], "the instance's name, NVML")
    _take_kind(figures, card, memory, identity)
    if figures.values["is_unified"]:
        _take_shared_memory(figures, host)
    else:
        figures.skip("shared_capacity_bytes", "shared_available_bytes")
        _take_memory(figures, memory, identity)
    _take_processes(figures, card, memory, own, identity)
    _take_links(figures, card)
    for name in _STATE:
        figures.take(name, getattr(device, name)(), "NVML")
    return figures.build()


def _take_kind(figures: _Figures, card: Card, memory: Answer[DeviceMemory], identity: CudaIdentity | None) -> None:
    """Whether memory is shared: the CUDA runtime knows, the name may tell, and a plain figure of VRAM says no."""
    name = "is_unified"
    if identity is not None and identity.is_integrated is not None:
        figures.take(name, identity.is_integrated, "the CUDA runtime's property 'integrated'")
    elif _INTEGRATED.search(card.title or ""):
        figures.take(name, True, "the name of the device")
    elif isinstance(memory, Unknown):
        reason = f"the driver tells no memory of the device ({memory.reason}), and CUDA is not open to ask"
        figures.take(name, Unknown(reason=reason), "")
    else:
        figures.take(name, False, "NVML reports memory of the device's own")


def _take_shared_memory(figures: _Figures, host: HostReading) -> None:
    figures.skip(*_VRAM)
    limits = [figure for figure in (host.total_bytes, host.limit_bytes) if figure is not None]
    unknown = Unknown(reason="how much memory the system has is unknown")
    source = f"/proc/meminfo and the cgroups: {_SHARED}"
    figures.take("shared_capacity_bytes", min(limits) if limits else unknown, source)
    available = unknown if host.available_bytes is None else host.safe_available_bytes
    figures.take("shared_available_bytes", available, source)


def _take_memory(figures: _Figures, memory: Answer[DeviceMemory], identity: CudaIdentity | None) -> None:
    for name in ("total_bytes", "free_bytes"):
        figures.take(name, memory if isinstance(memory, Unknown) else getattr(memory, name), "NVML")
    name = "usable_bytes"
    if identity is not None:
        figures.take(name, identity.total_bytes, "the CUDA runtime's total")
    elif isinstance(memory, Unknown):
        figures.take(name, memory, "")
    elif memory.reserved_bytes is None:
        figures.take(name, _NO_RESERVE, "")
    else:
        figures.take(name, memory.total_bytes - memory.reserved_bytes, "NVML: the total less what the driver reserves")


def _take_processes(
    figures: _Figures, card: Card, memory: Answer[DeviceMemory], own: OwnProcess, identity: CudaIdentity | None
) -> None:
    compute, graphics = card.device.compute_processes(), card.device.graphics_processes()
    if isinstance(compute, Unknown):
        figures.take("processes", compute, "")
        if not figures.values["is_unified"]:
            for name in ("own_bytes", "others_bytes", "context_bytes"):
                figures.take(name, compute, "")
        return
    drawing = () if isinstance(graphics, Unknown) else graphics
    split = split_processes((*drawing, *compute), own)
    figures.take("processes", split.others, "NVML")
    if figures.values["is_unified"]:
        return
    figures.take("own_bytes", split.own_bytes, "NVML" if own.has_context else "this process has opened no device")
    if isinstance(memory, Unknown):
        figures.take("others_bytes", memory, "")
    elif isinstance(split.own_bytes, Unknown):
        figures.take("others_bytes", split.own_bytes, "")
    elif memory.reserved_bytes is None:
        # The older query counts the driver's reserve as used (nvml.h: nvmlMemory_t), which would be taken for others'.
        figures.take("others_bytes", _NO_RESERVE, "")
    else:
        others = max(0, memory.used_bytes - split.own_bytes)
        figures.take("others_bytes", others, "NVML: what is in use less what this process has")
    _take_context(figures, split.own_bytes, identity)


def _take_context(figures: _Figures, own_bytes: Answer[int], identity: CudaIdentity | None) -> None:
    if identity is None:
        figures.skip("context_bytes")
    elif isinstance(own_bytes, Unknown):
        figures.take("context_bytes", own_bytes, "")
    else:
        context = max(0, own_bytes - identity.reserved_bytes)
        figures.take("context_bytes", context, "NVML's figure of this process less torch's reserved memory")


def _take_links(figures: _Figures, card: Card) -> None:
    if figures.values["is_unified"]:
        # Integrated parts report success with generation 1 and one lane (cosmos-framework #22, nvtop #499).
        for name in ("link_current", "link_max"):
            figures.take(name, Unknown(reason=f"{_SHARED}: there is no PCIe link to it"), "")
        return
    figures.take("link_current", card.device.link_current(), "NVML; in the present power state")
    figures.take("link_max", card.device.link_max(), "NVML")
