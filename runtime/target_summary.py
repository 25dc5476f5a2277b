"""What was planned for: device, host and cap, each with how it was chosen, and figures with their sources."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runtime.document_checks import check_bytes
from runtime.errors import PlanError
from runtime.units import MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure that a prediction rests on: its value, the unit, and where it comes from."""

    value: float
    unit: str
    source: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0):
            raise PlanError(f"a figure in {self.unit} is {self.value}: it is finite and not negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSummary:
    """The device that was planned for.

    Attributes:
        name: preset name.
        title: what people call it.
        origin: how it was chosen, one sentence.
        memory_bytes, usable_vram_bytes: what the card has, and what one process can use of it.
        figures: every rate and constant that entered the prediction.
        measured: names of those figures that were measured, here or on a device of the same kind.
    """

    name: str
    title: str
    origin: str
    memory_bytes: int
    usable_vram_bytes: int
    figures: dict[str, Figure]
    measured: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if strange := sorted(set(self.measured) - set(self.figures)):
            raise PlanError(f"{self.name}: {', '.join(strange)} cannot be measured figures: there are none")
        if not 0 < self.usable_vram_bytes <= self.memory_bytes <= MAX_BYTES:
            raise PlanError(
                f"{self.name}: usable VRAM is {self.usable_vram_bytes} of {self.memory_bytes} bytes; it must be "
                "positive and at most all"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSummary:
    """The host memory that was planned with, and how it was chosen.

    Attributes:
        memory_bytes: all of it.
        origin: how it was chosen, one sentence.
        available_bytes: what the server can commit before it has loaded weights.
        pins: whether it may pin memory.
        page_cache_bytes: what the page cache keeps of mapped weights, where it was given.
        warnings: what the user should know about this memory.
    """

    memory_bytes: int
    origin: str
    available_bytes: int = 0
    pins: bool = True
    page_cache_bytes: int | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "available_bytes", "page_cache_bytes"):
            check_bytes(f"host {name}", getattr(self, name) or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapSummary:
    """The VRAM cap: what was asked for (None when nothing was), what was planned with, and why."""

    asked_bytes: int | None
    effective_bytes: int
    reason: str

    def __post_init__(self) -> None:
        check_bytes("cap", self.effective_bytes)
        check_bytes("cap that was asked for", self.asked_bytes or 0)
