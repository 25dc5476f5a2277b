"""Copies and compute that slow each other down: how long both take, and the time of a lane that is slowed.

=====  ==================================================================================================
``d``  seconds of compute at full speed
``b``  seconds that the copy engine is still busy when that compute begins, at full speed (its *backlog*)
``S``  ``compute_slowdown_ratio``: compute takes ``1 + S`` times as long while a copy is on its way
``T``  ``copy_slowdown_ratio``: copies take ``1 + T`` times as long while compute runs
``o``  how long both are under way together: ``min(d * (1 + S), b * (1 + T))``, until one of them ends
=====  ==================================================================================================

In ``o`` seconds compute gets ``o / (1 + S)`` done and copies ``o / (1 + T)``; after them the other goes on at full
speed. So compute takes ``d + o * S / (1 + S)``, and copies end ``o * T / (1 + T)`` later than they would have. A copy
that would land after ``x`` seconds lands after ``x * (1 + T)`` within the overlap, and that much later after it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, fields
from typing import NamedTuple

from runtime.errors import InputError

MOST_SLOWDOWN_RATIO = 10.0
"""What is larger is refused: one of the two then hardly runs at all beside the other, which no schedule is made for."""


def check_slowdown(name: str, ratio: float) -> None:
    """Refuse what is no slowdown.

    Raises:
        InputError: ``ratio`` is negative, infinite, no number, or too large to be meant.
    """
    if not (math.isfinite(ratio) and 0 <= ratio <= MOST_SLOWDOWN_RATIO):
        raise InputError(
            f"{name} is {ratio}: a slowdown is a share from 0 (none) to {MOST_SLOWDOWN_RATIO:g} (takes "
            f"{MOST_SLOWDOWN_RATIO + 1:g} times as long)"
        )


class Meeting(NamedTuple):
    """What becomes of one run of compute and the copies that are on their way when it begins.

    Attributes:
        overlap_s: how long both are under way.
        compute_s: how long the compute takes.
        delay_s: how much later the copies end.
    """

    overlap_s: float
    compute_s: float
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """How much copies to the device and compute slow each other down; neither by default.

    Attributes:
        compute_slowdown_ratio: by this share of itself compute takes longer while a copy is on its way.
        copy_slowdown_ratio: by this share of itself a copy takes longer while compute runs.
    """

    compute_slowdown_ratio: float = 0.0
    copy_slowdown_ratio: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            check_slowdown(field.name, getattr(self, field.name))

    @property
    def is_none(self) -> bool:
        """Whether neither slows the other."""
        return not self.compute_slowdown_ratio and not self.copy_slowdown_ratio

    @property
    def compute_loss_ratio(self) -> float:
        """The share of the time beside copies that compute loses."""
        return self.compute_slowdown_ratio / (1 + self.compute_slowdown_ratio)

    @property
    def copy_loss_ratio(self) -> float:
        """The share of the time beside compute that copies lose."""
        return self.copy_slowdown_ratio / (1 + self.copy_slowdown_ratio)

    def meet(self, compute_s: float, backlog_s: float) -> Meeting:
        """Compute of ``compute_s`` begins while copies of ``backlog_s``, one right after the other, are on their way.

        Both are seconds at full speed, not negative.
        """
        overlap_s = min(compute_s * (1 + self.compute_slowdown_ratio), backlog_s * (1 + self.copy_slowdown_ratio))
        return Meeting(
            overlap_s=overlap_s,
            compute_s=compute_s + overlap_s * self.compute_loss_ratio,
            delay_s=overlap_s * self.copy_loss_ratio,
        )

    def least_s(self, compute_s: float, copy_s: float) -> float:
        """The least time in which compute and copies of these seconds at full speed can both be done.

        An overlap of ``o`` takes at least ``compute_s + o * S / (1 + S)``, ``copy_s + o * T / (1 + T)``, and the sum
        of both less ``o``. The largest of the three is least at either end: with as much overlap as there can be, or
        with none, where an overlap costs more than it hides.
        """
        met = self.meet(compute_s, copy_s)
        return min(max(met.compute_s, copy_s + met.delay_s), compute_s + copy_s)


NO_INTERFERENCE = Interference()
"""Copies and compute that do not feel each other."""


class LaneTime:
    """The own time of a lane against the device's clock: it advances by what the lane gets done.

    While nothing slows the lane both advance alike. Planned in its own time, what a lane does never has to be planned
    anew when something slows it.

    Args:
        own_s, at_s: one instant on both.
    """

    __slots__ = ("_at_s", "_own_s")

    def __init__(self, own_s: float = 0.0, at_s: float = 0.0) -> None:
        self._own_s, self._at_s = [own_s], [at_s]

    def pass_slowly(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """From one instant to the next the lane gets less done than time passes.

        Args:
            begin, end: each in the lane's own time, then on the device's clock; the first is not before the end of the
                last slow stretch.
        """
        for own_s, at_s in (begin, end):
            # Rounding may put one stretch a hair before the end of the one before it.
            if own_s > self._own_s[-1]:
                self._own_s.append(own_s)
                self._at_s.append(at_s)

    def at_s(self, own_s: float) -> float:
        """The device's clock at ``own_s``, as far as is known by now: nothing slows the lane later on."""
        own, at = self._own_s, self._at_s
        index = bisect_right(own, own_s) - 1
        if index < 0:
            return at[0] + (own_s - own[0])
        if index == len(own) - 1:
            return at[-1] + (own_s - own[-1])
        stretch = (at[index + 1] - at[index]) / (own[index + 1] - own[index])
        return at[index] + (own_s - own[index]) * stretch
