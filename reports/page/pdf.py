"""A report as a PDF: sheets of text and tables, then a sheet for every picture."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from reports.figures.style import figure_style
from reports.page.blocks import Illustration, Page
from reports.page.content import build_page
from reports.page.text_layout import PROSE_COLUMNS, SPACE, Line, Style, lay_out, wrap
from reports.run_data import RunData
from runtime.documents import replace_file
from runtime.errors import InputError

_PT_PER_INCH = 72
_SHEET_IN = (8.27, 11.69)
_MARGIN_PT = 42.0
# Font size, height of a line, weight and family of every style. The columns of ``text_layout`` follow from them.
_SIZES_PT = {
    Style.TITLE: (16.0, 22.0, "bold", "sans-serif"),
    Style.HEADLINE: (11.0, 16.0, "bold", "sans-serif"),
    Style.HEADING: (11.0, 20.0, "bold", "sans-serif"),
    Style.PROSE: (8.5, 12.0, "normal", "sans-serif"),
    Style.FIXED: (6.7, 9.2, "normal", "monospace"),
    Style.SPACE: (8.5, 7.0, "normal", "sans-serif"),
}


def save_pdf(data: RunData, path: Path) -> None:
    """Write the report on ``data``; equal records give equal files, and a file is replaced whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    page = build_page(data)
    buffer = BytesIO()
    # No date: the content alone says what the report is on.
    metadata = {"Title": page.title, "CreationDate": None, "ModDate": None}
    with figure_style(), PdfPages(buffer, metadata=metadata) as pdf:
        for sheet in _sheets(list(_lines(page))):
            pdf.savefig(sheet)
        for section in page.sections:
            for block in section.blocks:
                if isinstance(block, Illustration):
                    pdf.savefig(block.draw())
    try:
        replace_file(path, buffer.getvalue())
    except OSError as error:
        raise InputError(f"cannot write the report {path}: {error.strerror or error}") from error


def _lines(page: Page) -> Iterator[Line]:
    yield from wrap(page.title, Style.TITLE, PROSE_COLUMNS // 2)
    yield from wrap(page.headline, Style.HEADLINE, PROSE_COLUMNS * 3 // 4)
    yield SPACE
    yield from lay_out(page.lead)
    for section in page.sections:
        blocks = [block for block in section.blocks if not isinstance(block, Illustration)]
        if blocks:
            yield from wrap(section.heading, Style.HEADING, PROSE_COLUMNS // 2, keeps_next=True)
            yield from lay_out(blocks)


def _sheets(lines: list[Line]) -> Iterator[Figure]:
    """Figures of A4 size with as many lines as go into each."""
    height_pt = _SHEET_IN[1] * _PT_PER_INCH - 2 * _MARGIN_PT
    sheet: list[Line] = []
    for line in lines:
        if sum(_SIZES_PT[kept.style][1] for kept in (*sheet, line)) > height_pt:
            last = len(sheet)
            while last > 1 and sheet[last - 1].keeps_next:
                last -= 1
            full, sheet = sheet[:last], sheet[last:]
            yield _draw_sheet(full)
        if sheet or line.style is not Style.SPACE:
            sheet.append(line)
    yield _draw_sheet(sheet)


def _draw_sheet(lines: list[Line]) -> Figure:
    figure = Figure(figsize=_SHEET_IN)
    width_pt, height_pt = (inches * _PT_PER_INCH for inches in _SHEET_IN)
    y_pt = height_pt - _MARGIN_PT
    for line in lines:
        size_pt, line_pt, weight, family = _SIZES_PT[line.style]
        y_pt -= line_pt
        figure.text(
            _MARGIN_PT / width_pt,
            y_pt / height_pt,
            line.text,
            fontsize=size_pt,
            fontweight=weight,
            fontfamily=family,
        )
    return figure
