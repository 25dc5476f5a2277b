"""What speaks against timings: a mark on each, and one sentence per kind of trouble for all of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.measurements.records import InterferenceRecord, LinkRecord
from autotune.measurements.timing import Timing
from reports.profile_values import round_percent
from runtime.units import format_size

DISTURBED_MARK = "!"
UNSETTLED_MARK = "~"

_MOST_NAMES = 4
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
# Processes come and go between two timings; which they were is kept in the profile.
_PIDS = re.compile(r" \(process [^)]*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A timing as it was taken.

    Attributes:
        name: of what.
        timing: its seconds.
        disturbances: why they may be off, one sentence each.
    """

    name: str
    timing: Timing
    disturbances: tuple[str, ...] = ()


def mark(timing: Timing, disturbances: Sequence[str]) -> str:
    """``!`` where it was disturbed, ``~`` where it did not settle; nothing where nothing speaks against it."""
    return (DISTURBED_MARK if disturbances else "") + ("" if timing.is_settled else UNSETTLED_MARK)


def take_links(links: Iterable[LinkRecord]) -> list[Taken]:
    """Timings of copies and reads."""
    return [
        Taken(
            name=f"{name_link(link.kind)} of {format_size(link.size_bytes)}",
            timing=link.timing,
            disturbances=link.disturbances,
        )
        for link in links
    ]


def take_interference(records: Sequence[InterferenceRecord]) -> list[Taken]:
    """The four timings of each record; with the load in their names where there are several."""
    return [
        Taken(
            name=what if len(records) == 1 else f"{record.load}: {what}",
            timing=timing,
            disturbances=record.disturbances,
        )
        for record in records
        for what, timing in (
            ("compute", record.compute_alone),
            ("compute beside copies", record.compute_under_copies),
            ("copies", record.copy_alone),
            ("copies beside compute", record.copy_under_compute),
        )
    ]


def name_link(kind: str) -> str:
    """A kind of link in words: ``pinned_h2d`` is ``pinned h2d``."""
    return kind.replace("_", " ")


def describe_troubles(taken: Sequence[Taken]) -> tuple[tuple[str, str], ...]:
    """Per kind of trouble its mark and one sentence: how many timings of ``taken`` have it, and which."""
    troubles = []
    for affected, what in _group(taken):
        were = "was" if len(affected) == 1 else "were"
        sentence = f"{_count(affected, taken)} {were} disturbed: {what}{_name(affected, taken)}"
        troubles.append((DISTURBED_MARK, sentence))
    loose = [item for item in taken if not item.timing.is_settled]
    if loose:
        widest = max(loose, key=lambda item: item.timing.spread_ratio)
        which = _name(loose, taken) or (f", the widest {widest.name}" if len(loose) > 1 else "")
        sentence = f"{_count(loose, taken)} did not settle: spread {describe_spreads(loose)}{which}"
        troubles.append((UNSETTLED_MARK, sentence))
    return tuple(troubles)


def merge_disturbances(taken: Sequence[Taken]) -> tuple[str, ...]:
    """Every kind of disturbance once, with the range of its numbers."""
    return tuple(what for _, what in _group(taken))


def describe_spreads(taken: Sequence[Taken]) -> str:
    """``6.0 to 120 %``, from the least spread to the most."""
    low, high = (round_percent(pick(item.timing.spread_ratio for item in taken)) for pick in (min, max))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _group(taken: Sequence[Taken]) -> list[tuple[list[Taken], str]]:
    """Per kind of disturbance the timings that have it, and its sentence with the range of the numbers in it."""
    affected: dict[str, list[Taken]] = {}
    texts: dict[str, list[str]] = {}
    for item in taken:
        own = [_PIDS.sub("", text) for text in item.disturbances]
        for shape, text in {_NUMBER.sub("#", text): text for text in own}.items():
            affected.setdefault(shape, []).append(item)
            texts.setdefault(shape, []).append(text)
    return [(affected[shape], _merge(texts[shape])) for shape in affected]


def _merge(texts: Sequence[str]) -> str:
    """Sentences that differ in their numbers only as one, with ranges."""
    columns = list(zip(*(_NUMBER.findall(text) for text in texts), strict=True))
    ranges = [_range(column) for column in columns]
    # "from 1,980 to 1,500" cannot hold a second "to".
    word = " to " if sum(low != high for low, high in ranges) == 1 else ".."
    merged = iter(low if low == high else f"{low}{word}{high}" for low, high in ranges)
    return _NUMBER.sub(lambda _: next(merged), texts[0])


def _range(column: Sequence[str]) -> tuple[str, str]:
    if len(set(column)) == 1:
        return column[0], column[0]
    values = [float(text.replace(",", "")) for text in column]
    return _round(min(values)), _round(max(values))


def _round(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _count(affected: Sequence[Taken], taken: Sequence[Taken]) -> str:
    if len(affected) < len(taken):
        return f"{len(affected)} of {len(taken)} timings"
    return "The timing" if len(taken) == 1 else f"All {len(taken)} timings"


def _name(affected: Sequence[Taken], taken: Sequence[Taken]) -> str:
    """Which they are, where a few names tell: theirs, or those of the others. The marks in the tables tell the rest."""
    if len(affected) == len(taken):
        return ""
    if len(affected) <= _MOST_NAMES:
        return f" ({', '.join(item.name for item in affected)})"
    others = [item.name for item in taken if item not in affected]
    return f" (all but {', '.join(others)})" if len(others) <= _MOST_NAMES else ""
