"""What an execution of the plan measured, over what was predicted for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter

from reports.figures.style import BLACK, BLUE, ORANGE, add_legend, figure_style, format_ticks, new_figure
from reports.run_data import RunData
from runtime.measurement_document import Compared
from runtime.units import GIB, format_percent

BAND_RATIO = 0.1
"""Half the width of the shaded band around exact agreement."""

_PANELS = (("s", 1.0, "time (s)", "o", BLUE), ("bytes", GIB, "device memory (GiB)", "s", ORANGE))


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedSeries:
    """What the figure draws.

    Attributes:
        finding: its title.
        compared: quantities that were predicted and measured, neither of them 0, which a logarithmic axis has no place
            for.
        left_out: the other quantities.
    """

    finding: str
    compared: tuple[Compared, ...]
    left_out: tuple[Compared, ...]


def predicted_series(data: RunData) -> PredictedSeries | None:
    """The measurement's comparisons; None where nothing was measured that was predicted."""
    if data.measurement is None:
        return None
    drawn = tuple(item for item in data.measurement.comparisons if item.ratio and item.predicted and item.measured)
    if not drawn:
        return None
    left_out = tuple(item for item in data.measurement.comparisons if item not in drawn)
    return PredictedSeries(finding=_describe(drawn), compared=drawn, left_out=left_out)


def draw_predicted(data: RunData) -> Figure | None:
    """Measured over predicted, times and sizes in a panel each; None where nothing can be compared."""
    series = predicted_series(data)
    if series is None:
        return None
    with figure_style():
        figure = new_figure(3.9, series.finding)
        panels = [panel for panel in _PANELS if any(item.unit == panel[0] for item in series.compared)]
        handles: list[Artist] = []
        for place, (unit, per_unit, quantity, marker, color) in enumerate(panels, 1):
            axes = figure.add_subplot(1, len(panels), place)
            own = [item for item in series.compared if item.unit == unit]
            points = [(item.predicted / per_unit, item.measured / per_unit) for item in own]
            _draw_points(axes, points, marker, color)
            axes.set_xlabel(f"predicted {quantity}")
            axes.set_ylabel(f"measured {quantity}")
            label = quantity.partition(" (")[0]
            handles.append(Line2D([], [], linestyle="", marker=marker, color=color, label=f"{label}: {len(own)}"))
        handles.append(Line2D([], [], color=BLACK, linewidth=1, label="as predicted"))
        handles.append(Patch(facecolor="#DDDDDD", label=f"within {format_percent(BAND_RATIO)}"))
        add_legend(figure, handles, columns=4)
    return figure


def _draw_points(axes: Axes, points: Sequence[tuple[float, float]], marker: str, color: str) -> None:
    values = [value for point in points for value in point]
    ends = (min(values) / 1.5, max(values) * 1.5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_aspect("equal")
    axes.fill_between(
        ends,
        [end * (1 - BAND_RATIO) for end in ends],
        [end * (1 + BAND_RATIO) for end in ends],
        color="#DDDDDD",
        linewidth=0,
    )
    axes.plot(ends, ends, color=BLACK, linewidth=1)
    axes.plot(
        [predicted for predicted, _ in points],
        [measured for _, measured in points],
        linestyle="",
        marker=marker,
        markersize=7,
        markerfacecolor="none",
        markeredgecolor=color,
        markeredgewidth=1.6,
        zorder=3,
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if ends[1] < 50 * ends[0] else (1,), numticks=6))
        axis.set_minor_formatter(NullFormatter())
        format_ticks(axis)


def _describe(compared: Sequence[Compared]) -> str:
    furthest = max(compared, key=lambda item: abs((item.ratio or 1.0) - 1))
    off = (furthest.ratio or 1.0) - 1
    if abs(off) < 0.001:
        return f"All {len(compared)} quantities were measured as predicted"
    sign = "more" if off > 0 else "less"
    within = sum(abs((item.ratio or 1.0) - 1) <= BAND_RATIO for item in compared)
    text = f"{within} of {len(compared)} quantities are within {format_percent(BAND_RATIO)} of their prediction"
    return f"{text}; furthest: {furthest.quantity}, {format_percent(abs(off))} {sign}"
