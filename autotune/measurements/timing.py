"""What repeated timings of one thing say: the median, and an interval that holds it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from runtime.errors import InputError

CONFIDENCE_RATIO = 0.99
"""How surely ``low_s`` and ``high_s`` enclose the median of all runs that could have been made. The timing protocol
looks at up to six intervals before it stops, so that together they hold with about 95 %."""


class Effort(StrEnum):
    """How long was measured; a figure of more effort serves where less was asked for."""

    QUICK = "quick"
    DEFAULT = "default"
    THOROUGH = "thorough"

    @property
    def rank(self) -> int:
        """Greater for more effort."""
        return list(Effort).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds of one thing that was timed several times.

    Attributes:
        median_s: the median of all samples.
        low_s, high_s: the order statistics between which the true median lies with ``CONFIDENCE_RATIO``, whatever the
            distribution (sign test; W. J. Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2); the least
            and the most where the samples are too few for that (seven or fewer).
        count: samples, after those for warm-up.
        is_settled: whether the interval became as small as the protocol asks for before its limits were reached.
    """

    median_s: float
    low_s: float
    high_s: float
    count: int
    is_settled: bool

    def __post_init__(self) -> None:
        times = (self.low_s, self.median_s, self.high_s)
        if not (all(math.isfinite(time) and time >= 0 for time in times) and list(times) == sorted(times)):
            raise InputError(f"a timing of {times} is none: low, median and high are finite, not negative, in order")
        if self.count < 1:
            raise InputError(f"a timing of {self.count} samples is none: it has at least one")

    @property
    def spread_ratio(self) -> float:
        """Width of the interval as a share of the median; 0 for things that take no time."""
        return (self.high_s - self.low_s) / self.median_s if self.median_s else 0.0


def summarize_samples(samples: Sequence[float], *, is_settled: bool) -> Timing:
    """The timing that ``samples``, in seconds, amount to.

    Raises:
        InputError: there are none, or one is no duration.
    """
    if not samples:
        raise InputError("nothing was timed: a timing needs at least one sample")
    ordered = sorted(samples)
    below = _count_below(len(ordered))
    return Timing(
        median_s=statistics.median(ordered),
        low_s=ordered[below],
        high_s=ordered[-1 - below],
        count=len(ordered),
        is_settled=is_settled,
    )


def _count_below(count: int) -> int:
    """How many of ``count`` samples lie outside the interval at either end."""
    # With ``left_out`` at each end it misses the median where at most so many of the samples lie on one side of it: the
    # lower tail of a binomial with probability 1/2, twice.
    left_out, tail = 0, 0.5**count
    while left_out + 1 <= (count - 1) // 2:
        tail += math.comb(count, left_out + 1) * 0.5**count
        if 2 * tail > 1 - CONFIDENCE_RATIO:
            break
        left_out += 1
    return left_out
