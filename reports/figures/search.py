"""Progress of the Optuna study, beside the exact optimum."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.figures.style import (
    BLUE,
    GREEN,
    GREY,
    VERMILLION,
    add_legend,
    figure_style,
    new_figure,
    number_ticks,
    span_limits,
)
from reports.run_data import RunData, TrialRow
from runtime.units import format_percent, format_seconds

# Sums of the same seconds in another order differ by less than this share.
_ROUNDING_RATIO = 1e-9
_LEAST_SPAN_RATIO = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSeries:
    """What the figure draws.

    Attributes:
        finding: its title.
        trials: in the order in which they were made.
        best_s: the least latency of a feasible trial so far, trial by trial; None before the first one.
        optimum_s: the exact optimum; None without a plan that tells it.
    """

    finding: str
    trials: tuple[TrialRow, ...]
    best_s: tuple[float | None, ...]
    optimum_s: float | None


def search_series(data: RunData) -> SearchSeries | None:
    """Trials with the best so far; None where there was no study."""
    if not data.trials:
        return None
    best: float | None = None
    course = []
    for trial in data.trials:
        if trial.feasible and trial.latency_s is not None:
            best = trial.latency_s if best is None else min(best, trial.latency_s)
        course.append(best)
    compared = {item.name: item for item in data.plan.comparisons} if data.plan else {}
    optimum_s = compared["optimum"].latency_s if "optimum" in compared else None
    return SearchSeries(
        finding=_describe(len(data.trials), best, optimum_s),
        trials=data.trials,
        best_s=tuple(course),
        optimum_s=optimum_s,
    )


def draw_search(data: RunData) -> Figure | None:
    """Latency by trial, the best so far and the optimum; None where there was no study."""
    series = search_series(data)
    if series is None:
        return None
    with figure_style():
        figure = new_figure(4.0, series.finding)
        axes = figure.add_subplot()
        times_s = [trial.latency_s for trial in series.trials if trial.latency_s is not None]
        if series.optimum_s is not None:
            times_s.append(series.optimum_s)
        axes.set_ylim(*span_limits(times_s or [1.0], _LEAST_SPAN_RATIO))
        axes.set_xlim(0, len(series.trials) + 1)
        add_legend(figure, _draw_trials(axes, series))
        axes.set_xlabel("trial, in order")
        axes.set_ylabel("latency of a later request (s)")
        axes.grid(visible=True)
        number_ticks(axes.xaxis)
        number_ticks(axes.yaxis)
    return figure


def _draw_trials(axes: Axes, series: SearchSeries) -> list[Artist]:
    handles: list[Artist] = []
    top_s = axes.get_ylim()[1]
    failed = [(place, top_s) for place, trial in enumerate(series.trials, 1) if trial.latency_s is None]
    scored = [
        (place, trial.latency_s, trial.feasible)
        for place, trial in enumerate(series.trials, 1)
        if trial.latency_s is not None
    ]
    for points, marker, color, fill, text in (
        ([point[:2] for point in scored if point[2]], "o", BLUE, BLUE, "feasible"),
        ([point[:2] for point in scored if not point[2]], "x", GREY, GREY, "does not fit"),
        (failed, "v", VERMILLION, "white", "failed, no latency"),
    ):
        if points:
            (handle,) = axes.plot(
                [place for place, _ in points],
                [time_s for _, time_s in points],
                linestyle="",
                marker=marker,
                markersize=6,
                markerfacecolor=fill,
                markeredgecolor=color,
                markeredgewidth=1.4,
                clip_on=False,
                zorder=3,
                label=f"{text}: {len(points)}",
            )
            handles.append(handle)
    known = [(place, best_s) for place, best_s in enumerate(series.best_s, 1) if best_s is not None]
    if known:
        places, best = [place for place, _ in known], [best_s for _, best_s in known]
        text = f"best so far: {format_seconds(best[-1])}"
        (line,) = axes.plot(places, best, color=BLUE, linewidth=1.8, drawstyle="steps-post", zorder=2, label=text)
        handles.append(line)
    if series.optimum_s is not None:
        text = f"exact optimum: {format_seconds(series.optimum_s)}"
        dashes = (0, (1.5, 1.5))
        handles.append(
            axes.axhline(series.optimum_s, color=GREEN, linewidth=1.8, linestyle=dashes, zorder=4, label=text)
        )
    return handles


def _describe(count: int, best_s: float | None, optimum_s: float | None) -> str:
    trials = f"{count} trials" if count != 1 else "one trial"
    if best_s is None:
        return f"None of {trials} fits" if count != 1 else "The one trial does not fit"
    if optimum_s is None:
        return f"The best of {trials} takes {format_seconds(best_s)} a request"
    if best_s < optimum_s * (1 - _ROUNDING_RATIO):
        return f"The best of {trials} is {format_percent(1 - best_s / optimum_s)} faster than the exact optimum"
    if best_s <= optimum_s * (1 + _ROUNDING_RATIO):
        return f"Of {trials}, none is faster than the exact optimum of {format_seconds(optimum_s)}"
    return f"The best of {trials} is {format_percent(best_s / optimum_s - 1)} slower than the exact optimum"
