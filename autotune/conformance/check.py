"""Reads a recorded file, recognises what it holds, and checks every record of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from autotune.conformance.defaults import check_defaults
from autotune.conformance.difference import Difference, FieldDifference, shorten
from autotune.conformance.flags import check_flags
from autotune.conformance.hosting import check_hosting
from autotune.conformance.lifecycle import check_lifecycle
from autotune.conformance.records import (
    DefaultsRecord,
    FlagRecord,
    HostingRecord,
    LifecycleRecord,
    ScheduleRecord,
    TimingRecord,
)
from autotune.conformance.schedule import check_schedule
from autotune.conformance.timing import check_timing
from runtime.errors import InputError
from runtime.files import read_file

RecordT = TypeVar("RecordT")


class RecordKind(StrEnum):
    """Kinds of recorded files."""

    SCHEDULE = "schedule traces"
    TIMING = "timing cases"
    LIFECYCLE = "lifecycle cases"
    FLAGS = "flag cases"
    HOSTING = "hosting cases"
    DEFAULTS = "default cases"


# Keys that only records of that kind have; one is enough, so that a record that lacks some is still recognised.
_SIGNATURES = {
    RecordKind.SCHEDULE: ("passes", "setup", "next_request_first_pass", "live_after_passes"),
    RecordKind.TIMING: ("link_bytes_per_s", "steady_pass_s", "first_pass_after_load_s"),
    RecordKind.LIFECYCLE: ("requests", "knobs", "live_after_load"),
    RecordKind.FLAGS: ("argv",),
    RecordKind.HOSTING: ("hosting", "spendable_pin_bytes"),
    RecordKind.DEFAULTS: ("component_parameters", "performance_mode"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceReport:
    """How much of a recorded file we reproduce.

    Attributes:
        path: the file.
        kind: what it holds.
        matched: records reproduced in every field.
        total: records in the file.
        differences: every field that is not reproduced, in the order of the file.
    """

    path: str
    kind: RecordKind
    matched: int
    total: int
    differences: tuple[Difference, ...]

    @property
    def agrees(self) -> bool:
        """Whether every record is reproduced."""
        return self.matched == self.total


@dataclass(frozen=True, slots=True)
class _Checker(Generic[RecordT]):
    """How records of one kind are read and checked."""

    record: type[RecordT]
    check: Callable[[RecordT], Iterator[FieldDifference]]

    def find_differences(self, number: int, line: bytes) -> list[Difference]:
        """Fields of the record in ``line`` that are not reproduced."""
        record = msgspec.json.decode(line, type=self.record)
        return [
            Difference(line=number, field=field, expected=shorten(expected), got=shorten(got))
            for field, expected, got in self.check(record)
        ]


_CHECKERS: dict[RecordKind, _Checker[Any]] = {
    RecordKind.SCHEDULE: _Checker(ScheduleRecord, check_schedule),
    RecordKind.TIMING: _Checker(TimingRecord, check_timing),
    RecordKind.LIFECYCLE: _Checker(LifecycleRecord, check_lifecycle),
    RecordKind.FLAGS: _Checker(FlagRecord, check_flags),
    RecordKind.HOSTING: _Checker(HostingRecord, check_hosting),
    RecordKind.DEFAULTS: _Checker(DefaultsRecord, check_defaults),
}


def check_file(path: Path | str) -> ConformanceReport:
    """Reproduce every record of the recorded file at ``path`` (JSON Lines, one kind of record).

    Raises:
        InputError: the file cannot be read, is empty, or has a line that is no such record; names file and line.
    """
    path = Path(path)
    lines = _read_lines(path)
    kind = _recognise_file(path, lines)
    checker = _CHECKERS[kind]
    matched = 0
    differences: list[Difference] = []
    for number, line in lines:
        with _locating(path, number):
            found = checker.find_differences(number, line)
        matched += not found
        differences += found
    total = len(lines)
    return ConformanceReport(path=str(path), kind=kind, matched=matched, total=total, differences=tuple(differences))


def _read_lines(path: Path) -> list[tuple[int, bytes]]:
    try:
        data = read_file(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    if not lines:
        raise InputError(f"{path}:1: the file is empty; a recorded file has one JSON object a line")
    return lines


def _recognise_file(path: Path, lines: list[tuple[int, bytes]]) -> RecordKind:
    """The kind of all records; a file holds one kind only."""
    kinds: list[RecordKind] = []
    for number, line in lines:
        with _locating(path, number):
            kind = _recognise(line)
            if kinds and kind is not kinds[0]:
                raise InputError(f"this record is one of the {kind}, in a file of {kinds[0]}; give a file per kind")
            kinds.append(kind)
    return kinds[0]


def _recognise(line: bytes) -> RecordKind:
    record = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    kinds = [kind for kind, keys in _SIGNATURES.items() if any(key in record for key in keys)]
    if len(kinds) != 1:
        known = ", ".join(_SIGNATURES)
        keys = ", ".join(sorted(record)) or "none"
        raise InputError(f"unknown kind of record, with the keys {keys[:200]}; known are {known}")
    return kinds[0]


@contextmanager
def _locating(path: Path, number: int) -> Iterator[None]:
    """Name file and line in whatever is wrong with a record."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}:{number}: {error}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path}:{number}: not a record as the server's recorder writes it: {error}") from error
    except RecursionError as error:
        raise InputError(f"{path}:{number}: not a record: it is nested too deeply") from error
