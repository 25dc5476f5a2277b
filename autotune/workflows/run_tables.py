"""The tables of a run folder, read back row by row: every cell is what the run wrote, or the file is refused."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from reports.run_data import CurvePoint, HostPoint, TrialRow
from runtime.errors import InputError

CURVE_NAME, HOSTS_NAME, TRIALS_NAME, USES_NAME = "pareto.csv", "host.csv", "trials.csv", "uses.csv"

CURVE_COLUMNS = ("charged_bytes", "latency_s", "fits")
"""Columns of ``pareto.csv``, before one per component."""

HOST_COLUMNS = ("host_bytes", "latency_s", "charged_bytes", "disk_read_bytes", "is_own")
"""Columns of ``host.csv``."""

TRIAL_COLUMNS = ("run", "number", "origin", "feasible", "latency_s", "charged_bytes", "repeated", "failure")
"""Columns of ``trials.csv``, before one per component."""

_REMEDY = "make the run again with autotune search"

Row = TypeVar("Row")


def decode_curve(text: bytes, components: tuple[str, ...] | None) -> tuple[CurvePoint, ...]:
    """The trade-off curve of ``pareto.csv``; ``components`` are the plan's, None where no plan could be read.

    Raises:
        InputError: it is no such table, of other components, or damaged.
    """

    def build(cells: _Cells) -> CurvePoint:
        return CurvePoint(
            charged_bytes=cells.count("charged_bytes"),
            latency_s=cells.time("latency_s"),
            fits=cells.flag("fits"),
            placements=cells.placements,
        )

    return _decode(text, CURVE_COLUMNS, components, build)


def decode_hosts(text: bytes) -> tuple[HostPoint, ...]:
    """The points of ``host.csv``.

    Raises:
        InputError: it is no such table, or damaged.
    """

    def build(cells: _Cells) -> HostPoint:
        return HostPoint(
            host_bytes=cells.count("host_bytes"),
            latency_s=cells.optional("latency_s", cells.time),
            charged_bytes=cells.optional("charged_bytes", cells.count),
            disk_read_bytes=cells.count("disk_read_bytes"),
            is_own=cells.flag("is_own"),
        )

    return _decode(text, HOST_COLUMNS, (), build)


def decode_trials(text: bytes, components: tuple[str, ...] | None) -> tuple[TrialRow, ...]:
    """The trials of ``trials.csv``; ``components`` as of ``decode_curve``.

    Raises:
        InputError: it is no such table, of other components, or damaged.
    """

    def build(cells: _Cells) -> TrialRow:
        return TrialRow(
            run=cells.text("run"),
            number=cells.count("number"),
            origin=cells.text("origin"),
            feasible=cells.flag("feasible"),
            latency_s=cells.optional("latency_s", cells.time),
            charged_bytes=cells.optional("charged_bytes", cells.count),
            failure=cells.text("failure"),
            placements=cells.placements,
        )

    return _decode(text, TRIAL_COLUMNS, components, build)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cells:
    """One row, by column."""

    cells: Mapping[str, str]
    placements: Mapping[str, str]

    def text(self, column: str) -> str:
        return self.cells[column]

    def flag(self, column: str) -> bool:
        if self.cells[column] not in ("True", "False"):
            raise ValueError(f"{column} is {self.cells[column]!r}, not True or False")
        return self.cells[column] == "True"

    def count(self, column: str) -> int:
        value = self._number(column)
        if value != int(value):
            raise ValueError(f"{column} is {self.cells[column]}, which is no whole number")
        return int(value)

    def time(self, column: str) -> float:
        return self._number(column)

    def optional(self, column: str, read: Callable[[str], Row]) -> Row | None:
        return read(column) if self.cells[column] else None

    def _number(self, column: str) -> float:
        try:
            value = float(self.cells[column])
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{column} is {self.cells[column]!r}, not a number from 0 up")
        return value


def _decode(
    text: bytes, columns: tuple[str, ...], components: tuple[str, ...] | None, build: Callable[[_Cells], Row]
) -> tuple[Row, ...]:
    try:
        lines = list(csv.reader(text.decode().splitlines(), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"is no table ({error}): {_REMEDY}") from error
    head = tuple(lines[0]) if lines else ()
    if head[: len(columns)] != columns:
        missing = ", ".join(name for name in columns if name not in head) or "the order of its columns"
        raise InputError(f"is no table of this kind, or one of an older program: it lacks {missing}; {_REMEDY}")
    others = head[len(columns) :]
    if components is not None and others != components:
        raise InputError(
            f"belongs to another run: its components are {', '.join(others) or 'none'}, those of the plan "
            f"{', '.join(components) or 'none'}; {_REMEDY}"
        )
    return tuple(_build_row(number, line, head, len(columns), build) for number, line in enumerate(lines[1:], start=2))


def _build_row(number: int, line: list[str], head: tuple[str, ...], own: int, build: Callable[[_Cells], Row]) -> Row:
    if len(line) != len(head):
        raise InputError(f"is damaged: line {number} has {len(line)} cells, not {len(head)}; {_REMEDY}")
    cells = dict(zip(head, line, strict=True))
    placements = {name: cells[name] for name in head[own:]}
    try:
        return build(_Cells(cells=cells, placements=placements))
    except ValueError as error:
        raise InputError(f"is damaged: line {number}: {error}; {_REMEDY}") from error
