"""The trade-off between latency and device memory: what more VRAM buys, and where the plan lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from autotune.exact import DEFAULT_TIE_RATIO
from reports.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILLION,
    add_legend,
    figure_style,
    infeasible_patch,
    new_figure,
    number_ticks,
    shade_infeasible,
    span_limits,
)
from reports.figures.tradeoff_finding import describe_tradeoff
from reports.run_data import CurvePoint, RunData
from runtime.plan_document import Comparison
from runtime.units import GIB, format_gib, format_seconds

PLAN, SERVER_DEFAULT, STREAMED, RESIDENT = "plan", "server default", "streamed", "everything resident"

# Latencies are drawn on an axis that covers at least this share of them: a flat curve is to look flat.
_LEAST_SPAN_RATIO = 0.1
# A point further right than this many times the rest is drawn at the edge, or the curve would shrink to a spot.
_FAR_RATIO = 1.35


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeoffSeries:
    """What the figure draws.

    Attributes:
        finding: its title.
        curve: corners, least memory first; between two of them the latency is that of the left one.
        marks: plans (and the bound) that it is compared with, as in the plan document.
        knee: the corner after which memory buys least, see ``find_knee``.
        cap_bytes: what was planned with; None without a plan.
    """

    finding: str
    curve: tuple[CurvePoint, ...]
    marks: tuple[Comparison, ...]
    knee: CurvePoint | None
    cap_bytes: int | None

    @property
    def least_bytes(self) -> int:
        """The least device memory in which any plan fits."""
        return self.curve[0].charged_bytes

    def mark(self, name: str) -> Comparison | None:
        """The compared plan called ``name``."""
        return next((mark for mark in self.marks if mark.name == name), None)


def tradeoff_series(data: RunData) -> TradeoffSeries | None:
    """Curve, marks and limits of the run; None without a curve."""
    if not data.curve:
        return None
    curve = tuple(sorted(data.curve, key=lambda point: point.charged_bytes))
    names = (PLAN, SERVER_DEFAULT, STREAMED, RESIDENT)
    compared = {item.name: item for item in data.plan.comparisons} if data.plan else {}
    return TradeoffSeries(
        finding=describe_tradeoff(curve, compared),
        curve=curve,
        marks=tuple(compared[name] for name in names if name in compared),
        knee=find_knee(curve),
        cap_bytes=data.plan.cap.effective_bytes if data.plan else None,
    )


def find_knee(curve: Sequence[CurvePoint]) -> CurvePoint | None:
    """The corner furthest below the chord from the first to the last one, both axes scaled to 0..1.

    None where no corner lies below the chord, and where the whole curve falls by less than plans that count as equally
    fast differ: a flat curve has no knee.
    """
    first, last = curve[0], curve[-1]
    width, height = last.charged_bytes - first.charged_bytes, first.latency_s - last.latency_s
    if width <= 0 or height <= DEFAULT_TIE_RATIO * first.latency_s:
        return None

    def depth(point: CurvePoint) -> float:
        """Distance below the chord, times the square root of 2."""
        return 1 - (point.charged_bytes - first.charged_bytes) / width - (point.latency_s - last.latency_s) / height

    knee = max(curve, key=depth)
    return knee if depth(knee) > 1e-9 else None


def draw_tradeoff(data: RunData) -> Figure | None:
    """Latency over the device memory charged; None without a curve."""
    series = tradeoff_series(data)
    if series is None:
        return None
    with figure_style():
        figure = new_figure(4.5, series.finding)
        axes = figure.add_subplot()
        left, right = _limits_gib(series)
        axes.set_xlim(left, right)
        times_s = [point.latency_s for point in series.curve] + [mark.latency_s for mark in series.marks]
        axes.set_ylim(*span_limits(times_s, _LEAST_SPAN_RATIO))
        handles = [*_draw_curve(axes, series, right), *_draw_marks(axes, series, right)]
        axes.set_xlabel("device memory charged (GiB)")
        axes.set_ylabel("latency of a later request (s)")
        axes.grid(visible=True)
        number_ticks(axes.xaxis)
        number_ticks(axes.yaxis)
        add_legend(figure, handles)
    return figure


def _limits_gib(series: TradeoffSeries) -> tuple[float, float]:
    """From a little less than any plan to the cap or the curve's end, and to what lies not much further right."""
    end_bytes = max(series.curve[-1].charged_bytes, series.cap_bytes or 0)
    near = [mark.charged_bytes for mark in series.marks if mark.charged_bytes <= _FAR_RATIO * end_bytes]
    # Plans that do not keep to what was fixed for the search can take less than the least that it found.
    start, end = min([series.least_bytes, *near]) / GIB, max(end_bytes, *near, 1) / GIB
    pad = 0.06 * max(end - start, 0.1 * end)
    return max(start - 1.5 * pad, 0.0), end + pad


def _draw_curve(axes: Axes, series: TradeoffSeries, right: float) -> list[Artist]:
    least = series.least_bytes / GIB
    shade_infeasible(axes, axes.get_xlim()[0], least)
    text = f"no plan fits: below {least:,.2f} GiB"
    handles: list[Artist] = []
    if series.cap_bytes is not None:
        cap = series.cap_bytes / GIB
        shade_infeasible(axes, cap, right)
        text += ", beyond the cap"
        handles.append(
            axes.axvline(cap, color=BLACK, linewidth=1.4, linestyle=(0, (6, 2)), label=f"cap: {cap:,.2f} GiB")
        )
    sizes = [point.charged_bytes / GIB for point in series.curve]
    times_s = [point.latency_s for point in series.curve]
    axes.plot([*sizes, right], [*times_s, times_s[-1]], color=BLUE, linewidth=1.8, drawstyle="steps-post")
    line = Line2D([], [], color=BLUE, linewidth=1.8, label="fastest plan in this memory")
    return [line, infeasible_patch(text), *handles]


def _draw_marks(axes: Axes, series: TradeoffSeries, right: float) -> list[Artist]:
    """Nested shapes of different size: plans that coincide all stay visible."""
    handles: list[Artist] = []
    if (bound := series.mark(RESIDENT)) is not None:
        text = f"{RESIDENT} (bound): {format_seconds(bound.latency_s)}, {format_gib(bound.charged_bytes)}"
        handles.append(axes.axhline(bound.latency_s, color=GREEN, linewidth=1.4, linestyle=(0, (1.5, 1.5)), label=text))
    for name, shape, size, color, is_filled in (
        (STREAMED, "s", 11.5, ORANGE, False),
        (SERVER_DEFAULT, "D", 8.0, BLACK, False),
        (PLAN, "o", 6.0, VERMILLION, True),
    ):
        if (mark := series.mark(name)) is None:
            continue
        x = mark.charged_bytes / GIB
        is_far = x > right
        text = f"{name}: {format_seconds(mark.latency_s)}, {format_gib(mark.charged_bytes)}"
        text += "" if mark.fits else ", too large"
        (handle,) = axes.plot(
            [right if is_far else x],
            [mark.latency_s],
            linestyle="",
            marker=">" if is_far else shape,
            markersize=size,
            markerfacecolor=color if is_filled else "none",
            markeredgecolor=color,
            markeredgewidth=1.8,
            clip_on=False,
            zorder=4,
            label=f"{text} →" if is_far else text,
        )
        handles.append(handle)
    if series.knee is not None:
        x, y = series.knee.charged_bytes / GIB, series.knee.latency_s
        text = f"knee: {format_seconds(y)}, {format_gib(series.knee.charged_bytes)}"
        (handle,) = axes.plot([x], [y], linestyle="", marker="*", markersize=11, color=PURPLE, zorder=3, label=text)
        handles.append(handle)
    return handles
