"""Looks at the device around each measurement, so that a disturbed one says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from autotune.measurements.records import Conditions
from autotune.telemetry.conditions import DeviceConditions
from autotune.telemetry.disturbances import find_disturbances

Measured = TypeVar("Measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was seen around one measurement; fields as those of the records."""

    conditions: Conditions
    disturbances: tuple[str, ...]
    measured_at: str


class Watch:
    """Reads the conditions of one device before and after what is measured there.

    Args:
        read: reads them.
        now: the time of day, for the records.
    """

    def __init__(
        self, read: Callable[[], DeviceConditions], now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._read = read
        self._now = now

    def around(self, measure: Callable[[], Measured]) -> tuple[Measured, Observation]:
        """Measure, and say what was seen."""
        before = self._read()
        measured = measure()
        after = self._read()
        seen = Observation(
            conditions=Conditions(
                sm_clock_mhz=after.sm_clock_mhz,
                memory_clock_mhz=after.memory_clock_mhz,
                temperature_c=after.temperature_c,
                throttle_reasons=after.throttle_reasons,
            ),
            disturbances=find_disturbances(before, after),
            measured_at=self.now(),
        )
        return measured, seen

    def now(self) -> str:
        """The time of day, ISO 8601 in UTC."""
        return self._now().isoformat(timespec="seconds")
