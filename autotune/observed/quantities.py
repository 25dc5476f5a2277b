"""Figures as people write them: ``26,204``, ``~18``, ``300-370``, ``<=12``, ``9.4 s``, ``22.3 (22,827 MiB)``. Pure.

A figure is one number or one range, with what it may carry: a sign of approximation or of a bound before it, a unit
after it, a remark in parentheses at the end. The middle stands for a range. A comma groups three digits; one that
stands elsewhere is refused, because it may be a decimal comma. A figure with a plus or minus sign is a difference (or
negative, which nothing that is observed here can be).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.observed.observation import Reason
from autotune.observed.refusal import RowRefusedError
from runtime.errors import UnitError
from runtime.units import parse_bytes

NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,18})(?:\.[0-9]{1,18})?(?![0-9])"
"""One unsigned number, as a part of a regular expression."""

MOST_TEXT = 4000
"""Longer cells are refused: nobody writes them, and the time to search them grows with the square of their length."""

_FIGURE = re.compile(
    rf"(?P<prefix>~|≈|<=|≤|<|about|circa|ca\.)?\s*(?P<low>{NUMBER})(?:\s*[-\u2013]\s*(?P<high>{NUMBER}))?"
    r"\s*(?P<unit>[A-Za-z]{1,8}(?:/[A-Za-z]{1,5})?)?\s*(?P<remark>\(.*\))?",
    re.DOTALL,
)
_SIGNED = re.compile(r"[+\-\u2212]\s*[0-9.]")
_BOUNDS = frozenset({"<=", "≤", "<"})
_SECONDS = {"": 1.0, "s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "min": 60.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A positive number with what it was written with.

    Attributes:
        value: the number; the middle of a range.
        unit: as written; empty where none was.
        is_bound: whether it is a limit that the figure stayed below, not the figure.
        note: what reading it took away, one sentence; empty for a plain number.
    """

    value: float
    unit: str = ""
    is_bound: bool = False
    note: str = ""


def parse_figure(text: str, what: str) -> Figure:
    """The figure that ``text`` is; ``what`` names it in messages.

    Raises:
        RowRefusedError: no figure, a difference, not finite, zero, negative, or several figures.
    """
    written = text.strip()
    if _SIGNED.match(written):
        raise RowRefusedError(
            Reason.NOT_EXPRESSIBLE,
            f"{what} is {written!r}, a difference or a negative number: give the figure of the run itself",
        )
    match = _FIGURE.fullmatch(written[:MOST_TEXT])
    if match is None or len(written) > MOST_TEXT:
        raise RowRefusedError(
            Reason.UNREADABLE,
            f"{what} is {shorten(written)!r}, which is not one number: write it like 26204, 26,204, ~18 or 300-370",
        )
    low = read_number(match["low"])
    high = read_number(match["high"]) if match["high"] else low
    if low <= 0 or high < low:
        raise RowRefusedError(
            Reason.UNREADABLE, f"{what} is {written!r}: a figure that was observed is above 0 and a range ascends"
        )
    return Figure(
        value=(low + high) / 2,
        unit=match["unit"] or "",
        is_bound=match["prefix"] in _BOUNDS,
        note=_describe(written, what, is_range=high > low, is_rough=bool(match["prefix"])),
    )


def parse_duration(text: str, what: str) -> Figure:
    """The seconds that ``text`` names, as a figure without a unit; seconds are meant where no unit stands.

    Raises:
        RowRefusedError: as ``parse_figure``, or the unit is none of time.
    """
    figure = parse_figure(text, what)
    if figure.unit.casefold() not in _SECONDS:
        raise RowRefusedError(
            Reason.NOT_EXPRESSIBLE, f"{what} is {shorten(text)!r}: {figure.unit} is not seconds; give seconds"
        )
    return Figure(value=figure.value * _SECONDS[figure.unit.casefold()], is_bound=figure.is_bound, note=figure.note)


def to_bytes(value: float, unit: str, what: str) -> int:
    """``value`` in ``unit`` as bytes.

    Raises:
        RowRefusedError: no unit of bytes, or an amount that no machine has.
    """
    try:
        return parse_bytes(f"{value:.6f}{unit}")
    except UnitError as error:
        raise RowRefusedError(Reason.UNREADABLE, f"{what}: {error}") from None


def parse_count(text: str, what: str) -> int:
    """The whole positive number that ``text`` is.

    Raises:
        RowRefusedError: anything else.
    """
    written = text.strip()
    if re.fullmatch(r"[0-9]{1,9}", written) and int(written) > 0:
        return int(written)
    raise RowRefusedError(Reason.UNREADABLE, f"{what} is {shorten(written)!r}: give a whole number from 1")


def read_number(text: str) -> float:
    """The value of what ``NUMBER`` matched."""
    return float(text.replace(",", ""))


def _describe(written: str, what: str, *, is_range: bool, is_rough: bool) -> str:
    if is_range:
        return f"{what} is the middle of {written!r}"
    return f"{what} is rounded in the source: {written!r}" if is_rough else ""


def shorten(text: str, most: int = 80) -> str:
    """``text`` as messages quote it: cut where it is long."""
    return text if len(text) <= most else f"{text[:most]}..."
