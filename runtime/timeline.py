"""A request laid out in time, simulated or measured: spans on lanes, stalls, and live bytes by owner."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Lane(StrEnum):
    """What does the work of a span."""

    COMPUTE = "compute"
    H2D = "h2d"
    D2H = "d2h"
    READ = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One interval of work: a layer's run or copy, work outside the stacks, or a move of a whole component.

    ``stack`` and ``layer`` are None where the work is no single layer's.
    """

    lane: Lane
    start_s: float
    end_s: float
    component: str | None
    stack: str | None = None
    layer: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Compute waits; ``layer`` is the one it waits for, None where it waits for all copies of a stack or component."""

    start_s: float
    end_s: float
    component: str | None
    stack: str | None = None
    layer: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """At ``at_s``, ``times`` further passes of ``period_s`` each repeat the one before exactly and are left out."""

    at_s: float
    period_s: float
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBytes:
    """Device bytes of streamed layers and moved components by owner, from ``at_s`` on."""

    at_s: float
    by_component: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One request.

    Attributes:
        spans: in the order in which the host caused them.
        stalls: waits of compute, in order.
        repeats: stretches that are left out because they repeat.
        live: changes of live bytes, in order; each entry holds until the next.
    """

    spans: tuple[Span, ...]
    stalls: tuple[Stall, ...]
    repeats: tuple[Repeats, ...]
    live: tuple[LiveBytes, ...]

    def live_at(self, time_s: float) -> Mapping[str, int]:
        """Live bytes by component at ``time_s``; in a stretch that is left out, those of the pass before it."""
        position = bisect_right(self.live, time_s, key=lambda entry: entry.at_s)
        return self.live[position - 1].by_component if position else {}
