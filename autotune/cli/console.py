"""What people see: tables and findings on standard output, progress and errors on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from reports.tables import Table

# Output that goes to a file or a pipe is not cut to the 80 columns that terminals once had.
_PIPED_WIDTH = 120

OUT = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
ERR = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else _PIPED_WIDTH)


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
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=ERR, transient=True) as progress:
        yield Steps(progress)


def print_json(value: object) -> None:
    """``value`` as indented JSON on standard output."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_table(table: Table) -> None:
    """``table`` on standard output."""
    rich = RichTable(
        title=table.title or None, title_justify="left", title_style="bold", pad_edge=False, box=box.SIMPLE_HEAD
    )
    for column in table.columns:
        rich.add_column(column, justify="right" if column in table.numeric else "left", overflow="fold")
    for row in table.rows:
        rich.add_row(*row)
    OUT.print(rich)


def print_lines(lines: tuple[str, ...] | list[str], *, bullet: str = "") -> None:
    """Sentences, one a paragraph."""
    for line in lines:
        OUT.print(f"{bullet}{line}", markup=False)
