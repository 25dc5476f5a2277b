"""A stand-in for the replay that is as exact where it was asked and takes microseconds: cutting planes. Pure.

A replay decides nothing by the times that it finds: a layer starts at the latest of some ends, and an end is a start
plus a duration. Every time that it predicts is therefore a maximum of sums of durations, that is, a convex and
piecewise linear function of seconds per byte, seconds of compute and added seconds; the same holds for peaks over
bytes. A tangent plane lies below such a function everywhere, and the maximum of a few of them is the function itself
between the places where they were taken (Kelley, The cutting-plane method for solving convex programs, 1960). Where
compute and copies slow each other down the function is not convex, and planes stay an approximation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Predict = Callable[[Vector], Vector]

_STEP = 1e-4


class Surrogate:
    """The maximum of tangent planes of ``predict``.

    Attributes:
        predict: multipliers and added amounts -> predicted figures; expensive.
    """

    def __init__(self, predict: Predict, widths: Vector) -> None:
        """``widths`` are the scales on which the arguments vary: slopes are taken over a small part of them."""
        self.predict = predict
        self._steps = _STEP * widths
        self._slopes: list[Matrix] = []
        self._offsets: list[Vector] = []
        self._planes = np.empty((len(widths) + 1, 0))  # columns: slopes over an offset, plane by plane

    def add_plane(self, point: Vector) -> Vector:
        """Take the tangent planes of all figures at ``point``; returns the figures there."""
        here = self.predict(point)
        slopes = np.stack(
            [
                (self.predict(point + shift) - here) / step
                for shift, step in zip(np.diag(self._steps), self._steps, strict=True)
            ]
        )
        self._slopes.append(slopes)
        self._offsets.append(here - point @ slopes)
        self._planes = np.concatenate([np.hstack(self._slopes), np.hstack(self._offsets)[None, :]])
        return here

    def evaluate(self, points: Matrix) -> Matrix:
        """Figures at ``points``, one row each."""
        values = points @ self._planes[:-1]
        values += self._planes[-1]
        return np.asarray(values.reshape(len(points), len(self._offsets), -1).max(axis=1), dtype=np.float64)
