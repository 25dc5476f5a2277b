"""Which layers compute waits for in a later request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reports.figures.style import VERMILLION, figure_style, new_figure, number_ticks
from reports.run_data import LayerStall, RunData
from runtime.units import format_percent, format_seconds

_MOST_PANELS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StackStalls:
    """Waits for the layers of one stack.

    Attributes:
        component, stack: names.
        layers: how many the stack has.
        stall_s: wait by layer; layers that are not waited for are left out.
    """

    component: str
    stack: str
    layers: int
    stall_s: dict[int, float]

    @property
    def total_s(self) -> float:
        """Wait for all of its layers."""
        return sum(self.stall_s.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StallSeries:
    """What the figure draws.

    Attributes:
        finding: its title.
        stacks: those that are waited for longest, the longest first.
        other_s: waits for other stacks and for whole components, which are not drawn.
    """

    finding: str
    stacks: tuple[StackStalls, ...]
    other_s: float


def stall_series(data: RunData) -> StallSeries | None:
    """Waits by layer; None where no layer is waited for."""
    waits: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for item in data.stalls:
        if item.stack is not None and item.layer is not None:
            layers = waits[item.component, item.stack]
            layers[item.layer] = layers.get(item.layer, 0.0) + item.stall_s
    stacks = sorted(
        (
            StackStalls(
                component=component, stack=stack, layers=_count_layers(data, component, stack, layers), stall_s=layers
            )
            for (component, stack), layers in waits.items()
        ),
        key=lambda item: -item.total_s,
    )[:_MOST_PANELS]
    if not stacks:
        return None
    total_s = sum(item.stall_s for item in data.stalls)
    other_s = max(total_s - sum(item.total_s for item in stacks), 0.0)
    return StallSeries(finding=_describe(stacks, data.stalls, total_s), stacks=tuple(stacks), other_s=other_s)


def draw_stalls(data: RunData) -> Figure | None:
    """A panel per stack, waits over layers; None where no layer is waited for."""
    series = stall_series(data)
    if series is None:
        return None
    with figure_style():
        figure = new_figure(0.9 + 1.65 * len(series.stacks), series.finding)
        panels = figure.subplots(len(series.stacks), squeeze=False)[:, 0]
        for axes, stack in zip(panels, series.stacks, strict=True):
            _draw_stack(axes, stack)
        others = f"; {format_seconds(series.other_s)} more are not shown" if series.other_s > 1e-6 else ""
        panels[-1].set_xlabel(f"layer of the stack, counted from 0{others}")
    return figure


def _draw_stack(axes: Axes, stack: StackStalls) -> None:
    axes.bar(
        list(stack.stall_s),
        list(stack.stall_s.values()),
        width=min(0.8, 0.1 + 0.06 * stack.layers),
        facecolor="#F3C9A9",
        edgecolor=VERMILLION,
        linewidth=0.8,
        hatch="/////",
    )
    axes.set_xlim(-0.7, stack.layers - 0.3)
    axes.set_ylim(0, 1.1 * max(stack.stall_s.values()))
    axes.set_title(f"{stack.component}, {stack.stack}: {format_seconds(stack.total_s)} a request")
    axes.set_ylabel("wait (s)")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
    number_ticks(axes.yaxis, 4)
    axes.grid(visible=True, axis="y")


def _count_layers(data: RunData, component: str, stack: str, waited: dict[int, float]) -> int:
    """Layers of the stack, from the plan's model; as far as they are waited for without a plan."""
    if data.plan is not None:
        for spec in data.plan.model.components:
            for item in spec.stacks:
                if (spec.name, item.name) == (component, stack):
                    return len(item.layers)
    return max(waited) + 1


def _describe(stacks: Sequence[StackStalls], stalls: Sequence[LayerStall], total_s: float) -> str:
    longest = max((item for item in stalls if item.layer is not None), key=lambda item: item.stall_s)
    text = f"Compute waits {format_seconds(total_s)} a request"
    if longest.stall_s >= 0.5 * total_s:
        share = _describe_share(longest.stall_s / total_s)
        return f"{text}, {share} of it for layer {longest.layer} of {longest.component}"
    first = stacks[0]
    share = _describe_share(first.total_s / total_s)
    count = len(first.stall_s)
    layers = f"all {count} layers" if count == first.layers else f"{count} of {first.layers} layers"
    return f"{text}, {share} of it for {layers} of {first.component}"


def _describe_share(ratio: float) -> str:
    return format_percent(ratio) if ratio < 0.9995 else "all"
