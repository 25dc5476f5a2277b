"""How every figure looks: one width, one font, colours that colour-blind readers tell apart, the finding as title.

Figures are composed for 640 px (a CSS inch has 96). Nothing here depends on the user's matplotlib settings or on the
date, so the same data give the same picture.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from matplotlib import rc_context, rcParamsDefault
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

# M. Okabe and K. Ito, "Color Universal Design", 2008, https://jfly.uni-koeln.de/color/: eight colours that readers with
# any of the common kinds of colour blindness tell apart.
BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#8A8A8A"

WIDTH_IN = 640 / 96
_TITLE_CHARACTERS = 68
_BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=(?:%|s|ms|[KMG]iB)\b|%)")
_SETTINGS: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.formatter.useoffset": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.7,
    "legend.fontsize": 8,
    "legend.frameon": False,
    # Names are data: a dollar sign in one begins no formula.
    "text.parse_math": False,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw within: the settings of the user's own matplotlib do not count."""
    settings: Any = {name: value for name, value in rcParamsDefault.items() if not name.startswith("backend")}
    settings.update(_SETTINGS)
    with rc_context(settings):
        yield


def new_figure(height_in: float, finding: str) -> Figure:
    """An empty figure of the common width under its finding; lays itself out when it is drawn."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    figure.suptitle(wrap_text(finding, _TITLE_CHARACTERS), x=0.01, horizontalalignment="left")
    return figure


def wrap_text(text: str, characters: int) -> str:
    """``text`` in lines of at most ``characters``; a number and its unit stay together."""
    return textwrap.fill(_BEFORE_UNIT.sub("\u00a0", text), characters)


def add_legend(figure: Figure, handles: Sequence[Artist], columns: int = 2) -> None:
    """The key below the axes, where it covers no data; entries are read row by row."""
    # matplotlib fills column by column, the first ones with one entry more where they do not come out even.
    figure.legend(
        handles=[handle for start in range(columns) for handle in handles[start::columns]],
        loc="outside lower left",
        ncols=columns,
        handlelength=2.2,
        columnspacing=1.4,
    )


def number_ticks(axis: Axis, most: int = 7) -> None:
    """At most about ``most`` ticks at round numbers, written in full with separators."""
    axis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]))
    format_ticks(axis)


def format_ticks(axis: Axis) -> None:
    """Ticks of ``axis`` written in full with separators."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: _format_tick(value)))


def shade_infeasible(axes: Axes, start: float, end: float) -> None:
    """Hatch the stretch of the x axis in which no plan may lie."""
    axes.axvspan(start, end, facecolor="#F2F2F2", edgecolor="#BBBBBB", hatch="///", linewidth=0, zorder=0.5)


def infeasible_patch(text: str) -> Patch:
    """The legend's entry of ``shade_infeasible``."""
    return Patch(facecolor="#F2F2F2", edgecolor="#BBBBBB", hatch="///", linewidth=0, label=text)


def span_limits(values: Sequence[float], least_ratio: float, pad_ratio: float = 0.08) -> tuple[float, float]:
    """Limits of an axis around ``values``; at least ``least_ratio`` of the largest, or noise would look large."""
    low, high = min(values), max(values)
    missing = max(least_ratio * abs(high) - (high - low), 0.0) / 2
    pad = pad_ratio * max(high - low, least_ratio * abs(high)) or 1.0
    return low - missing - pad, high + missing + pad


def _format_tick(value: float) -> str:
    return f"{value:,.6f}".rstrip("0").rstrip(".") if abs(value) >= 1e-6 else f"{value:.3g}"
