"""How a figure of a profile is written: its value with its unit, and the interval that holds it. Pure."""

from __future__ import annotations

from autotune.measurements.timing import Timing
from runtime.units import GIB, format_percent, format_seconds, format_size

PER_BYTE = "s/byte"


def format_value(value: float, unit: str) -> str:
    """``value`` in a unit that people read; ``unit`` is that of a document."""
    if unit == "bytes":
        return format_size(value)
    if unit == "s":
        return format_seconds(value)
    if unit == "share":
        return format_percent(value)
    if unit == PER_BYTE:
        return f"{format_seconds(value * GIB)} per GiB"
    if unit == "ratio":
        return f"{value:,.4g}"
    return f"{value:,.4g} {unit}"


def format_interval(timing: Timing) -> str:
    """From the least to the most that the median may be."""
    return f"{format_seconds(timing.low_s)} to {format_seconds(timing.high_s)}"


def format_spread(timing: Timing) -> str:
    """Width of the interval as a share of the median; nothing where one sample was all there was."""
    return "" if timing.count == 1 else round_percent(timing.spread_ratio)


def round_percent(ratio: float) -> str:
    """A share as a percentage of two digits or more: spreads and shares are compared, not computed with."""
    percent = 100 * ratio
    if percent == 0 or percent >= 9.95:
        return f"{percent:,.0f} %"
    if percent >= 1:
        return f"{percent:.1f} %"
    return f"{percent:.2g} %" if percent >= 0.01 else "<0.01 %"
