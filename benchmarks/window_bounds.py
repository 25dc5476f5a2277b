"""Lower limits on a steady pass when only a window of bytes may hold streamed layers: any order, and running order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from autotune.bounds import compute_steady_bound_s

_EPSILON = 1e-9
_PASSES = 80  # until the limits' recursions repeat
_LONGEST_PERIOD = 12


@lru_cache(maxsize=65536)
def compute_any_order_bound_s(
    compute_s: tuple[float, ...], sizes: tuple[int, ...], window_bytes: int, bytes_per_s: float
) -> float:
    """The least that a steady pass takes with ``window_bytes`` for streamed layers, in whatever order they are copied.

    Let layer p run, and q any later run of a streamed layer. While p runs, the layers copied for the runs after it are
    on the device beside it, each with all its bytes: at most the largest sum of whole layers that fits. The rest of the
    layers up to q is copied after p has run and before q runs. That is a system of inequalities ``end(q) >= end(p) +
    rest / bytes_per_s + compute(q)``, next to ``end(q) >= end(q - 1) + compute(q)``; per pass its smallest solution
    grows by its heaviest cycle.

    Args:
        compute_s: of every layer.
        sizes: bytes of every layer; 0 for one that stays.
        window_bytes: for streamed layers.
        bytes_per_s: of the link.
    """
    count = len(compute_s)
    reach = 3 * count
    unit = math.gcd(*sizes) or 1
    waits = {layer: np.full(reach, -np.inf) for layer in range(count) if sizes[layer]}
    for first in range(count):
        room = (window_bytes - sizes[first]) // unit
        within, sums, total = (1 << (room + 1)) - 1, 1, 0
        for distance in range(1, reach + 1):
            layer = (first + distance) % count
            size = sizes[layer] // unit
            if not size:
                continue
            total += size
            sums |= (sums << size) & within  # bit b: some of the layers so far have b bytes together
            if (rest := total - (sums.bit_length() - 1)) > 0:
                waits[layer][reach - distance] = rest * unit / bytes_per_s + compute_s[layer]
    ends = np.zeros(reach + count * _PASSES)
    states: list[np.ndarray] = []
    at = reach
    for _ in range(_PASSES):
        for layer in range(count):
            end_s = ends[at - 1] + compute_s[layer]
            if layer in waits:
                end_s = max(end_s, float((ends[at - reach : at] + waits[layer]).max()))
            ends[at] = end_s
            at += 1
        states.append(ends[at - reach : at].copy())
        if (steady_s := _repeats(states)) is not None:
            break
    else:
        steady_s = float((states[-1] - states[-1 - _LONGEST_PERIOD]).min()) / _LONGEST_PERIOD
    return max(steady_s, compute_steady_bound_s(compute_s, [size / bytes_per_s for size in sizes]))


def _repeats(states: Sequence[np.ndarray]) -> float | None:
    """Growth per pass, if all ends have grown alike since some passes ago."""
    for period in range(1, min(len(states) - 1, _LONGEST_PERIOD) + 1):
        grown = states[-1] - states[-1 - period]
        if float(grown.max() - grown.min()) <= _EPSILON * float(grown.max()):
            return float(grown[0]) / period
    return None


def compute_in_order_s(
    compute_s: Sequence[float], sizes: Sequence[int], window_bytes: int, bytes_per_s: float
) -> float:
    """A steady pass of the earliest schedule within ``window_bytes`` that copies layers in running order.

    A copy begins when the one before it is over and so many layers have run that the window has room for it.
    """
    streamed = [layer for layer, size in enumerate(sizes) if size]
    if not streamed:
        return sum(compute_s)
    fit = [_count_fitting(sizes, streamed, position, window_bytes) for position in range(len(streamed))]
    copy_s = end_s = 0.0
    ended: list[float] = []
    pass_ends = []
    for _ in range(_PASSES):
        for layer, took_s in enumerate(compute_s):
            if sizes[layer]:
                last_gone = len(ended) - fit[len(ended) % len(streamed)]
                copy_s = max(copy_s, ended[last_gone] if last_gone >= 0 else 0.0) + sizes[layer] / bytes_per_s
                end_s = max(end_s, copy_s)
            end_s += took_s
            if sizes[layer]:
                ended.append(end_s)
        pass_ends.append(end_s)
    # Long enough for every transient; the mean over a common multiple of all short periods is exact.
    return (pass_ends[-1] - pass_ends[-1 - _LONGEST_PERIOD]) / _LONGEST_PERIOD


def _count_fitting(sizes: Sequence[int], streamed: Sequence[int], position: int, window_bytes: int) -> int:
    """How many streamed layers in a row, up to the one at ``position``, the window holds."""
    room, count = window_bytes, 0
    while count < 10 * len(streamed) and (room := room - sizes[streamed[position - count % len(streamed)]]) >= 0:
        count += 1
    return count
