"""Plans, profiles and measurements side by side: what differs first, what is equal in one line. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.tables import Table
from runtime.units import format_percent, format_seconds, format_size

Value = float | int | str

# Sums of the same seconds in another order differ by less than this share.
_ROUNDING_RATIO = 1e-9

_MOST_NAMES = 12

NO_COMPONENT = "no such component"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One fact: its name, the unit (``s``, ``bytes``, ``bytes/s``, ``share``, another one, or none), and the value."""

    name: str
    value: Value
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One thing that is compared.

    Attributes:
        name: what tables call it.
        kind: ``run``, ``plan``, ``profile`` or ``measurement``.
        placements: in words, by component; empty for what has none.
        entries: everything else that is known of it, the most important first; names are unique.
    """

    name: str
    kind: str
    placements: Mapping[str, str]
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fact on every side; None where a side does not have it."""

    name: str
    unit: str
    values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """The answer.

    Attributes:
        sides: names, in order.
        kinds: of the sides.
        placements: components that are not placed alike on all sides that have placements.
        figures: facts that are not the same on all sides that have them.
        equal: names of components and facts that are the same on all sides that have them.
        alone: per side, names of facts that no other side has.
    """

    sides: tuple[str, ...]
    kinds: tuple[str, ...]
    placements: tuple[Row, ...]
    figures: tuple[Row, ...]
    equal: tuple[str, ...]
    alone: Mapping[str, tuple[str, ...]]


def put_side_by_side(sides: Sequence[Side]) -> SideBySide:
    """Compare two sides or more; their names differ."""
    placements = _compare_placements(sides)
    figures = _join([{entry.name: entry for entry in side.entries} for side in sides])
    shared = [row for row in figures if _count(row) > 1]
    return SideBySide(
        sides=tuple(side.name for side in sides),
        kinds=tuple(side.kind for side in sides),
        placements=tuple(row for row in placements if not _is_equal(row)),
        figures=tuple(row for row in shared if not _is_equal(row)),
        equal=tuple(row.name for row in (*placements, *shared) if _is_equal(row)),
        alone={
            side.name: tuple(row.name for row in figures if _count(row) == 1 and row.values[index] is not None)
            for index, side in enumerate(sides)
        },
    )


def _compare_placements(sides: Sequence[Side]) -> tuple[Row, ...]:
    """A row per component, where two sides have placements or more; a side without a component places it otherwise."""
    if sum(bool(side.placements) for side in sides) < 2:
        return ()
    rows = _join([{name: Entry(name=name, value=text) for name, text in side.placements.items()} for side in sides])
    return tuple(
        Row(
            name=row.name,
            unit="",
            values=tuple(
                NO_COMPONENT if value is None and side.placements else value
                for value, side in zip(row.values, sides, strict=True)
            ),
        )
        for row in rows
    )


def _join(sides: Sequence[Mapping[str, Entry]]) -> tuple[Row, ...]:
    """A row per name, in the order in which names are first met."""
    units = {name: entry.unit for side in reversed(sides) for name, entry in side.items()}
    names = dict.fromkeys(name for side in sides for name in side)
    return tuple(
        Row(
            name=name,
            unit=units[name],
            values=tuple(side[name].value if name in side else None for side in sides),
        )
        for name in names
    )


def _count(row: Row) -> int:
    return sum(value is not None for value in row.values)


def _is_equal(row: Row) -> bool:
    """Whether all sides that have it agree; numbers that differ by rounding do."""
    values = [value for value in row.values if value is not None]
    first = values[0]
    return all(
        math.isclose(first, value, rel_tol=_ROUNDING_RATIO)
        if isinstance(first, float | int) and isinstance(value, float | int)
        else first == value
        for value in values
    )


def placements_table(found: SideBySide) -> Table:
    """Components that are placed in different ways."""
    rows = tuple((row.name, *(str(value or "") for value in row.values)) for row in found.placements)
    return Table(
        title="Placed differently",
        columns=("component", *found.sides),
        rows=rows,
        foldable=frozenset(found.sides),
    )


def figures_table(found: SideBySide) -> Table:
    """Facts that differ; beside two sides, by how much more the second one has."""
    has_change = len(found.sides) == 2
    rows = tuple(
        (
            row.name,
            *("" if value is None else format_entry(value, row.unit) for value in row.values),
            *((_describe_change(row),) if has_change else ()),
        )
        for row in found.figures
    )
    columns = ("", *found.sides, *(("change",) if has_change else ()))
    return Table(
        title="Different",
        columns=columns,
        rows=rows,
        numeric=frozenset({"change"}) if has_change else frozenset(),
        foldable=frozenset(("", *found.sides)),
    )


def _describe_change(row: Row) -> str:
    before, after = row.values
    if not isinstance(before, float | int) or not isinstance(after, float | int) or not before:
        return ""
    ratio = after / before - 1
    return f"{'+' if ratio > 0 else '-'}{format_percent(abs(ratio))}"


def describe_rest(found: SideBySide) -> tuple[str, ...]:
    """What is equal, in one sentence, and what only one side has."""
    lines = [f"Equal: {_name(found.equal)}" if found.equal else "Nothing is equal"]
    if not found.placements and not found.figures:
        lines.insert(
            0, "Nothing that both have differs" if len(found.sides) == 2 else "Nothing that they share differs"
        )
    lines += [f"Only in {side}: {_name(names)}" for side, names in found.alone.items() if names]
    return tuple(lines)


def _name(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def format_entry(value: Value, unit: str) -> str:
    """``value`` with its unit, for people."""
    if isinstance(value, str):
        return value
    if unit == "s":
        return format_seconds(value)
    if unit == "bytes":
        return format_size(value)
    if unit == "bytes/s":
        return f"{value / 1e9:,.2f} GB/s"
    if unit == "share":
        return format_percent(value)
    return f"{value:,.4g} {unit}".rstrip()
