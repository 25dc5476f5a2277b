"""Every picture of a report: what draws it, how to read it, and the table of the values in it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from matplotlib.figure import Figure

from reports.figures.host import draw_host, host_series
from reports.figures.memory import draw_memory, memory_series
from reports.figures.predicted import draw_predicted, predicted_series
from reports.figures.search import draw_search, search_series
from reports.figures.stalls import draw_stalls, stall_series
from reports.figures.timeline import draw_timeline, timeline_series
from reports.figures.tradeoff import draw_tradeoff, tradeoff_series
from reports.figures.what_ifs import draw_what_ifs, what_if_series
from reports.page.blocks import Illustration
from reports.page.picture_tables import (
    host_values,
    memory_values,
    predicted_values,
    search_values,
    stall_values,
    timeline_values,
    tradeoff_values,
    what_if_values,
)
from reports.run_data import RunData
from reports.tables import Table


class Series(Protocol):
    """What a figure draws, with the finding that it shows."""

    @property
    def finding(self) -> str:
        """The figure's title."""


SeriesT = TypeVar("SeriesT", bound=Series)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture(Generic[SeriesT]):
    """One kind of picture.

    Attributes:
        caption: what it shows and how to read it.
        collect: what it draws; None where the run lacks that.
        draw: the figure; None as ``collect``.
        tabulate: what it draws as a table.
    """

    caption: str
    collect: Callable[[RunData], SeriesT | None]
    draw: Callable[[RunData], Figure | None]
    tabulate: Callable[[SeriesT], Table]

    def illustrate(self, data: RunData) -> Illustration | None:
        """The picture of ``data``; None where it lacks what the picture shows."""
        series = self.collect(data)
        if series is None:
            return None
        return Illustration(
            draw=partial(_drawn, self.draw, data),
            finding=series.finding,
            caption=self.caption,
            table=self.tabulate(series),
        )


PICTURES: dict[str, Picture[Any]] = {
    "trade-off": Picture(
        caption="Latency of a later request over the device memory that is charged: the fastest plan for every amount. "
        "Hatched: no plan fits, or the cap forbids it.",
        collect=tradeoff_series,
        draw=draw_tradeoff,
        tabulate=tradeoff_values,
    ),
    "passes": Picture(
        caption="Who works in the first and in a steady pass, one lane for each kind of work, and where compute waits "
        "for a copy.",
        collect=timeline_series,
        draw=draw_timeline,
        tabulate=timeline_values,
    ),
    "waits": Picture(
        caption="For how long compute waits for each layer in a later request, all its passes together.",
        collect=stall_series,
        draw=draw_stalls,
        tabulate=stall_values,
    ),
    "memory": Picture(
        caption="What is charged in every phase at its peak, stacked by owner, against the cap. Each phase gets an "
        "equal part of the width and the rest by its duration.",
        collect=memory_series,
        draw=draw_memory,
        tabulate=memory_values,
    ),
    "hosts": Picture(
        caption="Latency of the best plan on hosts with less and with more memory, under the same cap.",
        collect=host_series,
        draw=draw_host,
        tabulate=host_values,
    ),
    "changes": Picture(
        caption="Latency of the fastest plan after a change outside the plan, beside that of the fastest plan now; "
        "both can differ from the chosen plan.",
        collect=what_if_series,
        draw=draw_what_ifs,
        tabulate=what_if_values,
    ),
    "measured": Picture(
        caption="Every quantity of the execution over its prediction; on the line they are equal.",
        collect=predicted_series,
        draw=draw_predicted,
        tabulate=predicted_values,
    ),
    "search": Picture(
        caption="Latency of every trial in its order and the best so far, beside the exact optimum.",
        collect=search_series,
        draw=draw_search,
        tabulate=search_values,
    ),
}


def illustrate(key: str, data: RunData) -> tuple[Illustration, ...]:
    """The picture called ``key``; none where ``data`` lacks what it shows."""
    illustration = PICTURES[key].illustrate(data)
    return () if illustration is None else (illustration,)


def _drawn(draw: Callable[[RunData], Figure | None], data: RunData) -> Figure:
    figure = draw(data)
    assert figure is not None, "whatever has values can be drawn"
    return figure
