"""A model profile as tables: per component, which of its pieces take the time and what they reach. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.measurements.model_profile import MeasuredPiece, ModelProfile
from autotune.measurements.records import AROUND, PieceRecord
from autotune.measurements.timing import Timing
from reports.profile_troubles import Taken, mark
from reports.profile_values import format_interval, format_spread, round_percent
from reports.tables import Table
from runtime.units import format_seconds, format_size

SMALL_RATIO = 0.001
"""Pieces with less than this share of their component's time are summed up in the short form."""

_COLUMNS = ("piece", "calls", "time", "spread", "share", "TFLOP/s", "activations")
_ALL_COLUMNS = (*_COLUMNS[:4], "low to high", "samples", *_COLUMNS[4:6], "GB/s", "activations")
_SPREAD_COLUMNS = frozenset({"spread", "low to high"})
_OPTIONAL = ("GB/s", "samples", "TFLOP/s", "low to high")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPiece:
    """A piece with a name that no other piece of its component has.

    Attributes:
        name: its first place; ``#2`` and so on where one place is called with other shapes, too.
        piece: what was measured.
    """

    name: str
    piece: MeasuredPiece

    @property
    def total_s(self) -> float:
        """Seconds of all its calls; 0 where it was not measured."""
        timing = self.piece.record.timing
        return self.piece.calls * timing.median_s if timing is not None else 0.0

    @property
    def full_name(self) -> str:
        """With the component."""
        return f"{self.piece.record.component} {self.name}"


def name_pieces(profile: ModelProfile) -> tuple[NamedPiece, ...]:
    """Every piece of ``profile``, in its order."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for piece in profile.pieces:
        place = (piece.record.component, piece.record.name)
        seen[place] += 1
        name = "around its pieces" if piece.record.name == AROUND else piece.record.name
        found.append(NamedPiece(name=name if seen[place] == 1 else f"{name} #{seen[place]}", piece=piece))
    return tuple(found)


def take_pieces(profile: ModelProfile) -> list[Taken]:
    """The timings of all pieces that were measured."""
    return [
        Taken(name=item.full_name, timing=timing, disturbances=item.piece.record.disturbances)
        for item in name_pieces(profile)
        if (timing := item.piece.record.timing) is not None
    ]


def piece_tables(profile: ModelProfile, *, full: bool) -> tuple[Table, ...]:
    """Per component one table of its pieces.

    Args:
        profile: of the model.
        full: every piece, with its interval and class; else pieces that take hardly any time are summed up.
    """
    pieces = name_pieces(profile)
    names = dict.fromkeys(item.piece.record.component for item in pieces)
    return tuple(
        _table(profile, [item for item in pieces if item.piece.record.component == name], full=full) for name in names
    )


def describe_unmeasured(profile: ModelProfile) -> tuple[str, ...]:
    """Which pieces were not measured, each with the others that have the same reason, and the reason."""
    reasons: dict[str, list[str]] = {}
    for item in name_pieces(profile):
        record = item.piece.record
        if record.timing is None:
            reason = ": ".join(part for part in (record.outcome.replace("_", " "), record.note) if part)
            reasons.setdefault(reason, []).append(item.full_name)
    return tuple(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())


def describe_notes(profile: ModelProfile) -> tuple[str, ...]:
    """What limits figures that were measured, one sentence per note; and what ``#2`` means where it occurs."""
    notes: dict[str, list[str]] = {}
    pieces = name_pieces(profile)
    for item in pieces:
        if item.piece.record.timing is not None and item.piece.record.note:
            notes.setdefault(item.piece.record.note, []).append(item.name)
    sentences = [f"{', '.join(dict.fromkeys(names))}: {note}" for note, names in notes.items()]
    if any("#" in item.name for item in pieces):
        sentences.append("#2 and so on: the same place, called with inputs of other shapes")
    return tuple(sentences)


def _table(profile: ModelProfile, pieces: Sequence[NamedPiece], *, full: bool) -> Table:
    component, total_s = pieces[0].piece.record.component, sum(item.total_s for item in pieces)
    small = [] if full else _find_small(pieces, total_s)
    cells = [_describe(item, total_s, full=full) for item in pieces if item not in small]
    if small:
        share = round_percent(sum(item.total_s for item in small) / total_s)
        cells.append({"piece": f"and {len(small)} more pieces", "share": share})
    columns = _choose_columns(pieces, full=full)
    return Table(
        title=_title(profile, component, pieces, total_s),
        columns=columns,
        rows=tuple(tuple(row.get(column, "") for column in columns) for row in cells),
        numeric=frozenset(columns) - {"piece", "low to high"},
        foldable=frozenset({"piece"}),
        optional=tuple(name for name in _OPTIONAL if name in columns),
    )


def _title(profile: ModelProfile, component: str, pieces: Sequence[NamedPiece], total_s: float) -> str:
    """What the calls of the table add up to, and how often a request makes them."""
    passes = max(item.piece.passes for item in pieces)
    wanted = count_passes(profile, component)
    span = "a pass" if passes == 1 else f"in {passes} passes"
    request = f" (of {wanted} in a request)" if wanted != passes else ""
    timed = sum(item.piece.record.timing is not None for item in pieces)
    lost = f", {timed} of {len(pieces)} pieces timed" if timed < len(pieces) else ""
    return f"{component}: {format_seconds(total_s)} {span}{request}{lost}"


def count_passes(profile: ModelProfile, component: str) -> int:
    """Passes that a request makes through the component's most used stack."""
    uses = [use for use in profile.facts.request.uses if use.component == component]
    return sum(max((group.passes for group in use.groups), default=1) for use in uses)


def _find_small(pieces: Sequence[NamedPiece], total_s: float) -> list[NamedPiece]:
    """Those to sum up; one alone is shown, since the sum would take as much room."""
    small = [item for item in pieces if item.piece.record.timing is not None and item.total_s < SMALL_RATIO * total_s]
    return small if len(small) > 1 else []


def _choose_columns(pieces: Sequence[NamedPiece], *, full: bool) -> tuple[str, ...]:
    """Without the spread where nothing was timed twice."""
    timings = [item.piece.record.timing for item in pieces]
    is_repeated = any(timing is not None and timing.count > 1 for timing in timings)
    return tuple(name for name in (_ALL_COLUMNS if full else _COLUMNS) if is_repeated or name not in _SPREAD_COLUMNS)


def _describe(item: NamedPiece, total_s: float, *, full: bool) -> dict[str, str]:
    """Text by column."""
    piece, record = item.piece, item.piece.record
    alike = f" and {len(piece.places) - 1} alike" if len(piece.places) > 1 else ""
    cells = {
        "piece": f"{item.name}{alike}" + (f" ({record.class_name})" if full else ""),
        "calls": f"{piece.calls}",
        "time": record.outcome.replace("_", " "),
        "activations": "" if record.rise_bytes is None else format_size(record.rise_bytes),
    }
    if record.timing is not None:
        cells |= _timed_cells(record, record.timing)
        cells["share"] = round_percent(item.total_s / total_s) if total_s else ""
    return cells


def _timed_cells(record: PieceRecord, timing: Timing) -> dict[str, str]:
    return {
        "time": mark(timing, record.disturbances) + format_seconds(timing.median_s),
        "spread": format_spread(timing),
        "low to high": format_interval(timing),
        "samples": f"{timing.count}",
        "TFLOP/s": _rate(record.flops, timing.median_s, 1e12),
        "GB/s": _rate(record.moved_bytes, timing.median_s, 1e9),
    }


def _rate(amount: float, time_s: float, unit: float) -> str:
    if not amount or not time_s:
        return ""
    rate = amount / time_s / unit
    return "<0.001" if rate < 0.001 else f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
