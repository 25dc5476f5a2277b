"""Times one thing while another goes on all the time, as the spans of both prove."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from runtime.errors import DeviceError
from runtime.intervals import Interval, merge, overlap_s

COVERED_RATIO = 0.98
"""Share of a span in which the other has to go on, from before its beginning to behind its end.

The rest are gaps between two copies, in which the host and the driver begin the next one.
"""

_MOST_COVERS = 4096
_ROUNDING_RATIO = 1e-3
_SPARE_COVERS = 2
_ATTEMPTS = 6
# Each may slow the other, so that what lasted long enough alone does not.
_MARGIN = 1.5


class CoveredSample(NamedTuple):
    """What was on its way together, in seconds of the device's clock.

    Attributes:
        measured: spans that are timed.
        runs: how many runs each of them holds.
        cover: spans of what should go on meanwhile.
    """

    measured: Sequence[Interval]
    runs: int
    cover: Sequence[Interval]


class CoveredRuns:
    """Makes runs for ``time_repeatedly``, with so much of the other beside them that they are covered.

    The first call finds out how much that is; what turns out to be too little is doubled. Spans that are not covered
    are not counted.

    Args:
        title: of what is timed and what goes on, for messages.
        meet: makes so many runs beside so many of the other, and waits for both.
    """

    def __init__(self, title: str, meet: Callable[[int, int], CoveredSample]) -> None:
        self._title = title
        self._meet = meet
        self._covers_per_run = 0.0

    def __call__(self, times: int) -> float:
        """Seconds of ``times`` runs that were covered.

        Raises:
            DeviceError: they could not be covered, or a copy failed.
        """
        if not self._covers_per_run:
            self._covers_per_run = self._estimate()
        for _ in range(_ATTEMPTS):
            # Where the other is much shorter, fewer runs than asked for have to do.
            runs = min(times, int((_MOST_COVERS - _SPARE_COVERS) / self._covers_per_run))
            if not runs:
                break
            met = self._meet(runs, math.ceil(runs * self._covers_per_run) + _SPARE_COVERS)
            whole = merge(met.cover)
            counted = [end - start for start, end in met.measured if _is_covered((start, end), whole)]
            if len(counted) * met.runs >= runs:
                return sum(counted) / (len(counted) * met.runs) * times
            self._covers_per_run *= 2
        raise DeviceError(
            f"{self._title}: the other could not be kept going for all of it, even {_MOST_COVERS} times or "
            f"{_ATTEMPTS} attempts long. Measure with sizes that are less far apart."
        )

    def _estimate(self) -> float:
        met = self._meet(1, 1)
        cover_s = sum(end - start for start, end in met.cover) / max(len(met.cover), 1)
        measured_s = sum(end - start for start, end in met.measured) / (len(met.measured) * met.runs)
        if not cover_s or not measured_s:
            raise DeviceError(f"{self._title}: one of them takes no time here, so neither can slow the other.")
        return measured_s / cover_s * _MARGIN


def _is_covered(span: Interval, whole: Sequence[Interval]) -> bool:
    took_s = span[1] - span[0]
    spare_s = _ROUNDING_RATIO * took_s
    encloses = bool(whole) and whole[0][0] - spare_s <= span[0] and span[1] <= whole[-1][1] + spare_s
    return encloses and overlap_s(span, whole) >= COVERED_RATIO * took_s
