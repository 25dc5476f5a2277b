"""Where a recording and our reproduction of it part, and how two values are compared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

RecordedAction: TypeAlias = list[str | int]

# Of recorded and replayed seconds: both are sums of the same doubles, taken in another order.
TIME_TOLERANCE_RATIO = 1e-6

_LONGEST_TEXT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field in which a record is not reproduced.

    Attributes:
        line: of the file, counted from 1.
        field: path inside the record, such as ``passes[1][4]``.
        expected: what was recorded, shortened.
        got: what we find instead, shortened.
    """

    line: int
    field: str
    expected: str
    got: str

    def describe(self) -> str:
        """The difference in one line, for people."""
        return f"line {self.line}, {self.field}: recorded {self.expected}, got {self.got}"


FieldDifference: TypeAlias = tuple[str, object, object]
"""Field, what was recorded, what we find: a difference before it knows its line."""


def shorten(value: object) -> str:
    """``value`` as compact JSON, cut to a readable length."""
    text = json.dumps(value, separators=(",", ":"), default=str)
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."


def compare_values(field: str, expected: object, got: object) -> Iterator[FieldDifference]:
    """Yield a difference unless both are equal."""
    if expected != got:
        yield field, expected, got


def compare_times(field: str, expected_s: float, got_s: float) -> Iterator[FieldDifference]:
    """Yield a difference unless both agree within the tolerance."""
    if not math.isclose(expected_s, got_s, rel_tol=TIME_TOLERANCE_RATIO):
        yield field, expected_s, got_s


def compare_actions(
    field: str, expected: Sequence[RecordedAction], got: Sequence[Sequence[str | int]]
) -> Iterator[FieldDifference]:
    """Yield the first action at which both part; the order inside a run of releases does not matter."""
    recorded, ours = _sort_releases(expected), _sort_releases(got)
    for index in range(max(len(recorded), len(ours))):
        one = recorded[index] if index < len(recorded) else "nothing more"
        other = ours[index] if index < len(ours) else "nothing more"
        if one != other:
            yield f"{field}[{index}]", one, other
            return


def _sort_releases(actions: Sequence[Sequence[str | int]]) -> list[list[str | int]]:
    """``actions`` with each run of consecutive releases in one fixed order."""
    ordered: list[list[str | int]] = []
    run: list[list[str | int]] = []
    for action in actions:
        if action[:1] == ["release"] or action[:1] == ("release",):
            run.append(list(action))
            continue
        ordered += [*sorted(run, key=str), list(action)]
        run = []
    return ordered + sorted(run, key=str)
