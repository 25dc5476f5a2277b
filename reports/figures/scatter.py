"""Predicted against measured figures of one kind, both axes logarithmic: how close, and what calibrating adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from autotune.fidelity.comparison import ComparedFigure, Kind
from autotune.fidelity.summary import KindSummary
from reports.figures.agreement import draw_ground, find_limits
from reports.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    add_legend,
    figure_style,
    new_figure,
)
from runtime.units import GIB, format_percent

# What is aimed at: latencies within 30 % from datasheets and 10 % after calibrating, peaks within 5 %.
_BANDS = {Kind.LATENCY: (0.3, 0.1), Kind.PEAK: (0.05,)}
_BAND_COLOURS = {0.3: "#EFEFEF", 0.1: "#D9D9D9", 0.05: "#D9D9D9"}
_MARKS = tuple(zip("osD^vP*Xh<", (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK) * 2, strict=False))
_OTHERS = "others"
_SHORT_CHARACTERS = 26
"""Three columns of labels as long as this fit into the width."""


def draw_scatter(figures: Sequence[ComparedFigure], summary: KindSummary) -> Figure:
    """The picture of all figures of the kind of ``summary``; at least one.

    Hollow marks are predictions from datasheets or a profile, filled ones those after calibrating on other runs.
    """
    own = [figure for figure in figures if figure.kind is summary.kind]
    with figure_style():
        picture = new_figure(6.4, describe_finding(summary))
        axes = picture.add_subplot()
        bands = {ratio: _BAND_COLOURS[ratio] for ratio in _BANDS[summary.kind]}
        draw_ground(axes, find_limits([value for figure in own for value in _values(figure)]), bands)
        marks = _assign_marks(own)
        for figure in own:
            marker, colour = marks.get(figure.family, ("|", GREY))
            _draw_figure(axes, figure, marker, colour)
        _label_axes(axes, summary.kind)
        handles = _list_handles(marks, own, summary.kind)
        longest = max(len(str(handle.get_label())) for handle in handles)
        add_legend(picture, handles, columns=3 if longest <= _SHORT_CHARACTERS else 2)
    return picture


def describe_finding(summary: KindSummary) -> str:
    """The title: how far off half of the predictions are."""
    before, after = summary.predicted, summary.calibrated
    noun = {Kind.LATENCY: "latencies", Kind.PEAK: "peaks"}[summary.kind]
    text = f"Half of {before.count} {noun} are predicted within {format_percent(before.median_ratio or 0.0)}"
    if not after.count:
        return text
    return f"{text}; calibrated on other runs, half of {after.count} within {format_percent(after.median_ratio or 0.0)}"


def _scale(kind: Kind) -> float:
    return 1.0 if kind is Kind.LATENCY else GIB


def _values(figure: ComparedFigure) -> list[float]:
    scale = _scale(figure.kind)
    values = (figure.observed, figure.predicted, figure.calibrated)
    return [value / scale for value in values if value]


def _assign_marks(figures: Sequence[ComparedFigure]) -> dict[str, tuple[str, str]]:
    """A mark for each model and card, the most frequent first; what is left over shares one."""
    names = [figure.family for figure in figures]
    ranked = sorted(dict.fromkeys(names), key=lambda name: -names.count(name))
    return dict(zip(ranked, _MARKS, strict=False))


def _draw_figure(axes: Axes, figure: ComparedFigure, marker: str, colour: str) -> None:
    scale = _scale(figure.kind)
    observed, predicted = figure.observed / scale, figure.predicted / scale
    style: dict[str, Any] = {
        "color": colour,
        "marker": marker,
        "linestyle": "",
        "markersize": 6,
        "markeredgewidth": 1.1,
    }
    if predicted:
        axes.plot(observed, predicted, markerfacecolor="none", zorder=3, **style)
    if figure.calibrated:
        calibrated = figure.calibrated / scale
        axes.plot(observed, calibrated, zorder=3.5, **style)
        axes.plot([observed, observed], [predicted or calibrated, calibrated], color=colour, linewidth=0.6, zorder=2)


def _label_axes(axes: Axes, kind: Kind) -> None:
    noun, unit = ("latency", "s") if kind is Kind.LATENCY else ("peak of device memory", "GiB")
    axes.set_xlabel(f"measured {noun} ({unit})")
    axes.set_ylabel(f"predicted {noun} ({unit})")


def _list_handles(
    marks: dict[str, tuple[str, str]], figures: Sequence[ComparedFigure], kind: Kind
) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = [
        Line2D([], [], marker=marker, color=colour, linestyle="", label=family)
        for family, (marker, colour) in marks.items()
    ]
    if any(figure.family not in marks for figure in figures):
        handles.append(Line2D([], [], marker="|", color=GREY, linestyle="", label=_OTHERS))
    handles.append(Line2D([], [], marker="o", color=BLACK, markerfacecolor="none", linestyle="", label="predicted"))
    if any(figure.calibrated for figure in figures):
        handles.append(Line2D([], [], marker="o", color=BLACK, linestyle="", label="calibrated on other runs"))
    handles += [
        Patch(color=_BAND_COLOURS[ratio], label=f"within {100 * ratio:.0f} %") for ratio in reversed(_BANDS[kind])
    ]
    return handles
