"""What was predicted for a plan, over what an execution of it measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports.figures.agreement import draw_ground, find_limits
from reports.figures.style import BLACK, BLUE, ORANGE, add_legend, figure_style, new_figure
from reports.run_data import RunData
from runtime.measurement_document import Compared
from runtime.units import GIB, format_percent

BAND_RATIO = 0.1
"""Half the width of the shaded band around exact agreement, a share of what was measured."""

_BAND = f"{BAND_RATIO * 100:.0f} %"

_BAND_COLOR = "#DDDDDD"
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
    """Predicted over measured, times and sizes in a panel each; None where nothing can be compared."""
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
            points = [(item.measured / per_unit, item.predicted / per_unit) for item in own]
            _draw_points(axes, points, marker, color)
            axes.set_xlabel(f"measured {quantity}")
            axes.set_ylabel(f"predicted {quantity}")
            label = quantity.partition(" (")[0]
            handles.append(Line2D([], [], linestyle="", marker=marker, color=color, label=f"{label}: {len(own)}"))
        handles.append(Line2D([], [], color=BLACK, linewidth=1, label="as predicted"))
        handles.append(Patch(facecolor=_BAND_COLOR, label=f"within {_BAND}"))
        add_legend(figure, handles, columns=4)
    return figure


def _draw_points(axes: Axes, points: Sequence[tuple[float, float]], marker: str, color: str) -> None:
    draw_ground(axes, find_limits([value for point in points for value in point]), {BAND_RATIO: _BAND_COLOR})
    axes.plot(
        [measured for measured, _ in points],
        [predicted for _, predicted in points],
        linestyle="",
        marker=marker,
        markersize=7,
        markerfacecolor="none",
        markeredgecolor=color,
        markeredgewidth=1.6,
        zorder=3,
    )


def _describe(compared: Sequence[Compared]) -> str:
    furthest = max(compared, key=lambda item: abs((item.ratio or 1.0) - 1))
    off = (furthest.ratio or 1.0) - 1
    if abs(off) < 0.001:
        return f"All {len(compared)} figures were measured as predicted"
    sign = "more" if off > 0 else "less"
    within = sum(abs(item.predicted - item.measured) <= BAND_RATIO * item.measured for item in compared)
    text = f"{within} of {len(compared)} predictions are within {_BAND} of what was measured"
    return f"{text}; furthest: {furthest.quantity}, measured {format_percent(abs(off))} {sign}"
