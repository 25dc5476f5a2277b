"""What came of calibrating, as tables and sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autotune.fidelity.calibrated_profile import describe_runs
from autotune.fidelity.calibration import CONFIDENCE, Calibration, FittedFactor
from autotune.fidelity.causes import describe_factor
from autotune.fidelity.forecast import FORECAST_RATIO, Forecasts, Range
from autotune.fidelity.next_run import NextRun
from autotune.fidelity.report import CalibrationReport, HeldOut
from autotune.observed.observation import Refused
from autotune.uncertainty import is_added_time, is_logarithmic
from reports.tables import Table
from runtime.target_summary import DeviceSummary
from runtime.units import GIB, format_gib, format_percent, format_seconds, format_signed

_MOST_NAMES = 4
_RATES = {"copy": "pinned_bytes_per_s", "pageable": "pageable_bytes_per_s", "disk": "disk_bytes_per_s"}


def factor_table(calibration: Calibration, device: DeviceSummary) -> Table:
    """Every fitted figure before and after, with its interval."""
    rows = [
        (describe_factor(factor.name), *_describe_values(factor, device), "yes" if factor.is_determined else "no")
        for factor in calibration.factors
    ]
    return Table(
        title=f"Figures (intervals hold together with {format_percent(CONFIDENCE)})",
        columns=("figure", "before", "fitted", "from", "to", "determined"),
        rows=tuple(rows),
        numeric=frozenset({"before", "fitted", "from", "to"}),
        foldable=frozenset({"figure"}),
    )


def _describe_values(factor: FittedFactor, device: DeviceSummary) -> tuple[str, str, str, str]:
    """Before, fitted and both ends of the interval, in the unit that people know the figure by."""
    name, ends = factor.name, (0.0, factor.value, factor.low, factor.high)
    if name in _RATES:
        rate = device.figures[_RATES[name]].value / 1e9
        ends = (0.0, factor.value, factor.high, factor.low)  # the factor is of seconds a byte: the longer, the slower
        return _each(lambda value: f"{rate / math.exp(value):.1f} GB/s", ends)
    if is_logarithmic(name):
        return _each(lambda value: f"x {math.exp(value):.2f}", ends)
    if name == "base_bytes":
        return _each(lambda value: f"{value / GIB:+.2f} GiB", ends)
    return _each(lambda value: f"{1000 * value:.1f} ms", ends)


def _each(describe: Callable[[float], str], values: Sequence[float]) -> tuple[str, str, str, str]:
    before, fitted, low, high = (describe(value) for value in values)
    return before, fitted, low, high


def residual_table(calibration: Calibration) -> Table:
    """Every observed figure that was fitted, beside what is predicted of it."""
    rows = [
        (
            item.run,
            item.what,
            *_describe_figures(item.unit, item.observed, item.before, item.after),
            format_signed(item.error_ratio),
            "set aside" if item.is_outlier else "",
        )
        for item in calibration.residuals
    ]
    return Table(
        title="Fitted runs",
        columns=("run", "figure", "observed", "before", "fitted", "error", ""),
        rows=tuple(rows),
        numeric=frozenset({"observed", "before", "fitted", "error"}),
        foldable=frozenset({"run", "figure"}),
    )


def held_out_table(items: Sequence[HeldOut]) -> Table:
    """Every observed figure that was not fitted, beside what is predicted of it."""
    rows = [
        (
            item.run,
            item.what,
            *_describe_figures(item.unit, item.observed, item.before, item.after),
            format_signed(item.error_ratio),
        )
        for item in items
    ]
    return Table(
        title="Runs that were not fitted",
        columns=("run", "figure", "observed", "before", "predicted", "error"),
        rows=tuple(rows),
        numeric=frozenset({"observed", "before", "predicted", "error"}),
        foldable=frozenset({"run", "figure"}),
    )


def _describe_figures(unit: str, *values: float) -> tuple[str, ...]:
    describe = format_seconds if unit == "s" else format_gib
    return tuple(describe(value) for value in values)


def forecast_table(forecasts: Forecasts) -> Table:
    """Other numbers of resident layers, with bounds."""
    rows = [
        (
            f"{item.component} resident" if item.is_everything else f"{item.component}.resident={item.resident}",
            format_seconds(item.use_s.middle),
            _describe_range(item.use_s, format_seconds),
            format_gib(item.peak_bytes.middle),
            _describe_range(item.peak_bytes, format_gib),
        )
        for item in forecasts.placements
    ]
    return Table(
        title=f"Forecast for other placements ({format_percent(FORECAST_RATIO)} of what the runs allow is in between)",
        columns=("placement", "its uses", "between", "peak VRAM", "between "),
        rows=tuple(rows),
        numeric=frozenset({"its uses", "peak VRAM"}),
        foldable=frozenset({"placement"}),
    )


def _describe_range(item: Range, describe: Callable[[float], str]) -> str:
    return f"{describe(item.low)} to {describe(item.high)}"


def describe_floor(forecasts: Forecasts) -> str:
    """What no placement can save."""
    floor = forecasts.floor_s
    name = forecasts.placements[0].component
    return (
        f"Compute alone takes {format_seconds(floor.middle)} of the uses of {name} "
        f"({_describe_range(floor, format_seconds)}): no placement goes below that"
    )


def list_sentences(report: CalibrationReport) -> list[str]:
    """What the calibration means, the most important first."""
    fit = report.calibration
    determined = [describe_factor(factor.name) for factor in fit.factors if factor.is_determined]
    sentences = [
        f"Fitted to {describe_runs([run.name for run in report.runs])} on {report.device.title}, simulated as "
        f"{report.engine}: these determine {join_words(determined) or 'nothing'}"
    ]
    outliers = [f"{item.run} ({item.what})" for item in fit.residuals if item.is_outlier]
    if outliers:
        sentences.append(f"Set aside, because the other runs contradict it: {', '.join(outliers)}")
    if report.layer_s:
        layers = [f"{stack} {format_seconds(time_s)}" for stack, time_s in report.layer_s.items() if time_s > 0]
        sentences.append(f"Compute of one layer: {', '.join(layers)}")
    sentences += [describe_next_run(item) for item in report.next_runs]
    return sentences


def join_words(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def describe_next_run(item: NextRun) -> str:
    """What the runs leave open, and what would settle it."""
    name, now = describe_factor(item.factor), _describe_sd(item.factor, item.sd)
    if not item.run:
        return f"Not determined: {name} ({now}); none of the runs looked at would settle it alone"
    then = _describe_sd(item.factor, item.sd_then)
    return f"Not determined: {name} ({now}); a run like {item.like} with {item.run} would narrow it to {then}"


def _describe_sd(name: str, sd: float) -> str:
    """A standard deviation of a factor, in the unit that people know it by."""
    if is_added_time(name):
        return f"± {format_seconds(sd)}"
    return f"± {format_percent(math.expm1(sd)) if is_logarithmic(name) else format_gib(sd)}"


def refused_table(refused: Sequence[Refused]) -> Table:
    """What could not be used, and why; runs that share a reason share a line."""
    groups: dict[str, list[Refused]] = {}
    for row in refused:
        groups.setdefault(f"{row.reason}: {row.text}", []).append(row)
    return Table(
        title="Not used",
        columns=("runs", "where", "why"),
        rows=tuple((_shorten([row.name for row in rows]), rows[0].where, why) for why, rows in groups.items()),
        foldable=frozenset({"runs", "where", "why"}),
    )


def _shorten(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return f"{', '.join(names[:_MOST_NAMES])} and {more} more" if more > 0 else ", ".join(names)
