"""What differs between two profiles of the same kind, figure by figure. Pure.

A timed figure has changed if the intervals of both profiles do not overlap *and* their medians differ by more than
``LEAST_CHANGE_RATIO`` (``LEAST_SINGLE_CHANGE_RATIO`` for rates without intervals); anything else is one figure measured
twice. Layers that share one measurement are compared place by place, and places with one answer are reported together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal

from autotune.measurements.model_profile import ModelProfile
from autotune.measurements.node_profile import NodeProfile
from autotune.measurements.records import PieceRecord
from autotune.measurements.timing import Timing
from autotune.measurements.validity import describe_kind
from runtime.errors import ProfileError
from runtime.units import format_size

LEAST_CHANGE_RATIO = 0.03
"""Public repeats of one configuration differ by up to 2 % (PM045)."""

LEAST_SINGLE_CHANGE_RATIO = 0.25
"""For rates and shares that were measured once (what a pin costs): they have no interval, so that nothing smaller is
claimed of them. Bytes that are read are the same when they are read again, and count as above."""

MOMENTARY = ("available", "free", "used", "others")
"""Parts of the names of figures that say what was so at one moment; they are no property of the machine."""

Verdict = Literal["unchanged", "changed", "only in the first", "only in the second"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure of one profile: the median, and the interval that holds it; without samples it has no width."""

    median: float
    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        """Whether one value may be both."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One figure in both profiles.

    Attributes:
        name: which (``transformer blocks[7]: time``).
        unit: ``s``, ``bytes`` or another.
        verdict: what became of it.
        before, after: None in a profile without it.
        alike: how many places have the same answer, this one included.
        note: what became of a piece that was measured in one profile only.
    """

    name: str
    unit: str
    verdict: Verdict
    before: Interval | None
    after: Interval | None
    alike: int = 1
    note: str = ""

    @property
    def change_ratio(self) -> float | None:
        """How much more it is in the second profile, as a share; None where it is in one only."""
        if self.before is None or self.after is None or not self.before.median:
            return None
        return self.after.median / self.before.median - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two profiles beside each other.

    Attributes:
        comparisons: every figure, in the order of the first profile.
        circumstances: what else differs between them, one sentence each; that alone is no change.
        left_out: figures that are not compared, since they say what was so at one moment.
    """

    comparisons: tuple[Comparison, ...]
    circumstances: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Comparison, ...]:
        """The figures that are not the same in both."""
        return tuple(item for item in self.comparisons if item.verdict != "unchanged")


def compare_model_profiles(before: ModelProfile, after: ModelProfile) -> Difference:
    """``after`` beside ``before``.

    Raises:
        ProfileError: they are of different models or requests: nothing in them is the same thing.
    """
    for what, first, second in (
        ("models", before.facts.model.name, after.facts.model.name),
        ("variants", before.facts.variant or "as released", after.facts.variant or "as released"),
        ("requests", before.facts.workload.describe(), after.facts.workload.describe()),
    ):
        if first != second:
            raise ProfileError(
                f"the profiles are of different {what} ({first}; {second}): compare two of the same model and request"
            )
    circumstances = _list_circumstances(
        ("device", describe_kind(before.kind), describe_kind(after.kind)),
        ("options", before.options.describe(), after.options.describe()),
        ("effort", before.effort, after.effort),
        *_list_versions(before.versions, after.versions),
    )
    return Difference(comparisons=_compare_pieces(before, after), circumstances=circumstances)


def compare_node_profiles(before: NodeProfile, after: NodeProfile) -> Difference:
    """``after`` beside ``before``."""
    comparisons: list[Comparison] = []
    links = [{(link.kind, link.size_bytes): link.timing for link in profile.links} for profile in (before, after)]
    for kind, size_bytes in dict.fromkeys([*links[0], *links[1]]):
        name = f"{kind} of {format_size(size_bytes)}"
        comparisons.append(_compare_timings(name, links[0].get((kind, size_bytes)), links[1].get((kind, size_bytes))))
    loads = [{record.load: record for record in profile.interference} for profile in (before, after)]
    for load in dict.fromkeys([*loads[0], *loads[1]]):
        for field, what in (
            ("compute_under_copies", "compute beside copies"),
            ("copy_under_compute", "copies beside compute"),
        ):
            first, second = (getattr(side[load], field) if load in side else None for side in loads)
            comparisons.append(_compare_timings(f"{load}: {what}", first, second))
    names = dict.fromkeys([*before.figures, *after.figures])
    momentary = tuple(name for name in names if any(part in name for part in MOMENTARY))
    for name in names:
        if name in momentary:
            continue
        sides = [profile.figures.get(name) for profile in (before, after)]
        unit = next(side.unit for side in sides if side is not None)
        least_ratio = LEAST_CHANGE_RATIO if unit == "bytes" else LEAST_SINGLE_CHANGE_RATIO
        values = [None if side is None else _point(side.value) for side in sides]
        comparisons.append(_compare(name, unit, values[0], values[1], least_ratio=least_ratio))
    circumstances = _list_circumstances(
        ("machine", before.node.machine, after.node.machine),
        ("processor", before.node.cpu, after.node.cpu),
        ("kernel", before.node.kernel, after.node.kernel),
        ("device", before.node.device, after.node.device),
        ("card", before.node.device_uuid, after.node.device_uuid),
        ("kind of device", describe_kind(before.node.kind), describe_kind(after.node.kind)),
        ("effort", before.effort, after.effort),
        *_list_versions(before.versions, after.versions),
    )
    return Difference(comparisons=tuple(comparisons), circumstances=circumstances, left_out=momentary)


def _compare_pieces(before: ModelProfile, after: ModelProfile) -> tuple[Comparison, ...]:
    sides = [_records_by_place(profile) for profile in (before, after)]
    groups: dict[Hashable, list[tuple[str, str]]] = {}
    for place in dict.fromkeys([*sides[0], *sides[1]]):
        # Places that share their record in both profiles have one answer.
        shared = tuple(id(side[place]) if place in side else None for side in sides)
        groups.setdefault((place[0], shared), []).append(place)
    found: list[Comparison] = []
    for places in groups.values():
        component, name = places[0]
        first, second = (side.get(places[0]) for side in sides)
        found += _compare_records(f"{component} {name}", first, second, alike=len(places))
    return tuple(found)


def _records_by_place(profile: ModelProfile) -> dict[tuple[str, str], PieceRecord]:
    # A place that is called in several ways (tiles at an edge) is several pieces, in the same order in every profile.
    found: dict[tuple[str, str], PieceRecord] = {}
    for record, place in ((piece.record, place) for piece in profile.pieces for place in piece.places):
        names = (place, *(f"{place} as called in way {way}" for way in range(2, len(profile.pieces) + 1)))
        found[next((record.component, name) for name in names if (record.component, name) not in found)] = record
    return found


def _compare_records(
    name: str, before: PieceRecord | None, after: PieceRecord | None, *, alike: int
) -> list[Comparison]:
    note = ""
    if before is not None and after is not None and before.outcome != after.outcome:
        note = f"{before.outcome.replace('_', ' ')}, then {after.outcome.replace('_', ' ')}"
    timings = [None if record is None else record.timing for record in (before, after)]
    found = []
    if any(timings) or note:
        found.append(_compare_timings(f"{name}: time", *timings, alike=alike, note=note))
    elif before is None or after is None:
        found.append(_compare(f"{name}: time", "s", None, None, alike=alike, is_in_first=before is not None))
    rises = [
        None if record is None or record.rise_bytes is None else _point(record.rise_bytes) for record in (before, after)
    ]
    if any(rises) and not note:
        found.append(_compare(f"{name}: activations", "bytes", rises[0], rises[1], alike=alike))
    return found


def _compare_timings(
    name: str, before: Timing | None, after: Timing | None, *, alike: int = 1, note: str = ""
) -> Comparison:
    sides = [
        None if timing is None else Interval(median=timing.median_s, low=timing.low_s, high=timing.high_s)
        for timing in (before, after)
    ]
    return _compare(name, "s", sides[0], sides[1], alike=alike, note=note)


def _compare(
    name: str,
    unit: str,
    before: Interval | None,
    after: Interval | None,
    *,
    alike: int = 1,
    note: str = "",
    is_in_first: bool = True,
    least_ratio: float = LEAST_CHANGE_RATIO,
) -> Comparison:
    verdict: Verdict
    if before is not None and after is not None:
        verdict = "changed" if _has_changed(before, after, least_ratio) else "unchanged"
    elif note:
        verdict = "changed"
    else:
        verdict = "only in the first" if after is None and (before is not None or is_in_first) else "only in the second"
    return Comparison(name=name, unit=unit, verdict=verdict, before=before, after=after, alike=alike, note=note)


def _has_changed(before: Interval, after: Interval, least_ratio: float) -> bool:
    smaller = min(before.median, after.median)
    return not before.overlaps(after) and abs(after.median - before.median) > least_ratio * smaller


def _point(value: float) -> Interval:
    """A figure without samples."""
    return Interval(median=value, low=value, high=value)


def _list_versions(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    names = sorted({*before, *after})
    return [(name, before.get(name, "unknown"), after.get(name, "unknown")) for name in names]


def _list_circumstances(*pairs: tuple[str, str, str]) -> tuple[str, ...]:
    return tuple(f"{what}: {first}, then {second}" for what, first, second in pairs if first != second)
