"""What changes outside the plan would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from autotune.exact import DEFAULT_TIE_RATIO
from reports.figures.style import (
    BLACK,
    ORANGE,
    SKY,
    add_legend,
    figure_style,
    new_figure,
    number_ticks,
    wrap_text,
)
from reports.run_data import RunData
from runtime.plan_document import WhatIf
from runtime.units import format_percent, format_seconds

# Nine cases in ten of a normal distribution lie within this many standard deviations.
_NINE_IN_TEN_SD = 1.645
_NAME_CHARACTERS = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfSeries:
    """What the figure draws: its title, and the changes, the most saving one first."""

    finding: str
    changes: tuple[WhatIf, ...]


def what_if_series(data: RunData) -> WhatIfSeries | None:
    """The plan's changes; None where none was asked about."""
    if data.plan is None or not data.plan.what_ifs:
        return None
    changes = tuple(sorted(data.plan.what_ifs, key=lambda item: -item.gain_ratio))
    return WhatIfSeries(finding=_describe(changes), changes=changes)


def draw_what_ifs(data: RunData) -> Figure | None:
    """A bar per change: the latency with it, beside the latency now; None where none was asked about."""
    series = what_if_series(data)
    if series is None:
        return None
    with figure_style():
        figure = new_figure(1.6 + 0.46 * len(series.changes), series.finding)
        axes = figure.add_subplot()
        handles = _draw_bars(axes, series.changes)
        longest_s = max(max(item.now_s, item.then_s) + _error_s(item) for item in series.changes)
        # The right third is for what is written behind the bars.
        axes.set_xlim(0, 1.45 * longest_s or 1.0)
        axes.set_xlabel("latency of a later request (s), fastest plan")
        axes.grid(visible=True, axis="x")
        number_ticks(axes.xaxis)
        add_legend(figure, handles, columns=3)
    return figure


def _draw_bars(axes: Axes, changes: Sequence[WhatIf]) -> list[Artist]:
    rows = range(len(changes))
    looks = [(SKY, "") if item.gain_ratio >= -DEFAULT_TIE_RATIO else (ORANGE, "////") for item in changes]
    bars = axes.barh(
        rows,
        [item.then_s for item in changes],
        height=0.6,
        color=[color for color, _ in looks],
        hatch=[hatch for _, hatch in looks],
        edgecolor=BLACK,
        linewidth=0.6,
    )
    bars.set_label("_bars")
    axes.plot(
        [item.now_s for item in changes],
        rows,
        linestyle="",
        marker="|",
        markersize=24,
        markeredgewidth=2,
        color=BLACK,
    )
    for row, item in zip(rows, changes, strict=True):
        if error_s := _error_s(item):
            axes.errorbar(item.then_s, row, xerr=error_s, color=BLACK, capsize=3, linewidth=1)
        end_s = max(item.now_s, item.then_s + _error_s(item))
        axes.annotate(
            _describe_change(item), (end_s, row), (6, 0), textcoords="offset points", va="center", fontsize=8.5
        )
    axes.set_yticks(rows, [wrap_text(item.change, _NAME_CHARACTERS) for item in changes])
    axes.invert_yaxis()
    handles: list[Artist] = [Line2D([], [], linestyle="", marker="|", markersize=12, markeredgewidth=2, color=BLACK)]
    handles[0].set_label("now")
    for color, hatch, text in ((SKY, "", "with the change: no slower"), (ORANGE, "////", "with the change: slower")):
        if (color, hatch) in looks:
            handles.append(Patch(facecolor=color, hatch=hatch, edgecolor=BLACK, linewidth=0.6, label=text))
    return handles


def _error_s(item: WhatIf) -> float:
    """Half the interval in which the difference lies in nine cases of ten; 0 where that is not known."""
    return _NINE_IN_TEN_SD * (item.difference_sd_s or 0.0)


def _describe_change(item: WhatIf) -> str:
    change_s = item.then_s - item.now_s
    if abs(change_s) <= DEFAULT_TIE_RATIO * item.now_s:
        return f"{format_seconds(item.then_s)} (as now)"
    sign = "\N{MINUS SIGN}" if change_s < 0 else "+"
    return f"{format_seconds(item.then_s)} ({sign}{format_percent(abs(item.gain_ratio))})"


def _describe(changes: Sequence[WhatIf]) -> str:
    best = changes[0]
    if best.gain_ratio <= DEFAULT_TIE_RATIO:
        return "Nothing here would make the fastest plan faster"
    text = f"{best.change[:1].upper()}{best.change[1:]} would save {format_percent(best.gain_ratio)} of a request"
    if len(changes) == 1:
        return text
    following = changes[1]
    if following.gain_ratio <= DEFAULT_TIE_RATIO:
        return f"{text}; nothing else here saves time"
    return f"{text}, {following.change} {format_percent(following.gain_ratio)}"
