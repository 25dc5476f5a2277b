"""What figures draw, as tables: every value with the digits that it has in all other tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from reports.figures.host import HostSeries
from reports.figures.memory import MemorySeries
from reports.figures.predicted import PredictedSeries
from reports.figures.search import SearchSeries
from reports.figures.stalls import StallSeries
from reports.figures.timeline import LANE_NAMES, TimelineSeries
from reports.figures.tradeoff import TradeoffSeries
from reports.figures.what_ifs import WhatIfSeries
from reports.measurement import compared_cells
from reports.tables import Table
from runtime.units import format_gib, format_percent, format_seconds


def tradeoff_values(series: TradeoffSeries) -> Table:
    """Marks, the cap and the knee, then the corners of the curve."""
    rows = [
        (mark.name, format_gib(mark.charged_bytes), format_seconds(mark.latency_s), _answer(mark.fits))
        for mark in series.marks
    ]
    if series.cap_bytes is not None:
        rows.append(("cap", format_gib(series.cap_bytes), "", ""))
    corners = [("curve", point) for point in series.curve]
    if series.knee is not None:
        corners.insert(0, ("knee", series.knee))
    rows += [
        (what, format_gib(point.charged_bytes), format_seconds(point.latency_s), _answer(point.fits))
        for what, point in corners
    ]
    return _table("Time for device memory", ("what", "device memory charged", "request", "fits"), rows, words=(0, 3))


def host_values(series: HostSeries) -> Table:
    """One row per host."""
    rows = [
        (
            format_gib(point.host_bytes),
            "nothing fits" if point.latency_s is None else format_seconds(point.latency_s),
            "" if point.charged_bytes is None else format_gib(point.charged_bytes),
            format_gib(point.disk_read_bytes),
            _answer(point.is_own),
        )
        for point in series.points
    ]
    columns = ("host memory", "request", "device memory charged", "read from disk", "this run's host")
    return _table("Time for host memory", columns, rows, words=(4,))


def timeline_values(series: TimelineSeries) -> Table:
    """Every bar: work by lane, then the waits of compute, pass by pass."""
    rows = [
        (
            part.title,
            "compute waits" if is_wait else LANE_NAMES[bar.lane],
            part.component if bar.is_own else "another",
            format_seconds(bar.start_s),
            format_seconds(bar.length_s),
        )
        for part in series.passes
        for is_wait, bars in ((False, part.work), (True, part.waits))
        for bar in bars
    ]
    columns = ("pass", "what", "of component", "from its start", "lasts")
    return _table("Work and waits of two passes", columns, rows, words=(0, 1, 2))


def memory_values(series: MemorySeries) -> Table:
    """A row per phase, a column per owner."""
    rows = [
        (
            phase.phase,
            format_seconds(phase.seconds),
            *(format_gib(layer.phase_bytes[place]) for layer in series.layers),
            format_gib(phase.charged_bytes),
        )
        for place, phase in enumerate(series.phases)
    ]
    if series.cap_bytes is not None:
        rows.append(("cap", "", *("" for _ in series.layers), format_gib(series.cap_bytes)))
    columns = ("phase", "lasts", *(layer.owner for layer in series.layers), "charged")
    return _table("Device memory by owner", columns, rows, words=(0,))


def stall_values(series: StallSeries) -> Table:
    """Every layer that is waited for, then what is not drawn."""
    rows = [
        (stack.component, stack.stack, str(layer), format_seconds(stall_s))
        for stack in series.stacks
        for layer, stall_s in sorted(stack.stall_s.items())
    ]
    if series.other_s:
        rows.append(("not drawn", "", "", format_seconds(series.other_s)))
    return _table("Waits by layer", ("component", "stack", "layer", "waits in a request"), rows, words=(0, 1))


def what_if_values(series: WhatIfSeries) -> Table:
    """One row per change, with the standard deviation of the difference where it is known."""
    rows = [
        (
            item.change,
            format_seconds(item.now_s),
            format_seconds(item.then_s),
            format_percent(item.gain_ratio),
            "" if item.difference_sd_s is None else f"± {format_seconds(item.difference_sd_s)}",
        )
        for item in series.changes
    ]
    columns = ("change", "fastest now", "fastest then", "saved", "standard deviation")
    return _table("What changes would give", columns, rows, words=(0,))


def predicted_values(series: PredictedSeries) -> Table:
    """Every quantity that is drawn."""
    rows = [compared_cells(item) for item in series.compared]
    return _table("Predicted and measured", ("quantity", "predicted", "measured", "ratio"), rows, words=(0,))


def search_values(series: SearchSeries) -> Table:
    """Every trial with the best so far, then the optimum."""
    rows = [
        (
            str(place),
            trial.origin,
            "failed" if trial.latency_s is None else format_seconds(trial.latency_s),
            _answer(trial.feasible),
            "" if best_s is None else format_seconds(best_s),
        )
        for place, (trial, best_s) in enumerate(zip(series.trials, series.best_s, strict=True), 1)
    ]
    if series.optimum_s is not None:
        rows.append(("exact optimum", "", format_seconds(series.optimum_s), "", ""))
    columns = ("trial", "origin", "request", "feasible", "best so far")
    return _table("Trials in their order", columns, rows, words=(1, 3))


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], words: tuple[int, ...]) -> Table:
    """Columns are of numbers, but for those at the positions ``words``."""
    numeric = frozenset(name for place, name in enumerate(columns) if place not in words)
    return Table(title=title, columns=columns, rows=tuple(rows), numeric=numeric)


def _answer(is_so: bool) -> str:
    return "yes" if is_so else "no"
