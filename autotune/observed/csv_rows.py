"""The rows of a measurement table: a CSV file as people and their programs write it. Pure but for reading it.

Separators are commas, semicolons or tabs, whichever the header uses; a byte order mark, any line ends and bytes that
are no UTF-8 are accepted. A row with other than the header's number of cells is refused alone, because a figure in it
may be cut or shifted; so is the rest of a file behind a quotation mark that is never closed.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.observed.observation import Reason, Refused
from autotune.observed.quantities import MOST_TEXT, shorten
from runtime.errors import InputError
from runtime.files import as_text, read_file

COLUMNS = (
    *("id", "source", "date", "gpu", "vram_gib", "model", "component", "layers", "weight_bytes", "workload", "steps"),
    *("prefetch", "resident", "policy", "pin", "peak_vram", "peak_unit", "latency_s", "latency_scope", "oom", "notes"),
    *("width", "height", "frames", "forwards_per_step", "host_memory", "settings", "server", "tp_size", "variant"),
)
"""Columns that are read; others are ignored and named in a note."""

_REQUIRED = ("gpu", "model")
_MEASURED = ("latency_s", "peak_vram")
_FIGURES = (*_MEASURED, "oom")
# Programs that fill gaps with NaN write whole numbers with a point.
_WHOLE = ("layers", "steps", "prefetch", "resident", "width", "height", "frames", "forwards_per_step", "tp_size")
_POINT_ZERO = re.compile(r"([0-9]{1,9})\.0+")
_EMPTY = frozenset({"nan", "none", "null", "n/a", "na", "-", "?"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row.

    Attributes:
        name: its id; ``row 7`` without one, and with the number behind it where an earlier row has the same.
        where: file and line on which it ends.
        cells: column -> text without spaces at the ends, for the known columns of the file; empty where nothing stands.
    """

    name: str
    where: str
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """What a file holds: rows, rows that cannot be read, and notes for people."""

    rows: tuple[TableRow, ...]
    refused: tuple[Refused, ...]
    notes: tuple[str, ...]


def load_rows(path: str | Path) -> TableRows:
    """The rows of the table at ``path``.

    Raises:
        InputError: the file cannot be read, is no text, or has no usable header.
    """
    name = as_text(path)
    try:
        content = read_file(path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the measurements {name}: {getattr(error, 'strerror', None) or error}") from error
    if not content.strip():
        raise InputError(f"{name} is empty: a table begins with the names of its columns, e.g. {','.join(COLUMNS[:8])}")
    if b"\0" in content:
        raise InputError(f"{name} is no text: save the table as CSV in UTF-8")
    text = content.decode("utf-8-sig", errors="replace")
    return parse_rows(text, Path(name).name)


def parse_rows(text: str, file_name: str) -> TableRows:
    """The rows of ``text``; ``file_name`` is what messages call it.

    Raises:
        InputError: no usable header.
    """
    separator = _choose_separator(next((line for line in text.splitlines() if line.strip()), ""))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    records = _read_records(reader)
    first = next((cells for cells in records if isinstance(cells, str) or any(map(str.strip, cells))), [])
    header = _Header([] if isinstance(first, str) else first, separator)
    notes = header.check(file_name)
    rows: list[TableRow] = []
    names: set[str] = set()
    refused: list[Refused] = []
    for number, cells in enumerate(records, start=1):
        where = f"{file_name} line {reader.line_num}"
        if isinstance(cells, str):
            refused.append(Refused(name=f"row {number}", where=where, reason=Reason.UNREADABLE, text=cells))
            continue
        if not any(map(str.strip, cells)):
            continue
        if cells == header.written:
            notes.append(f"{where}: the header once more, passed over")
            continue
        row = header.build_row(cells, number, where)
        if row.name in names:
            row = replace(row, name=f"{row.name} (row {number})")
        names.add(row.name)
        problem = header.find_problem(cells)
        if problem:
            refused.append(Refused(name=row.name, where=where, reason=Reason.UNREADABLE, text=problem))
        else:
            rows.append(row)
    return TableRows(rows=tuple(rows), refused=tuple(refused), notes=tuple(notes))


class _Header:
    """The columns of a file and what they mean for its rows."""

    def __init__(self, written: list[str], separator: str) -> None:
        self.written = written
        self._separator = separator
        self._columns = [_normalise(cell) for cell in written]
        self._places = {column: self._columns.index(column) for column in self._columns if column in COLUMNS}
        self._repeated = {
            column: [place for place, name in enumerate(self._columns) if name == column]
            for column in self._places
            if self._columns.count(column) > 1
        }

    def check(self, file_name: str) -> list[str]:
        """Notes about the columns.

        Raises:
            InputError: columns are missing that every row needs.
        """
        missing = [column for column in _REQUIRED if column not in self._places]
        if missing or not any(column in self._places for column in _FIGURES):
            lacks = f"lacks {', '.join(missing)}" if missing else f"has none of {', '.join(_FIGURES)}"
            others = ", ".join(column for column in COLUMNS if column not in (*_REQUIRED, *_FIGURES))
            raise InputError(
                f"{file_name} has no usable header: it {lacks}; a table needs gpu, model and one of "
                f"{', '.join(_FIGURES)}, and may have {others}"
            )
        unknown = [column or "(no name)" for column in self._columns if column not in COLUMNS]
        return [f"{file_name}: columns that are not read: {shorten(', '.join(unknown), 300)}"] if unknown else []

    def build_row(self, cells: list[str], number: int, where: str) -> TableRow:
        """The row with ``cells``; columns that it is too short for are empty."""
        found = {column: _clean(column, cells[place]) for column, place in self._places.items() if place < len(cells)}
        name = shorten(" ".join(found.get("id", "").split()), 60) or f"row {number}"
        return TableRow(name=name, where=where, cells=found)

    def find_problem(self, cells: list[str]) -> str:
        """Why the cells of a row cannot be trusted; empty where they can."""
        if len(cells) != len(self._columns):
            is_short = len(cells) < len(self._columns)
            what = "the row is cut off" if is_short else "quote cells that contain the separator"
            return f"it has {len(cells)} cells and the header {len(self._columns)}: {what}"
        spilled = next((cell for cell in cells if cell.count("\n") > 2 and cell.count(self._separator) > 2), None)
        if spilled is not None:
            return f"a quotation mark is not closed: {shorten(spilled)!r} holds the rows that follow"
        longest = max(cells, key=len)
        if len(longest) > MOST_TEXT:
            return f"a cell has {len(longest):,} characters, beginning {shorten(longest)!r}: {MOST_TEXT:,} are read"
        for column, places in self._repeated.items():
            values = sorted({cells[place].strip() for place in places})
            if len(values) > 1:
                said = " and ".join(repr(shorten(value)) for value in values)
                return f"the column {column} stands there more than once and says {said}"
        if self._separator == ";":
            figures = (cells[place].strip() for column, place in self._places.items() if column in _MEASURED)
            comma = next((cell for cell in figures if re.fullmatch(r"[0-9]+,[0-9]+", cell)), None)
            if comma is not None:
                return f"{comma!r} may be a decimal comma or a thousands separator: write a decimal point"
        return ""


def _clean(column: str, cell: str) -> str:
    text = cell.strip()
    if column not in _MEASURED and text.casefold() in _EMPTY:
        return ""
    whole = _POINT_ZERO.fullmatch(text) if column in _WHOLE else None
    return whole[1] if whole else text


def _read_records(reader: Iterator[list[str]]) -> Iterator[list[str] | str]:
    """The records of ``reader``; a message in place of one that it cannot read."""
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield f"the csv module cannot read the row ({error}): is a quotation mark missing?"


def _choose_separator(header: str) -> str:
    """Of comma, semicolon and tab, the one that splits ``header`` into the most known columns."""
    return max(",;\t", key=lambda mark: sum(_normalise(cell) in COLUMNS for cell in header.split(mark)))


def _normalise(cell: str) -> str:
    return re.sub(r"[\s-]+", "_", cell.strip().strip('"').casefold())
