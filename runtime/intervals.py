"""Arithmetic of intervals of time: pairs of a begin and an end, in seconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Interval: TypeAlias = tuple[float, float]


def merge(spans: Iterable[Interval]) -> list[Interval]:
    """``spans`` in order, those that touch or overlap as one."""
    merged: list[Interval] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def overlap_s(span: Interval, merged: Sequence[Interval]) -> float:
    """Seconds of ``span`` that lie in ``merged``, which is in order and free of overlaps."""
    start, end = span
    total_s = 0.0
    for position in range(max(0, bisect_right(merged, (start, start)) - 1), len(merged)):
        other_start, other_end = merged[position]
        if other_start >= end:
            break
        total_s += max(0.0, min(end, other_end) - max(start, other_start))
    return total_s


def clip(span: Interval, window: Interval) -> Interval:
    """The part of ``span`` inside ``window``; empty, not negative, where they do not meet."""
    start = min(max(span[0], window[0]), window[1])
    return start, max(start, min(span[1], window[1]))
