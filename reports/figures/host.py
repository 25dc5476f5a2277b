"""The trade-off between latency and host memory under the run's own VRAM cap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from autotune.exact import DEFAULT_TIE_RATIO
from reports.figures.style import (
    BLACK,
    BLUE,
    VERMILLION,
    add_legend,
    figure_style,
    infeasible_patch,
    new_figure,
    number_ticks,
    shade_infeasible,
    span_limits,
)
from reports.run_data import HostPoint, RunData
from runtime.units import GIB, format_seconds

_LEAST_SPAN_RATIO = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeries:
    """What the figure draws.

    Attributes:
        finding: its title.
        points: hosts, the smallest first.
        enough: the smallest host whose best plan is as fast as any here; None where nothing fits.
    """

    finding: str
    points: tuple[HostPoint, ...]
    enough: HostPoint | None

    @property
    def fitting(self) -> tuple[HostPoint, ...]:
        """Hosts on which a plan fits."""
        return tuple(point for point in self.points if point.latency_s is not None)


def host_series(data: RunData) -> HostSeries | None:
    """Latency by host memory; None where the run was planned for one host only."""
    if not data.host_curve:
        return None
    points = tuple(sorted(data.host_curve, key=lambda point: point.host_bytes))
    best_s = min((point.latency_s for point in points if point.latency_s is not None), default=0.0)
    fast_s = best_s * (1 + DEFAULT_TIE_RATIO)
    enough = next(
        (point for point in points if point.latency_s is not None and point.latency_s <= fast_s),
        None,
    )
    return HostSeries(finding=_describe(points, enough), points=points, enough=enough)


def draw_host(data: RunData) -> Figure | None:
    """Latency over host memory; hosts on which nothing fits are crosses on the axis. None without host points."""
    series = host_series(data)
    if series is None:
        return None
    with figure_style():
        figure = new_figure(4.0, series.finding)
        axes = figure.add_subplot()
        sizes = [point.host_bytes / GIB for point in series.points]
        axes.set_xscale("log", base=2)
        axes.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
        axes.set_ylim(*span_limits([point.latency_s or 0.0 for point in series.fitting] or [1.0], _LEAST_SPAN_RATIO))
        handles = [*_draw_misfits(axes, series), *_draw_points(axes, series)]
        ticks = _choose_ticks(sizes)
        axes.set_xticks(ticks, [f"{size:,.4g}" for size in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        number_ticks(axes.yaxis)
        axes.grid(visible=True)
        axes.set_xlabel("host memory (GiB, logarithmic)")
        axes.set_ylabel("latency of a later request (s)")
        add_legend(figure, handles)
    return figure


def _choose_ticks(sizes: Sequence[float]) -> list[float]:
    """The smallest host, and each one that is at least 1.6 times the last: labels of closer ones would touch."""
    ticks: list[float] = []
    for size in sizes:
        if not ticks or size >= 1.6 * ticks[-1]:
            ticks.append(size)
    return ticks


def _draw_misfits(axes: Axes, series: HostSeries) -> list[Artist]:
    misfits = [point.host_bytes / GIB for point in series.points if point.latency_s is None]
    if not misfits:
        return []
    shade_infeasible(axes, axes.get_xlim()[0], max(misfits))
    (crosses,) = axes.plot(
        misfits,
        [axes.get_ylim()[0]] * len(misfits),
        linestyle="",
        marker="X",
        markersize=10,
        color=VERMILLION,
        clip_on=False,
        zorder=4,
        label="no plan fits on this host",
    )
    return [crosses, infeasible_patch(f"too little: {max(misfits):,.4g} GiB and less")]


def _draw_points(axes: Axes, series: HostSeries) -> list[Artist]:
    handles: list[Artist] = []
    for reads_disk, fill, text in ((False, BLUE, "best plan"), (True, "white", "best plan, reads from disk")):
        points = [point for point in series.fitting if bool(point.disk_read_bytes) is reads_disk]
        if points:
            (handle,) = axes.plot(
                [point.host_bytes / GIB for point in points],
                [point.latency_s or 0.0 for point in points],
                linestyle="",
                marker="o",
                markersize=8,
                markerfacecolor=fill,
                markeredgecolor=BLUE,
                markeredgewidth=1.8,
                zorder=3,
                label=text,
            )
            handles.append(handle)
    fitting = series.fitting
    axes.plot(
        [point.host_bytes / GIB for point in fitting],
        [point.latency_s or 0.0 for point in fitting],
        color=BLUE,
        linewidth=1.2,
        linestyle=(0, (4, 2)),
        zorder=2,
    )
    if (own := _own(series.points)) is not None:
        size = own.host_bytes / GIB
        text = f"this run's host: {size:,.4g} GiB"
        handles.append(axes.axvline(size, color=BLACK, linewidth=1.4, linestyle=(0, (6, 2)), label=text))
    return handles


def _own(points: Sequence[HostPoint]) -> HostPoint | None:
    return next((point for point in points if point.is_own), None)


def _describe(points: Sequence[HostPoint], enough: HostPoint | None) -> str:
    if enough is None or enough.latency_s is None:
        return f"No plan fits on a host with {points[-1].host_bytes / GIB:,.4g} GiB or less"
    least = f"{enough.host_bytes / GIB:,.4g} GiB"
    own = _own(points)
    if own is not None and own.latency_s is None:
        return f"No plan fits on this host; {least} would do: {format_seconds(enough.latency_s)} a request"
    if own is not None and own.latency_s is not None and own.host_bytes < enough.host_bytes:
        return f"More host memory pays: {least} would save {format_seconds(own.latency_s - enough.latency_s)} a request"
    return f"{least} of host memory is enough: more makes no plan faster"
