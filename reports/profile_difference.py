"""Two profiles beside each other: the figures that are not the same in both. Pure."""

from __future__ import annotations

from autotune.measurements.difference import Comparison, Difference, Interval
from reports.profile_node import name_figure
from reports.profile_values import format_value
from reports.tables import Table
from runtime.units import format_percent


def difference_table(difference: Difference) -> Table:
    """The changed figures, by how much each changed, and its interval in both profiles."""
    rows = tuple(
        (
            name_figure(item.name) + (f", and {item.alike - 1} alike" if item.alike > 1 else ""),
            _describe_change(item),
            _describe_side(item.before, item.unit),
            _describe_side(item.after, item.unit),
        )
        for item in difference.changes
    )
    columns = ("figure", "change", "first (low to high)", "second (low to high)")
    return Table(title="Changed", columns=columns, rows=rows, foldable=frozenset(columns) - {"change"})


def _describe_side(interval: Interval | None, unit: str) -> str:
    if interval is None:
        return ""
    text = format_value(interval.median, unit)
    if interval.low == interval.high:
        return text
    return f"{text} ({format_value(interval.low, unit)} to {format_value(interval.high, unit)})"


def _describe_change(item: Comparison) -> str:
    if item.note:
        return item.note
    ratio = item.change_ratio
    if ratio is None:
        return item.verdict
    return f"{'+' if ratio > 0 else '-'}{format_percent(abs(ratio))}"
