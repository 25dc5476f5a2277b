"""Device memory over the life of a pipeline, from load to a later request: whose it is, and how near the cap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from reports.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    add_legend,
    figure_style,
    new_figure,
    number_ticks,
)
from reports.run_data import MemoryPhase, Owner, RunData
from runtime.units import GIB, format_gib, format_seconds

# The share of the width that phases have in common, and the most that one of them gets of it: a phase of a millisecond
# is wide enough for its name.
_COMMON_RATIO = 0.6
_MOST_COMMON_RATIO = 0.09

_STREAMED_LOOKS = (
    (SKY, "////"),
    (ORANGE, "\\\\\\\\"),
    (GREEN, "||"),
    (PURPLE, "--"),
    (YELLOW, "xx"),
    (SKY, "oo"),
    (ORANGE, "--"),
    (GREEN, "xx"),
    (PURPLE, "////"),
)
_LOOKS = {
    Owner.STANDING: (BLUE, ""),
    Owner.ACTIVATIONS: (VERMILLION, ".."),
    Owner.OVERHEAD: (GREY, ""),
    Owner.RESERVE: ("white", "++"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One band of the stack: its owner, and its bytes phase by phase."""

    owner: str
    look: tuple[str, str]
    phase_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySeries:
    """What the figure draws.

    Attributes:
        finding: its title.
        phases: in the order of life; what is queued after a use is left out where it takes no time and is no peak.
        layers: bands from the bottom up.
        width_ratios: width of every phase, which sum to 1; see ``share_width``.
        cap_bytes: what was planned with; None without a plan.
    """

    finding: str
    phases: tuple[MemoryPhase, ...]
    layers: tuple[Layer, ...]
    width_ratios: tuple[float, ...]
    cap_bytes: int | None


def memory_series(data: RunData) -> MemorySeries | None:
    """Phases of the run with what each owner takes; None without phases."""
    if not data.memory:
        return None
    peak = max(data.memory, key=lambda phase: phase.charged_bytes)
    phases = tuple(phase for phase in data.memory if phase is peak or phase.seconds or ": after " not in phase.phase)
    cap_bytes = data.plan.cap.effective_bytes if data.plan else None
    return MemorySeries(
        finding=_describe(peak, cap_bytes),
        phases=phases,
        layers=_stack(phases, [item.component for item in data.plan.plan.placements] if data.plan else []),
        width_ratios=share_width([phase.seconds for phase in phases]),
        cap_bytes=cap_bytes,
    )


def share_width(times_s: Sequence[float]) -> tuple[float, ...]:
    """Widths of phases, which sum to 1: an equal part for each so that short ones are seen, the rest by duration."""
    common = min(_MOST_COMMON_RATIO, _COMMON_RATIO / len(times_s))
    total_s = sum(times_s)
    if not total_s:
        return (1 / len(times_s),) * len(times_s)
    return tuple(common + (1 - common * len(times_s)) * time_s / total_s for time_s in times_s)


def draw_memory(data: RunData) -> Figure | None:
    """Charged bytes stacked by owner, phase by phase, under the cap; None without phases."""
    series = memory_series(data)
    if series is None:
        return None
    with figure_style():
        figure = new_figure(5.4, series.finding)
        axes = figure.add_subplot()
        starts = (0.0, *accumulate(series.width_ratios))[:-1]
        peak = max(phase.charged_bytes for phase in series.phases) / GIB
        cap = (series.cap_bytes or 0) / GIB
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.06 * max(peak, cap))
        handles = _draw_layers(axes, series, starts)
        if series.cap_bytes is not None:
            line = axes.axhline(cap, color=BLACK, linewidth=1.4, linestyle=(0, (6, 2)), label=f"cap: {cap:,.2f} GiB")
            add_legend(figure, [*handles, line], columns=2)
        else:
            add_legend(figure, handles, columns=2)
        _name_phases(axes, series, starts)
        axes.set_xlabel("phase of life: an equal part of the width each, the rest by duration")
        axes.set_ylabel("device memory (GiB)")
        axes.grid(visible=True, axis="y")
        number_ticks(axes.yaxis)
    return figure


def _stack(phases: Sequence[MemoryPhase], order: Sequence[str]) -> tuple[Layer, ...]:
    """Bands; components in the plan's ``order``, so that each has the same colour whatever the cap."""
    components = list(dict.fromkeys([*order, *(name for phase in phases for name in phase.by_component)]))

    def layer(owner: Owner) -> Layer:
        sizes = tuple(phase.parts.get(owner, 0) for phase in phases)
        return Layer(owner=str(owner), look=_LOOKS[owner], phase_bytes=sizes)

    streamed = [
        Layer(
            owner=f"layers of {name}",
            look=_STREAMED_LOOKS[number % len(_STREAMED_LOOKS)],
            phase_bytes=tuple(phase.by_component.get(name, 0) for phase in phases),
        )
        for number, name in enumerate(components)
    ]
    bands = [layer(Owner.STANDING), *streamed, *map(layer, (Owner.ACTIVATIONS, Owner.OVERHEAD, Owner.RESERVE))]
    return tuple(band for band in bands if any(band.phase_bytes))


def _draw_layers(axes: Axes, series: MemorySeries, starts: Sequence[float]) -> list[Patch]:
    below = [0.0] * len(series.phases)
    handles = []
    for band in series.layers:
        color, hatch = band.look
        heights = [size / GIB for size in band.phase_bytes]
        look: dict[str, Any] = {"facecolor": color, "edgecolor": BLACK, "hatch": hatch, "linewidth": 0.4}
        axes.bar(starts, heights, series.width_ratios, bottom=below, align="edge", **look)
        below = [low + height for low, height in zip(below, heights, strict=True)]
        handles.append(Patch(label=band.owner, **look))
    return handles


def _name_phases(axes: Axes, series: MemorySeries, starts: Sequence[float]) -> None:
    """Names of phases under them, without what a use adds in brackets, and of the requests above."""
    names = [phase.phase.partition(": ") for phase in series.phases]
    labels = [
        (use.partition(" (")[0] or group) + (f"  {format_seconds(phase.seconds)}" if phase.seconds else "")
        for (group, _, use), phase in zip(names, series.phases, strict=True)
    ]
    middles = [start + width / 2 for start, width in zip(starts, series.width_ratios, strict=True)]
    axes.set_xticks(middles, labels, rotation=90, fontsize=8)
    axes.tick_params(axis="x", length=0)
    groups = dict.fromkeys(group for group, _, use in names if use)
    for group in groups:
        own = [place for place, (name, _, use) in enumerate(names) if name == group and use]
        left, right = starts[own[0]], starts[own[-1]] + series.width_ratios[own[-1]]
        if left:
            axes.axvline(left, color=BLACK, linewidth=0.8)
        axes.text((left + right) / 2, 1.01, group, transform=axes.get_xaxis_transform(), ha="center", va="bottom")


def _describe(peak: MemoryPhase, cap_bytes: int | None) -> str:
    text, where = f"Peak {format_gib(peak.charged_bytes)}", f"in {peak.phase}"
    if cap_bytes is None:
        return f"{text} {where}"
    left_bytes = cap_bytes - peak.charged_bytes
    return f"{text}, {format_gib(abs(left_bytes))} {'under' if left_bytes >= 0 else 'over'} the cap, {where}"
