"""What people see: tables and findings on standard output, progress and errors on standard error."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import msgspec
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from reports.tables import Table
from runtime.files import as_text

# Output that goes to a file or a pipe is not cut to the 80 columns that terminals once had.
_PIPED_WIDTH = 120
_GAP = 2
_FOLDED_WIDTH = 20

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)


class Steps:
    """Progress on standard error: what is being done now, and how far a counted step has come."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=None)

    def notify(self, text: str) -> None:
        """A new step begins."""
        self._progress.update(self._task, description=text, total=None, completed=0)

    def count(self, done: int, total: int) -> None:
        """The step has come to ``done`` of ``total``."""
        self._progress.update(self._task, completed=done, total=total)


@contextmanager
def show_steps() -> Iterator[Steps]:
    """A live line while something takes long; it disappears afterwards and is silent when nobody watches."""
    text = TextColumn("{task.description}")
    columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as progress:
        yield Steps(progress)


def print_json(value: object) -> None:
    """``value`` as indented JSON on standard output."""
    plain = _make_encodable(msgspec.to_builtins(value))
    _write(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())


def print_table(table: Table) -> None:
    """``table`` on standard output, without its optional columns where they do not fit."""
    fitted = _fit(table, _width())
    rich = RichTable(
        title=fitted.title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, _GAP, 0, 0),
        pad_edge=False,
    )
    for column in fitted.columns:
        rich.add_column(
            column,
            justify="right" if column in fitted.numeric else "left",
            overflow="fold",
            no_wrap=column not in fitted.foldable,
        )
    for row in fitted.rows:
        rich.add_row(*(Text(cell) for cell in row))
    OUT.width = _width()
    with OUT.capture() as captured:
        OUT.print(rich)
    _write("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_lines(lines: Iterable[str], *, bullet: str = "") -> None:
    """Sentences, one a paragraph, continued under their first word."""
    indent = " " * len(bullet)
    for line in lines:
        _write(
            textwrap.fill(
                line,
                width=_width(),
                initial_indent=bullet,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )


def print_text(text: str) -> None:
    """``text`` on standard output, laid out as it is."""
    _write(text.rstrip("\n"))


def print_error(text: str) -> None:
    """One message on standard error, on one line, so that it can be searched for."""
    sys.stderr.write(f"{_make_visible(text)}\n")


def _make_visible(text: str) -> str:
    """``text`` with control characters as escapes: a name from a file must not steer the terminal."""
    return "".join(part if part.isprintable() or part == "\n" else ascii(part)[1:-1] for part in text)


def _make_encodable(value: object) -> object:
    """``value``, built-in objects alone, with file names in it that are no text made one."""
    if isinstance(value, str):
        return as_text(value)
    if isinstance(value, dict):
        return {_make_encodable(key): _make_encodable(item) for key, item in value.items()}
    return [_make_encodable(item) for item in value] if isinstance(value, list | tuple) else value


def _write(text: str) -> None:
    # A name may hold what the terminal's encoding cannot say; that is no reason to fail.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(f"{_make_visible(text)}\n".encode(encoding, "backslashreplace").decode(encoding))


def _width() -> int:
    if sys.stdout.isatty():
        return Console().width
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) >= 40 else _PIPED_WIDTH


def _fit(table: Table, width: int) -> Table:
    """``table`` with as few optional columns left out as the width demands."""
    for name in table.optional:
        if _natural_width(table) <= width:
            break
        position = table.columns.index(name)
        table = replace(
            table,
            columns=table.columns[:position] + table.columns[position + 1 :],
            rows=tuple(row[:position] + row[position + 1 :] for row in table.rows),
        )
    return table


def _natural_width(table: Table) -> int:
    """Characters that ``table`` takes; a column whose text may be folded is counted as far as it can still be read."""
    widths = []
    for index, name in enumerate(table.columns):
        longest = max(len(cell) for cell in (name, *(row[index] for row in table.rows)))
        widths.append((min(longest, _FOLDED_WIDTH) if name in table.foldable else longest) + _GAP)
    # One character of frame before, between and after the columns.
    return sum(widths) + len(widths) + 1
