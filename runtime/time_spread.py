"""One time in several requests, and the rule for times in documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from runtime.errors import InputError


def check_times(owner: str, *times_s: float) -> None:
    """Refuse a time of ``owner`` that is negative or not finite.

    Raises:
        InputError: one is.
    """
    for time_s in times_s:
        if not (math.isfinite(time_s) and time_s >= 0):
            raise InputError(f"{owner}: {time_s} s is no time, which is finite and not negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One time in several requests: the median, the least, the most, and of how many.

    ``p95_s`` is what 95 % of them stay within, between two of them by linear interpolation; None in documents that do
    not tell it.
    """

    median_s: float
    low_s: float
    high_s: float
    count: int
    p95_s: float | None = None

    def __post_init__(self) -> None:
        check_times("spread", self.low_s, self.median_s, self.high_s)
        if self.p95_s is not None and not self.median_s <= self.p95_s <= self.high_s:
            raise InputError(
                f"p95 is {self.p95_s} s: it lies between the median, {self.median_s} s, and the most, {self.high_s} s"
            )
        if self.count < 1 or not self.low_s <= self.median_s <= self.high_s:
            raise InputError(
                f"a spread of {self.count} from {self.low_s} over {self.median_s} to {self.high_s} s: there is at "
                "least one, and the median lies between"
            )

    @classmethod
    def over(cls, times_s: Sequence[float]) -> Spread:
        """The spread of one time or more."""
        ordered = sorted(times_s)
        place = 0.95 * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        p95_s = ordered[below] + (ordered[above] - ordered[below]) * (place - below)
        middle_s = median(ordered)
        return cls(
            median_s=middle_s,
            low_s=ordered[0],
            high_s=ordered[-1],
            count=len(ordered),
            # Rounding may carry it over an end by a hair.
            p95_s=min(max(p95_s, middle_s), ordered[-1]),
        )
