"""How a plan is executed: how often, and on which kind of emulated device. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from runtime.errors import InputError

Clock = Literal["real", "virtual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How many requests are executed.

    Attributes:
        warmup: requests that do not count, the first one after load among them: at least one.
        repeats: requests that count, at least one.
    """

    warmup: int = 1
    repeats: int = 3

    def __post_init__(self) -> None:
        if min(self.warmup, self.repeats) < 1:
            raise InputError(
                f"{self.warmup} requests for warm-up and {self.repeats} that count: at least one of each, because the "
                "first one after load differs from all others"
            )

    @property
    def total(self) -> int:
        """All of them."""
        return self.warmup + self.repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """How a device is emulated.

    Attributes:
        clock: ``real`` takes time, ``virtual`` computes it.
        time_scale: wall seconds per emulated second on the real clock; None for requests of about five seconds, never
            slower than 1:1.
        capacity_bytes: device memory; None for the plan's cap.
    """

    clock: Clock = "real"
    time_scale: float | None = None
    capacity_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.time_scale is None:
            return
        if self.clock == "virtual":
            raise InputError("--time-scale is for the real clock: the virtual one takes no time, so leave it out")
        if not (math.isfinite(self.time_scale) and 1e-6 <= self.time_scale <= 1e3):
            raise InputError(f"--time-scale is {self.time_scale}: wall seconds per emulated one, 0.000001 to 1000")
