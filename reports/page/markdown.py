"""A report as Markdown: the same content as the page, with the values of its pictures instead of the pictures. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from reports.markdown import render_table
from reports.page.blocks import Block, Bullets, Code, Illustration, Paragraph
from reports.page.content import build_page
from reports.run_data import RunData
from reports.tables import Table

# Longer tables behind pictures are for programs, which read the CSV files beside the report.
MAX_PICTURE_ROWS = 40
# What begins a tag, a comment or a declaration in the HTML that Markdown lets through.
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_SHOWN = r"\\<"


def render_markdown(data: RunData) -> str:
    """The report on ``data``; equal records give equal texts."""
    page = build_page(data)
    parts = [f"# {_plain(page.title)}", f"**{_plain(page.headline)}**", *_blocks(page.lead, "")]
    for section in page.sections:
        parts.append(f"## {_plain(section.heading)}")
        parts += _blocks(section.blocks, section.heading)
    return "\n\n".join(parts) + "\n"


def _blocks(blocks: Iterable[Block], heading: str) -> Iterator[str]:
    for block in blocks:
        match block:
            case Paragraph():
                yield _plain(block.text)
            case Bullets():
                yield "\n".join(f"- {_plain(line)}" for line in block.lines)
            case Code():
                yield _fenced(block.text)
            case Illustration():
                yield f"**{_plain(block.finding)}**"
                yield _plain(block.caption)
                yield from _picture_values(block.table)
            case Table():
                yield from _table(block, heading)


def _picture_values(table: Table) -> Iterator[str]:
    if len(table.rows) <= MAX_PICTURE_ROWS:
        yield from _table(table, "")
    else:
        yield f"Its {len(table.rows)} values are in the HTML report and in the CSV files of the run folder."


def _table(table: Table, heading: str) -> Iterator[str]:
    if table.title and table.title != heading:
        yield f"{_plain(table.title)}:"
    yield _TAG.sub(_SHOWN, render_table(replace(table, title="")))


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}bash\n{text}\n{fence}"


def _plain(text: str) -> str:
    """``text`` on one line, so that nothing in it is taken for a tag or begins anything."""
    return _TAG.sub(_SHOWN, " ".join(text.split()))
