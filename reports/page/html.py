"""A report as one HTML page that opens from disk: no script, no request to any host, pictures inside. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from reports.page.blocks import Block, Bullets, Code, Illustration, Paragraph, Section
from reports.page.content import build_page
from reports.page.inline_picture import encode_picture
from reports.page.style import STYLE
from reports.run_data import RunData
from reports.tables import Table

# The browser itself then refuses scripts and requests, should anything ever slip through the escaping.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

# Names of parts may go over two lines after these.
_BREAK = re.compile(r"(?<=[._])(?=\w)")


def render_html(data: RunData) -> str:
    """The page for ``data``; equal records give equal pages."""
    page = build_page(data)
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # Without an icon of its own a page that is served makes the browser ask for one.
        '<link rel="icon" href="data:,">',
        f"<title>{escape(page.title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        "<header>",
        f"<h1>{escape(page.title)}</h1>",
        f'<p class="headline">{escape(page.headline)}</p>',
        *_blocks(page.lead),
        *_contents(page.sections),
        "</header>",
        "<main>",
        *(line for section in page.sections for line in _section(section)),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def _contents(sections: tuple[Section, ...]) -> Iterator[str]:
    if not sections:
        return
    yield '<nav aria-label="Contents">'
    yield "<ul>"
    for section in sections:
        yield f'<li><a href="#{escape(section.key)}">{escape(section.heading)}</a></li>'
    yield "</ul>"
    yield "</nav>"


def _section(section: Section) -> Iterator[str]:
    key = escape(section.key)
    yield f'<section id="{key}" aria-labelledby="{key}-heading">'
    yield f'<h2 id="{key}-heading">{escape(section.heading)}</h2>'
    yield from _blocks(section.blocks)
    yield "</section>"


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Paragraph():
                yield f"<p>{escape(block.text)}</p>"
            case Bullets():
                yield "<ul>"
                yield from (f"<li>{escape(line)}</li>" for line in block.lines)
                yield "</ul>"
            case Code():
                # A box that scrolls can be reached from the keyboard.
                yield f'<pre tabindex="0"><code>{escape(block.text)}</code></pre>'
            case Illustration():
                yield from _illustration(block)
            case Table():
                yield from _table(block)


def _illustration(block: Illustration) -> Iterator[str]:
    picture = encode_picture(block.draw())
    yield "<figure>"
    yield (
        f'<img src="{picture.uri}" width="{picture.width_px}" height="{picture.height_px}" '
        f'alt="{escape(f"{block.finding}. {block.caption}")}">'
    )
    yield f"<figcaption><strong>{escape(block.finding)}.</strong> {escape(block.caption)}</figcaption>"
    yield "</figure>"
    yield "<details>"
    yield f"<summary>Values in this picture: {len(block.table.rows)}</summary>"
    yield from _table(block.table)
    yield "</details>"


def _table(table: Table) -> Iterator[str]:
    yield f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(table.title)}">'
    yield "<table>"
    yield f"<caption><span>{escape(table.title)}</span></caption>"
    yield "<thead>"
    yield f"<tr>{''.join(_head(name, table) for name in table.columns)}</tr>"
    yield "</thead>"
    yield "<tbody>"
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        yield f"<tr>{''.join(_cell(name, cell, table) for name, cell in cells)}</tr>"
    yield "</tbody>"
    yield "</table>"
    yield "</div>"


def _head(name: str, table: Table) -> str:
    # A head without words is none: readers of the screen would announce it with every row.
    return f'<th scope="col"{_kind(name, table)}>{escape(name)}</th>' if name else "<td></td>"


def _cell(name: str, cell: str, table: Table) -> str:
    if name == table.columns[0]:
        return f'<th scope="row"{_kind(name, table)}>{_BREAK.sub("<wbr>", escape(cell))}</th>'
    return f"<td{_kind(name, table)}>{escape(cell)}</td>"


def _kind(name: str, table: Table) -> str:
    if name in table.numeric:
        return ' class="number"'
    return ' class="fold"' if name in table.foldable else ""
