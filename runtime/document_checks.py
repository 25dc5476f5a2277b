"""Rules that sizes and times of every document keep."""

from __future__ import annotations

import math

from runtime.errors import PlanError
from runtime.units import MAX_BYTES


def check_bytes(name: str, size_bytes: int) -> None:
    """Refuse a size that nothing takes, in the name of ``name``."""
    if not 0 <= size_bytes <= 1024 * MAX_BYTES:
        raise PlanError(f"{name} is {size_bytes} bytes, which nothing takes")


def check_times(owner: str, **times_s: float) -> None:
    """Refuse times that are negative or not finite, in the name of ``owner``."""
    for name, time_s in times_s.items():
        if not (math.isfinite(time_s) and time_s >= 0):
            raise PlanError(f"{owner}: {name} is {time_s}; a time is finite and not negative")
