"""What a report is made of, whatever it is rendered as: sections of blocks in reading order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from reports.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """One paragraph of plain text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bullets:
    """Lines of plain text, each a point of its own."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Lines to type or to run, as they are."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Illustration:
    """A picture and what stands for it where it is not seen.

    Attributes:
        draw: makes the figure; renderers without pictures never call it.
        finding: what it says, in words; the figure's title.
        caption: what it shows and how to read it.
        table: exactly the values that are drawn.
    """

    draw: Callable[[], Figure]
    finding: str
    caption: str
    table: Table


Block = Paragraph | Bullets | Code | Table | Illustration


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Blocks under a heading; ``key`` is its name in links and is no other section's."""

    key: str
    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole report.

    Attributes:
        title: what it is about.
        headline: the finding to act on.
        lead: what comes before the first heading.
        sections: in the order in which a person acts; none is empty.
    """

    title: str
    headline: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...]
