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
from dataclasses import dataclass
from pathlib import Path

from autotune.observed.observation import Reason, Refused
from autotune.observed.quantities import shorten
from runtime.errors import InputError
from runtime.files import as_text, read_file

COLUMNS = (
    *("id", "source", "date", "gpu", "vram_gib", "model", "component", "layers", "weight_bytes", "workload", "steps"),
    *("prefetch", "resident", "policy", "pin", "peak_vram", "peak_unit", "latency_s", "latency_scope", "oom", "notes"),
    *("width", "height", "frames", "forwards_per_step", "host_memory", "settings", "server", "tp_size", "variant"),
)
"""Columns that are read; others are ignored and named in a note."""

_REQUIRED = ("gpu", "model")
_FIGURES = ("latency_s", "peak_vram", "oom")
# Programs that fill gaps with NaN write whole numbers with a point.
_WHOLE = ("layers", "steps", "prefetch", "resident", "width", "height", "frames", "forwards_per_step", "tp_size")
_POINT_ZERO = re.compile(r"([0-9]{1,9})\.0+")
_EMPTY = frozenset({"nan", "none", "null", "n/a", "na", "-", "?"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row.

    Attributes:
        name: its id; ``row 7`` without one.
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
    first = next((cells for cells in records if isinstance(cells, str) or any(cell.strip() for cell in cells)), [])
    header = [] if isinstance(first, str) else [_normalise(cell) for cell in first]
    notes = _check_header(header, file_name)
    rows: list[TableRow] = []
    refused: list[Refused] = []
    for number, cells in enumerate(records, start=1):
        where = f"{file_name} line {reader.line_num}"
        if isinstance(cells, str):
            refused.append(Refused(name=f"row {number}", where=where, reason=Reason.UNREADABLE, text=cells))
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if [_normalise(cell) for cell in cells] == header:
            notes.append(f"{where}: the header once more, passed over")
            continue
        row = _build_row(header, cells, number, where)
        problem = _find_problem(header, cells, separator)
        if problem:
            refused.append(Refused(name=row.name, where=where, reason=Reason.UNREADABLE, text=problem))
        else:
            rows.append(row)
    return TableRows(rows=tuple(rows), refused=tuple(refused), notes=tuple(notes))


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


def _check_header(header: list[str], file_name: str) -> list[str]:
    missing = [column for column in _REQUIRED if column not in header]
    if missing or not any(column in header for column in _FIGURES):
        wanted = ", ".join(missing) if missing else f"none of {', '.join(_FIGURES)}"
        raise InputError(
            f"{file_name} has no usable header: {'it lacks ' if missing else 'it has '}{wanted}; a table needs gpu, model "
            f"and one of {', '.join(_FIGURES)}, and may have {', '.join(c for c in COLUMNS if c not in _REQUIRED)}"
        )
    notes = []
    unknown = [column or "(no name)" for column in header if column not in COLUMNS]
    if unknown:
        notes.append(f"{file_name}: columns that are not read: {shorten(', '.join(unknown), 300)}")
    return notes


def _build_row(header: list[str], cells: list[str], number: int, where: str) -> TableRow:
    found: dict[str, str] = {}
    for column, cell in zip(header, cells, strict=False):
        if column in COLUMNS and not found.get(column):
            text = "" if cell.strip().casefold() in _EMPTY and column not in _FIGURES else cell.strip()
            whole = _POINT_ZERO.fullmatch(text) if column in _WHOLE else None
            found[column] = whole[1] if whole else text
    name = shorten(" ".join(found.get("id", "").split()), 60) or f"row {number}"
    return TableRow(name=name, where=where, cells=found)


def _find_problem(header: list[str], cells: list[str], separator: str) -> str:
    """Why the cells of a row cannot be trusted; empty where they can."""
    if len(cells) != len(header):
        what = "the row is cut off" if len(cells) < len(header) else "quote cells that contain the separator"
        return f"it has {len(cells)} cells and the header {len(header)}: {what}"
    spilled = next((cell for cell in cells if cell.count("\n") > 2 and cell.count(separator) > 2), None)
    if spilled is not None:
        return f"a quotation mark is not closed: {shorten(spilled)!r} holds the rows that follow"
    for column in set(header):
        values = {cell.strip() for name, cell in zip(header, cells, strict=True) if name == column and column in COLUMNS}
        if len(values) > 1:
            return f"the column {column} stands there more than once and says {' and '.join(sorted(map(shorten, values)))}"
    if separator == ";":
        figures = {name: cell.strip() for name, cell in zip(header, cells, strict=True) if name in _FIGURES}
        comma = next((cell for cell in figures.values() if re.fullmatch(r"[0-9]+,[0-9]+", cell)), None)
        if comma is not None:
            return f"{comma!r} may be a decimal comma or a thousands separator: write a decimal point"
    return ""
