"""The ground of pictures of predicted over measured figures: axes alike and logarithmic, exact agreement a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from reports.figures.style import BLACK, format_ticks, number_ticks


def find_limits(values: Sequence[float]) -> tuple[float, float]:
    """Limits of both axes: a little beyond the least and the largest of ``values``, which are positive."""
    return min(values) / 1.5, max(values) * 1.5


def draw_ground(axes: Axes, limits: tuple[float, float], bands: Mapping[float, str]) -> None:
    """Axes over ``limits``, measured to the right and predicted upwards, the line of agreement, and bands around it.

    ``bands`` are colours by half their width, a share of the measured figure, the widest first.
    """
    low, high = limits
    for ratio, color in bands.items():
        below, above = [end * (1 - ratio) for end in limits], [end * (1 + ratio) for end in limits]
        axes.fill_between(limits, below, above, color=color, linewidth=0, zorder=1)
    axes.plot(limits, limits, color=BLACK, linewidth=0.8, zorder=1.5)
    axes.set(xscale="log", yscale="log", xlim=limits, ylim=limits, aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
        if high / low < 10:
            number_ticks(axis, 4)
            continue
        # Less than two decades have too few powers of ten to read figures from.
        axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 100 else (1.0, 2.0, 5.0), numticks=6))
        format_ticks(axis)
    axes.grid(visible=True)
