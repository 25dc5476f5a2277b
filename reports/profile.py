"""Measured profiles as tables: what was timed, what it reaches, and what differs between two. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.measurements.difference import Comparison, Difference, Interval
from autotune.measurements.model_profile import MeasuredPiece, ModelProfile
from autotune.measurements.node_profile import NodeProfile
from autotune.measurements.records import PieceRecord
from autotune.measurements.timing import Timing
from autotune.measurements.validity import describe_kind
from reports.tables import Table
from runtime.plan_document import Figure
from runtime.units import format_percent, format_seconds, format_size

_PIECE_COLUMNS = ("piece", "calls", "time", "low to high", "samples", "TFLOP/s", "GB/s", "activations", "notes")


def describe_model_profile(profile: ModelProfile) -> tuple[str, ...]:
    """What the profile is of, in sentences."""
    facts = profile.facts
    variant = f", variant {facts.variant}" if facts.variant else ""
    return (
        f"Measured times of {facts.model.name}{variant} on {describe_kind(profile.kind)}: {facts.workload.describe()}.",
        f"Finished {profile.measured_at} with {profile.effort} effort, {profile.options.describe()}"
        f"{_list_versions(profile.versions)}.",
        f"Profiled: {', '.join(profile.components)}; compute of other components is estimated.",
    )


def describe_node_profile(profile: NodeProfile) -> tuple[str, ...]:
    """Which machine and device it is of, in sentences."""
    node = profile.node
    card = f" ({node.device_uuid})" if node.device_uuid else ""
    return (
        f"Measured links and budgets of {node.device}, {describe_kind(node.kind)}{card}, in the machine {node.machine} "
        f"({node.cpu}, kernel {node.kernel}).",
        f"Finished {profile.measured_at} with {profile.effort} effort{_list_versions(profile.versions)}.",
    )


def _list_versions(versions: Mapping[str, str]) -> str:
    return "".join(f", {name} {version}" for name, version in sorted(versions.items()))


def piece_tables(profile: ModelProfile) -> tuple[Table, ...]:
    """Per component, every piece with its time, what it reaches, and its activations."""
    names = dict.fromkeys(piece.record.component for piece in profile.pieces)
    return tuple(
        Table(
            title=f"{name} ({_sum_passes(profile, name)})",
            columns=_PIECE_COLUMNS,
            rows=tuple(_piece_row(piece) for piece in profile.pieces if piece.record.component == name),
            numeric=frozenset({"calls", "time", "samples", "TFLOP/s", "GB/s", "activations"}),
            foldable=frozenset({"piece", "notes"}),
            optional=("GB/s", "samples", "low to high"),
        )
        for name in names
    )


def link_table(profile: NodeProfile) -> Table:
    """Every timed copy and read, with its rate."""
    rows = tuple(
        (
            link.kind.replace("_", " "),
            format_size(link.size_bytes),
            "yes" if link.is_layer_size else "",
            format_seconds(link.timing.median_s),
            _describe_interval(link.timing),
            str(link.timing.count),
            f"{link.bytes_per_s / 1e9:,.2f}",
            _join_notes(link.note, link.timing, link.disturbances),
        )
        for link in profile.links
    )
    columns = ("link", "size", "a layer's", "time", "low to high", "samples", "GB/s", "notes")
    return Table(
        title="Links",
        columns=columns,
        rows=rows,
        numeric=frozenset({"size", "time", "samples", "GB/s"}),
        foldable=frozenset({"notes"}),
        optional=("samples", "low to high", "a layer's"),
    )


def interference_table(profile: NodeProfile) -> Table:
    """What compute and copies do to each other, load by load."""
    rows = tuple(
        (
            record.load,
            format_seconds(record.compute_alone.median_s),
            format_seconds(record.compute_under_copies.median_s),
            f"+{format_percent(record.compute_slowdown_ratio)}",
            format_seconds(record.copy_alone.median_s),
            format_seconds(record.copy_under_compute.median_s),
            f"+{format_percent(record.copy_slowdown_ratio)}",
        )
        for record in profile.interference
    )
    columns = ("load", "compute", "beside copies", "slower", "copy", "beside compute", "copy slower")
    return Table(
        title="Interference of compute and host-to-device copies",
        columns=columns,
        rows=rows,
        numeric=frozenset(columns[1:]),
        foldable=frozenset({"load"}),
    )


def budget_table(profile: NodeProfile) -> Table:
    """Budgets and constants, each with its source; what is unknown, with its reason."""
    known = tuple((name, _describe_figure(figure), figure.source) for name, figure in profile.figures.items())
    unknown = tuple((name, "unknown", reason) for name, reason in profile.unknown.items())
    return Table(
        title="Budgets and constants",
        columns=("figure", "value", "source"),
        rows=(*known, *unknown),
        numeric=frozenset({"value"}),
        foldable=frozenset({"figure", "source"}),
    )


def difference_table(difference: Difference) -> Table:
    """The figures that are not the same in both profiles."""
    rows = tuple(
        (
            f"{item.name}, and {item.alike - 1} alike" if item.alike > 1 else item.name,
            _describe_side(item.before, item.unit),
            _describe_side(item.after, item.unit),
            _describe_change(item),
        )
        for item in difference.changes
    )
    columns = ("figure", "first (low to high)", "second (low to high)", "change")
    return Table(
        title="Changed",
        columns=columns,
        rows=rows,
        numeric=frozenset({"change"}),
        foldable=frozenset(columns[:3]),
    )


def stored_table(rows: Sequence[tuple[str, str, str, str]]) -> Table:
    """Stored profiles: what each is of, its age, whether it is valid here, its file."""
    columns = ("profile", "measured", "valid here", "file")
    return Table(title="Stored profiles", columns=columns, rows=tuple(rows), foldable=frozenset(columns))


def _piece_row(piece: MeasuredPiece) -> tuple[str, ...]:
    record, timing = piece.record, piece.record.timing
    alike = f" and {len(piece.places) - 1} alike" if len(piece.places) > 1 else ""
    name = f"{record.name}{alike} ({record.class_name})"
    rise = "" if record.rise_bytes is None else format_size(record.rise_bytes)
    calls = f"{piece.calls}" if piece.passes == 1 else f"{piece.calls} in {piece.passes} passes"
    if timing is None:
        notes = "; ".join(part for part in (record.outcome.replace("_", " "), record.note) if part)
        return (name, calls, "", "", "", "", "", rise, notes)
    return (
        name,
        calls,
        format_seconds(timing.median_s),
        _describe_interval(timing),
        str(timing.count),
        _rate(record.flops, timing, 1e12),
        _rate(record.moved_bytes, timing, 1e9),
        rise,
        _join_notes(record.note, timing, record.disturbances),
    )


def _sum_passes(profile: ModelProfile, component: str) -> str:
    records: list[PieceRecord] = [piece.record for piece in profile.pieces if piece.record.component == component]
    timed = sum(record.timing is not None for record in records)
    return f"{timed} of {len(records)} pieces timed"


def _rate(amount: float, timing: Timing, unit: float) -> str:
    return f"{amount / timing.median_s / unit:,.3g}" if amount and timing.median_s else ""


def _describe_interval(timing: Timing) -> str:
    return f"{format_seconds(timing.low_s)} to {format_seconds(timing.high_s)}"


def _join_notes(note: str, timing: Timing, disturbances: Sequence[str]) -> str:
    unsettled = "" if timing.is_settled else f"did not settle: {format_percent(timing.spread_ratio)} spread"
    return "; ".join(part for part in (note, unsettled, *disturbances) if part)


def _describe_figure(figure: Figure) -> str:
    return _describe_value(figure.value, figure.unit)


def _describe_value(value: float, unit: str) -> str:
    if unit == "bytes":
        return format_size(value)
    if unit == "s":
        return format_seconds(value)
    if unit == "share":
        return format_percent(value)
    return f"{value:,.4g} {unit}"


def _describe_side(interval: Interval | None, unit: str) -> str:
    if interval is None:
        return ""
    text = _describe_value(interval.median, unit)
    if interval.low == interval.high:
        return text
    return f"{text} ({_describe_value(interval.low, unit)} to {_describe_value(interval.high, unit)})"


def _describe_change(item: Comparison) -> str:
    if item.note:
        return item.note
    ratio = item.change_ratio
    if ratio is None:
        return item.verdict
    return f"{'+' if ratio > 0 else '-'}{format_percent(abs(ratio))}"
