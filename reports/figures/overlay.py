"""The trade-off curves of several runs in one picture: other cards, other settings, other hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from reports.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    add_legend,
    figure_style,
    format_ticks,
    new_figure,
    number_ticks,
    span_limits,
)
from reports.run_data import CurvePoint, RunData
from runtime.errors import InputError
from runtime.units import GIB

_LOOKS = (
    (BLUE, "-"),
    (VERMILLION, (0, (5, 1.5))),
    (GREEN, (0, (1.5, 1))),
    (PURPLE, (0, (6, 1.5, 1.5, 1.5))),
    (ORANGE, (0, (3, 1))),
    (SKY, (0, (1, 2))),
    (BLACK, (0, (8, 3))),
)
MOST_RUNS = len(_LOOKS)
"""More curves than this cannot be told apart."""

# Latencies that differ by more than this many times get a logarithmic axis.
_WIDE_RATIO = 4.0
_LEAST_SPAN_RATIO = 0.1
# Curves of runs without a plan, whose cap nobody knows, go on level for this share of the whole width.
_TAIL_RATIO = 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayCurve:
    """One run's curve.

    Attributes:
        name: of the run.
        points: corners that fit, least memory first; between two of them the latency is that of the left one.
        cap_bytes: where the curve ends; None without a plan.
    """

    name: str
    points: tuple[CurvePoint, ...]
    cap_bytes: int | None

    def latency_within(self, size_bytes: int) -> float | None:
        """Seconds of the fastest plan in ``size_bytes`` of device memory; None where none fits."""
        times = [point.latency_s for point in self.points if point.charged_bytes <= size_bytes]
        return min(times, default=None)


def overlay_series(runs: Sequence[RunData]) -> tuple[OverlayCurve, ...]:
    """The curves that are drawn, in the order of ``runs``, each up to its cap; none for runs in which nothing fits."""
    return tuple(
        OverlayCurve(
            name=run.name,
            points=tuple(sorted((point for point in run.curve if point.fits), key=lambda point: point.charged_bytes)),
            cap_bytes=run.plan.cap.effective_bytes if run.plan is not None else None,
        )
        for run in runs
        if any(point.fits for point in run.curve)
    )


def draw_overlay(runs: Sequence[RunData], finding: str) -> Figure | None:
    """Latency over device memory of ``runs`` under the title ``finding``; None without a curve.

    Raises:
        InputError: more than ``MOST_RUNS`` of them have a curve.
    """
    curves = overlay_series(runs)
    if len(curves) > MOST_RUNS:
        raise InputError(f"{len(curves)} curves in one picture cannot be told apart: draw at most {MOST_RUNS}")
    if not curves:
        return None
    with figure_style():
        figure = new_figure(4.5, finding)
        axes = figure.add_subplot()
        right = _find_right(curves)
        handles = [_draw_curve(axes, curve, look, right) for curve, look in zip(curves, _LOOKS, strict=False)]
        _scale_latencies(axes, [point.latency_s for curve in curves for point in curve.points])
        axes.set_xlabel("device memory charged (GiB)")
        axes.set_ylabel("latency of a later request (s)")
        axes.grid(visible=True)
        number_ticks(axes.xaxis)
        add_legend(figure, handles)
    return figure


def _find_right(curves: Sequence[OverlayCurve]) -> float:
    """GiB at which curves without a cap end."""
    sizes = [point.charged_bytes for curve in curves for point in curve.points]
    tail = _TAIL_RATIO * max(max(sizes) - min(sizes), 0.1 * max(sizes))
    return max(max(sizes) + tail, *(curve.cap_bytes or 0 for curve in curves)) / GIB


def _draw_curve(axes: Axes, curve: OverlayCurve, look: tuple[str, object], right: float) -> Artist:
    color, dashes = look
    end = right if curve.cap_bytes is None else curve.cap_bytes / GIB
    sizes = [point.charged_bytes / GIB for point in curve.points]
    times_s = [point.latency_s for point in curve.points]
    (line,) = axes.plot(
        [*sizes, end],
        [*times_s, times_s[-1]],
        drawstyle="steps-post",
        color=color,
        linestyle=dashes,
        linewidth=1.8,
        label=curve.name,
    )
    # Where a curve begins says in how little memory anything fits, and where it ends, how much there is.
    axes.plot(sizes[:1], times_s[:1], linestyle="", marker="o", markersize=5, color=color)
    axes.plot([end], times_s[-1:], linestyle="", marker="|", markersize=9, markeredgewidth=1.8, color=color)
    return line


def _scale_latencies(axes: Axes, times_s: Sequence[float]) -> None:
    if min(times_s) > 0 and max(times_s) > _WIDE_RATIO * min(times_s):
        axes.set_yscale("log")
        axes.set_ylim(min(times_s) / 1.2, max(times_s) * 1.2)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.yaxis.set_minor_formatter(NullFormatter())
        format_ticks(axes.yaxis)
    else:
        axes.set_ylim(*span_limits(times_s, _LEAST_SPAN_RATIO))
        number_ticks(axes.yaxis)
