"""Blocks of a report as lines of text that fit a sheet of paper. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from reports.page.blocks import Block, Bullets, Code, Illustration, Paragraph
from reports.tables import Table

# So many characters go into a line of an A4 sheet with margins of 15 mm, in the style's font and size.
PROSE_COLUMNS = 118
FIXED_COLUMNS = 126
_GAP = "  "
_LEAST_COLUMN = 10


class Style(Enum):
    """How a line is set."""

    TITLE = "title"
    HEADLINE = "headline"
    HEADING = "heading"
    PROSE = "prose"
    FIXED = "fixed"
    SPACE = "space"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line; ``keeps_next`` where it must not be the last one of a sheet."""

    text: str
    style: Style
    keeps_next: bool = False


SPACE = Line(text="", style=Style.SPACE)


def wrap(text: str, style: Style, columns: int, *, keeps_next: bool = False) -> Iterator[Line]:
    """``text`` in lines of at most ``columns`` characters."""
    for line in textwrap.wrap(text, columns) or [""]:
        yield Line(text=line, style=style, keeps_next=keeps_next)


def lay_out(blocks: Iterable[Block]) -> Iterator[Line]:
    """The lines of ``blocks``, pictures left out."""
    for block in blocks:
        match block:
            case Paragraph():
                yield from wrap(block.text, Style.PROSE, PROSE_COLUMNS)
            case Bullets():
                for text in block.lines:
                    first, *rest = textwrap.wrap(text, PROSE_COLUMNS - 3) or [""]
                    yield Line(text=f"•  {first}", style=Style.PROSE)
                    yield from (Line(text=f"    {line}", style=Style.PROSE) for line in rest)
            case Code():
                for text in block.text.splitlines():
                    yield from wrap(text, Style.FIXED, FIXED_COLUMNS)
            case Table():
                yield from _lay_out_table(block)
            case Illustration():
                continue
        yield SPACE


def _lay_out_table(table: Table) -> Iterator[Line]:
    widths = _fit(table)
    if table.title:
        yield from wrap(table.title, Style.PROSE, PROSE_COLUMNS, keeps_next=True)
    for text in _lay_out_row(table.columns, table, widths):
        yield Line(text=text, style=Style.FIXED, keeps_next=True)
    yield Line(text=_GAP.join("─" * width for width in widths), style=Style.FIXED, keeps_next=True)
    for row in table.rows:
        texts = _lay_out_row(row, table, widths)
        yield from (Line(text=text, style=Style.FIXED, keeps_next=text is not texts[-1]) for text in texts)


def _fit(table: Table) -> list[int]:
    """Widths of the columns: as wide as their cells, then the widest one narrower until all fit."""
    cells = (table.columns, *table.rows)
    widths = [max(1, *(len(row[column]) for row in cells)) for column in range(len(table.columns))]
    available = FIXED_COLUMNS - len(_GAP) * (len(widths) - 1)
    while sum(widths) > available and max(widths) > _LEAST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    return widths


def _lay_out_row(row: tuple[str, ...], table: Table, widths: list[int]) -> list[str]:
    cells = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
    height = max(len(cell) for cell in cells)
    lines = []
    for position in range(height):
        parts = []
        for name, cell, width in zip(table.columns, cells, widths, strict=True):
            text = cell[position] if position < len(cell) else ""
            parts.append(text.rjust(width) if name in table.numeric else text.ljust(width))
        lines.append(_GAP.join(parts).rstrip())
    return lines
