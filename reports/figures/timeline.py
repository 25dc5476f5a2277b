"""A first and a steady pass of the component that takes most of a request: who works, and where compute waits."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from reports.figures.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILLION,
    add_legend,
    figure_style,
    new_figure,
    number_ticks,
)
from reports.run_data import PassWindow, RunData
from runtime.timeline import Lane, Timeline
from runtime.units import format_percent, format_seconds

_LANES = (Lane.READ, Lane.H2D, Lane.D2H, Lane.COMPUTE)
LANE_NAMES = {Lane.READ: "read", Lane.H2D: "copy up", Lane.D2H: "copy down", Lane.COMPUTE: "compute"}
_COLORS = {Lane.READ: ORANGE, Lane.H2D: BLUE, Lane.D2H: BLUE, Lane.COMPUTE: GREEN}
_HATCHES = {Lane.READ: "..", Lane.H2D: "", Lane.D2H: "\\\\\\\\", Lane.COMPUTE: ""}
# About three pixels.
_SHORT_RATIO = 0.005
_BINDING = {
    Lane.COMPUTE: "Compute binds",
    Lane.H2D: "The link binds",
    Lane.D2H: "The link binds",
    Lane.READ: "Reading weights binds",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Work on a lane, or a wait of compute, from the beginning of its pass on; cut off where the pass ends.

    ``is_own`` says whether it is of the component whose pass it is.
    """

    lane: Lane
    start_s: float
    length_s: float
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSeries:
    """One pass: its work by lane, and where compute waits."""

    title: str
    component: str
    duration_s: float
    work: tuple[Bar, ...]
    waits: tuple[Bar, ...]

    @property
    def waiting_s(self) -> float:
        """Time for which compute waits."""
        return sum(bar.length_s for bar in self.waits)

    def busy_s(self, lane: Lane) -> float:
        """Time for which a lane works."""
        return sum(bar.length_s for bar in self.work if bar.lane is lane)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSeries:
    """What the figure draws: its title, the passes, and the lanes on which anything happens."""

    finding: str
    passes: tuple[PassSeries, ...]
    lanes: tuple[Lane, ...]


def timeline_series(data: RunData) -> TimelineSeries | None:
    """The run's windows on its timeline; None without them."""
    if data.timeline is None or not data.windows:
        return None
    passes = tuple(_cut(data.timeline, window) for window in data.windows)
    used = {bar.lane for part in passes for bar in part.work}
    lanes = tuple(lane for lane in _LANES if lane in used)
    return TimelineSeries(finding=_describe(passes[-1]), passes=passes, lanes=lanes)


def draw_timeline(data: RunData) -> Figure | None:
    """The passes one above the other on the same scale, a lane per kind of work; None without windows."""
    series = timeline_series(data)
    if series is None:
        return None
    with figure_style():
        figure = new_figure(1.1 + len(series.passes) * (0.7 + 0.28 * len(series.lanes)), series.finding)
        panels = figure.subplots(len(series.passes), sharex=True, squeeze=False)[:, 0]
        longest_s = max(part.duration_s for part in series.passes)
        for axes, part in zip(panels, series.passes, strict=True):
            _draw_pass(axes, part, series.lanes, longest_s)
        panels[-1].set_xlim(0, longest_s * 1.01)
        panels[-1].set_xlabel("time since the pass began (s)")
        number_ticks(panels[-1].xaxis)
        add_legend(figure, _handles(series), columns=3)
    return figure


def _cut(timeline: Timeline, window: PassWindow) -> PassSeries:
    def bar(lane: Lane, start_s: float, end_s: float, component: str | None) -> Bar | None:
        start_s, end_s = max(start_s, window.start_s), min(end_s, window.end_s)
        if end_s <= start_s:
            return None
        is_own = component in (None, window.component)
        return Bar(lane=lane, start_s=start_s - window.start_s, length_s=end_s - start_s, is_own=is_own)

    work = (bar(span.lane, span.start_s, span.end_s, span.component) for span in timeline.spans)
    waits = (bar(Lane.COMPUTE, stall.start_s, stall.end_s, stall.component) for stall in timeline.stalls)
    return PassSeries(
        title=window.title,
        component=window.component,
        duration_s=window.end_s - window.start_s,
        work=tuple(found for found in work if found is not None),
        waits=tuple(found for found in waits if found is not None),
    )


def _draw_pass(axes: Axes, part: PassSeries, lanes: tuple[Lane, ...], longest_s: float) -> None:
    for row, lane in enumerate(reversed(lanes)):
        for is_own in (True, False):
            bars = [(bar.start_s, bar.length_s) for bar in part.work if bar.lane is lane and bar.is_own is is_own]
            color = _COLORS[lane] if is_own else GREY
            # White gaps tell neighbours apart; a short bar gets a rim of its own colour, or it would be all gap.
            edges = ["white" if length_s > _SHORT_RATIO * longest_s else color for _, length_s in bars]
            axes.broken_barh(
                bars, (row - 0.38, 0.76), facecolor=color, edgecolor=edges, linewidth=0.5, hatch=_HATCHES[lane]
            )
        if lane is Lane.COMPUTE:
            waits = [(bar.start_s, bar.length_s) for bar in part.waits]
            axes.broken_barh(
                waits, (row - 0.38, 0.76), facecolor="white", edgecolor=VERMILLION, linewidth=0.6, hatch="/////"
            )
    axes.set_yticks(range(len(lanes)), [LANE_NAMES[lane] for lane in reversed(lanes)])
    axes.set_ylim(-0.6, len(lanes) - 0.4)
    wait = f"waits {format_seconds(part.waiting_s)}" if part.waiting_s else "never waits"
    axes.set_title(f"{part.title} of {part.component}: {format_seconds(part.duration_s)}, compute {wait}")
    axes.grid(visible=True, axis="x")


def _handles(series: TimelineSeries) -> list[Artist]:
    handles: list[Artist] = [
        Patch(
            facecolor=_COLORS[lane],
            edgecolor="white",
            hatch=_HATCHES[lane],
            label=f"{LANE_NAMES[lane]}, layer by layer",
        )
        for lane in series.lanes
    ]
    if any(part.waits for part in series.passes):
        handles.append(Patch(facecolor="white", edgecolor=VERMILLION, hatch="/////", label="compute waits"))
    if any(not bar.is_own for part in series.passes for bar in part.work):
        handles.append(Patch(facecolor=GREY, label="another component's"))
    return handles


def _describe(part: PassSeries) -> str:
    """What is busiest binds: it is what a faster pass would need more of."""
    binding = max(_LANES[::-1], key=part.busy_s)
    text, took = _BINDING[binding], format_seconds(part.duration_s)
    if not part.waiting_s or not part.duration_s:
        return f"{text}: a {part.title} of {took} never waits for a copy"
    return (
        f"{text}: {format_percent(part.waiting_s / part.duration_s)} of a {part.title} of {took} is waiting for copies"
    )
