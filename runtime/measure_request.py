"""Sums up the notes of one executed request: from runs, waits and copies to its measurement. Pure.

Compute waits for copies in three ways: before a layer runs whose copy has not landed, in a drain or at the end of a
use, and throughout every copy for which the host waits as well. Where these overlap, time is counted once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from runtime.devices.protocol import Label
from runtime.intervals import Interval, clip, overlap_s
from runtime.measurement import (
    Binding,
    CopyMeasurement,
    PassMeasurement,
    PhaseMeasurement,
    RequestMeasurement,
    RunMeasurement,
    UseMeasurement,
)
from runtime.timeline import Lane, Stall

UseNote: TypeAlias = tuple[str, str, float, float]
"""Component, title, begin and end."""
PassNote: TypeAlias = tuple[int, int, tuple[str, ...], float, float]
"""Use, pass group, stacks, begin and end."""
Wait: TypeAlias = tuple[Label, int, int, float, float]
"""Label, use, pass, from when to when."""

HOST_KINDS = frozenset({"pageable", "blocking", "up", "down"})
"""Copies for which the host waits, and compute as well."""

# Differences of marks round to about this; a wait so short is none.
_ROUNDING_S = 1e-9


def measure_request(
    *,
    begin_s: float,
    uses: Sequence[UseNote],
    passes: Sequence[PassNote],
    runs: Sequence[RunMeasurement],
    waits: Sequence[Wait],
    copies: Sequence[CopyMeasurement],
    phases: tuple[PhaseMeasurement, ...],
    misses: int,
) -> RequestMeasurement:
    """Sum up one request.

    Args:
        begin_s: of the request on the device's clock.
        uses: in order, at least one.
        passes: of all uses, in order; a run's ``pass_index`` is a position among them.
        runs: of all layers, in order.
        waits: of compute for copies other than that of the layer that runs next.
        copies: in order of queueing.
        phases: device bytes.
        misses: see ``RequestMeasurement``.
    """
    stalls = _list_stalls(runs, waits, copies)
    runs_of_pass, runs_of_use = _group(runs, "pass_index"), _group(runs, "use")
    passes_of_use: dict[int, list[PassMeasurement]] = defaultdict(list)
    for number, one in enumerate(passes):
        passes_of_use[one[0]].append(_measure_pass(one, runs_of_pass[number], stalls))
    landed = _group_by_landing(copies, uses)
    measured: list[UseMeasurement] = []
    for index, use in enumerate(uses):
        since_s = min(use[2], measured[-1].end_s if measured else begin_s)
        totals = _sum_copies(landed[index], copies, stalls, (since_s, use[3]))
        measured.append(_measure_use(use, passes_of_use[index], runs_of_use[index], stalls, totals))
    return RequestMeasurement(
        latency_s=measured[-1].end_s - begin_s,
        uses=tuple(measured),
        phases=phases,
        misses=misses,
        runs=tuple(runs),
        copies=tuple(copies),
        stalls=tuple(stalls),
    )


def _group(runs: Sequence[RunMeasurement], name: str) -> dict[int, list[RunMeasurement]]:
    found: dict[int, list[RunMeasurement]] = defaultdict(list)
    for run in runs:
        found[getattr(run, name)].append(run)
    return found


def _group_by_landing(copies: Sequence[CopyMeasurement], uses: Sequence[UseNote]) -> dict[int, list[CopyMeasurement]]:
    """Each copy under the first use that ends no sooner than it has landed; what no use has waited for under none."""
    found: dict[int, list[CopyMeasurement]] = defaultdict(list)
    for copy in copies:
        ends = (index for index, (_, _, _, end_s) in enumerate(uses) if copy.landed_s <= end_s + _ROUNDING_S)
        found[next(ends, len(uses))].append(copy)
    return found


def _list_stalls(
    runs: Iterable[RunMeasurement], waits: Iterable[Wait], copies: Iterable[CopyMeasurement]
) -> list[Stall]:
    """Every wait of compute for copies, in order; where two overlap, the one that began first has the time."""
    found = [(run.wanted_s, run.start_s, Label(run.component, run.stack, run.layer)) for run in runs]
    found += [(before_s, after_s, label) for label, _, _, before_s, after_s in waits]
    found += [
        (start_s, end_s, Label(copy.component, copy.stack, copy.layer))
        for copy in copies
        if copy.kind in HOST_KINDS
        for lane, start_s, end_s in copy.spans
        if lane is Lane.H2D
    ]
    stalls: list[Stall] = []
    until_s = 0.0
    for before_s, end_s, label in sorted(found, key=lambda one: one[:2]):
        start_s = max(before_s, until_s)
        if end_s - start_s > _ROUNDING_S:
            stalls.append(Stall(start_s=start_s, end_s=end_s, **label._asdict()))
            until_s = end_s
    return stalls


def _clip_stalls(stalls: Sequence[Stall], window: Interval) -> list[tuple[Stall, float]]:
    """The stalls that reach into ``window``, each with its seconds there."""
    first = bisect_right(stalls, window[0], key=lambda stall: stall.end_s)
    found = []
    for stall in stalls[first:]:
        if stall.start_s >= window[1]:
            break
        start_s, end_s = clip((stall.start_s, stall.end_s), window)
        found.append((stall, end_s - start_s))
    return found


def _measure_pass(one: PassNote, runs: Sequence[RunMeasurement], stalls: Sequence[Stall]) -> PassMeasurement:
    _, group, stacks, start_s, end_s = one
    return PassMeasurement(
        group=group,
        stacks=stacks,
        start_s=start_s,
        end_s=end_s,
        layers_s=sum(run.end_s - run.start_s for run in runs),
        stall_s=sum(time_s for _, time_s in _clip_stalls(stalls, (start_s, end_s))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copies:
    """What was copied for one use; ``components`` are those whose weights landed in it."""

    components: frozenset[str]
    size_bytes: dict[str, int]
    link_s: float
    exposed_s: float
    host_s: float
    read_s: float


def _sum_copies(
    landed: Sequence[CopyMeasurement],
    copies: Sequence[CopyMeasurement],
    stalls: Sequence[Stall],
    window: Interval,
) -> _Copies:
    """Bytes of what has ``landed``, and the times of all copies inside ``window``."""
    waiting = [(stall.start_s, stall.end_s) for stall in stalls]
    size_bytes: dict[str, int] = defaultdict(int)
    for copy in landed:
        size_bytes[copy.kind] += copy.size_bytes
    link_s = exposed_s = host_s = read_s = 0.0
    for copy in copies:
        for lane, *span in copy.spans:
            start_s, end_s = clip((span[0], span[1]), window)
            if lane is Lane.READ:
                read_s += end_s - start_s
                continue
            link_s += end_s - start_s
            exposed_s += overlap_s((start_s, end_s), waiting)
            host_s += end_s - start_s if copy.kind in HOST_KINDS else 0.0
    return _Copies(
        components=frozenset(copy.component for copy in landed),
        size_bytes=dict(size_bytes),
        link_s=link_s,
        exposed_s=exposed_s,
        host_s=host_s,
        read_s=read_s,
    )


def _measure_use(
    use: UseNote,
    passes: Sequence[PassMeasurement],
    runs: Sequence[RunMeasurement],
    stalls: Sequence[Stall],
    copies: _Copies,
) -> UseMeasurement:
    component, title, start_s, end_s = use
    # Layers that are not streamed are not seen; their pass begins with the first of them.
    first_s = runs[0].start_s if runs else passes[0].start_s if passes else end_s
    fill_s = sum(time_s for _, time_s in _clip_stalls(stalls, (start_s, first_s)))
    by_layer: dict[str, float] = defaultdict(float)
    for stall, time_s in _clip_stalls(stalls, (first_s, end_s)):
        owner = stall.stack or stall.component or ""
        by_layer[owner if stall.layer is None else f"{owner}.{stall.layer}"] += time_s
    stall_s = sum(by_layer.values())
    return UseMeasurement(
        component=component,
        title=title,
        start_s=start_s,
        end_s=end_s,
        fill_s=fill_s,
        stall_s=stall_s,
        layers_s=sum(run.end_s - run.start_s for run in runs),
        passes=tuple(passes),
        stall_by_layer_s=dict(by_layer),
        copied_bytes=copies.size_bytes,
        copy_s=copies.link_s,
        hidden_s=copies.link_s - copies.exposed_s,
        exposed_s=copies.exposed_s,
        read_s=copies.read_s,
        binding=_find_binding(component, end_s - start_s - fill_s - stall_s, copies),
    )


def _find_binding(component: str, busy_s: float, copies: _Copies) -> Binding:
    """The lane that was busy longest.

    Compute and the copies that the host waits for cannot overlap, so together they are one lane; the copies of couriers
    and from pinned memory go on beside it, and so do reads.
    """
    if component not in copies.components:
        return Binding.NONE
    serial_s = busy_s + copies.host_s
    longest_s = max(serial_s, copies.link_s, copies.read_s)
    if longest_s == serial_s:
        return Binding.COMPUTE if busy_s >= copies.host_s else Binding.HOST
    return Binding.LINK if longest_s == copies.link_s else Binding.READ
