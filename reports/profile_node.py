"""A node profile as tables: rates of its links by size, interference, budgets. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby

from autotune.measurements.node_profile import NodeProfile
from autotune.measurements.records import LinkKind, LinkRecord
from autotune.model_facts import ModelFacts
from reports.profile_troubles import mark, name_link
from reports.profile_values import format_spread, format_value
from reports.tables import Table
from runtime.units import format_seconds, format_size

Columns = Mapping[str, tuple[LinkKind, ...]]
"""Columns of a table of rates, and the kinds of links that each shows."""

_COPIES: Columns = {
    "pinned": ("pinned_h2d",),
    "pageable": ("pageable_h2d",),
    "to host": ("d2h",),
    "up / down": ("duplex_h2d", "duplex_d2h"),
}
_READS: Columns = {"page cache": ("page_cache_read",), "disk": ("disk_read",)}

_FIGURES = {
    "vram_total_bytes": "VRAM",
    "vram_usable_bytes": "usable VRAM",
    "vram_free_bytes": "free VRAM",
    "vram_used_by_others_bytes": "VRAM of others",
    "shared_capacity_bytes": "shared memory",
    "shared_available_bytes": "available shared memory",
    "context_bytes": "context",
    "workspace_bytes": "workspace of matrix products",
    "host_total_bytes": "host memory",
    "host_available_bytes": "available host memory",
    "host_limit_bytes": "limit of host memory",
    "host_memlock_bytes": "limit of locked memory",
    "pin_ceiling_bytes": "most that can be pinned",
    "pin_call_ceiling_bytes": "most in one call to pin",
    "pin_s_per_byte": "time to pin",
    "pin_locked_ratio": "bytes locked per pinned byte",
    "pin_resident_ratio": "bytes resident beside each pinned one",
}
"""What people call the figures; those that are not here keep the name that they have in the document."""


def link_tables(profile: NodeProfile, facts: ModelFacts | None = None) -> tuple[Table, ...]:
    """Copies and reads: one row per size, with what every kind of link reaches.

    Args:
        profile: of the node.
        facts: of the model for which sizes were chosen, to say whose layers have them.
    """
    owners = {} if facts is None else _count_owners(facts)
    copies = f"Links of {profile.node.device}: GB/s by size of a copy (up / down: both at once)"
    return (
        *_by_size(profile, _COPIES, copies, _describe_rate, owners),
        *_by_size(profile, _READS, "Reads of mapped files: GB/s by size", _describe_rate, owners),
    )


def spread_tables(profile: NodeProfile) -> tuple[Table, ...]:
    """The same rows with the spread of each figure; none where nothing was timed twice."""
    if all(link.timing.count == 1 for link in profile.links):
        return ()
    return (
        *_by_size(profile, _COPIES, "Spread of the copies", _describe_spread, {}),
        *_by_size(profile, _READS, "Spread of the reads", _describe_spread, {}),
    )


def _by_size(
    profile: NodeProfile, columns: Columns, title: str, describe: Callable[[LinkRecord], str], owners: Mapping[int, str]
) -> Iterator[Table]:
    """The table of those ``columns`` of which something was timed; nothing where that is none."""
    kinds = {kind for parts in columns.values() for kind in parts}
    ordered = sorted((link for link in profile.links if link.kind in kinds), key=lambda link: -link.size_bytes)
    timed = {link.kind for link in ordered}
    shown = {name: parts for name, parts in columns.items() if timed.intersection(parts)}
    rows = []
    for size_bytes, links in groupby(ordered, key=lambda link: link.size_bytes):
        found = {link.kind: link for link in links}
        is_layer = any(link.is_layer_size for link in found.values())
        cells = [_join(describe(found[kind]) if kind in found else "" for kind in parts) for parts in shown.values()]
        rows.append((format_size(size_bytes), *cells, owners.get(size_bytes, "yes") if is_layer else ""))
    if rows:
        yield Table(
            title=title,
            columns=("size", *shown, "layers"),
            rows=tuple(rows),
            numeric=frozenset({"size", *shown}),
            foldable=frozenset({"layers"}),
        )


def _join(cells: Iterable[str]) -> str:
    """Figures of one column beside each other; nothing where there is none."""
    listed = list(cells)
    return " / ".join(cell or "-" for cell in listed) if any(listed) else ""


def describe_link_notes(profile: NodeProfile) -> tuple[str, ...]:
    """What limits figures of links, one sentence per note with the sizes that it is of."""
    notes: dict[tuple[str, str], list[str]] = {}
    for link in profile.links:
        if link.note:
            notes.setdefault((name_link(link.kind), link.note), []).append(format_size(link.size_bytes))
    return tuple(f"{kind} of {', '.join(sizes)}: {note}" for (kind, note), sizes in notes.items())


def interference_table(profile: NodeProfile) -> Table:
    """What compute and copies do to each other: per load a row for either."""
    rows = []
    for record in profile.interference:
        compute = (record.compute_alone, record.compute_under_copies, record.compute_slowdown_ratio)
        copies = (record.copy_alone, record.copy_under_compute, record.copy_slowdown_ratio)
        for name, what, (alone, beside, ratio) in ((record.load, "compute", compute), ("", "copies", copies)):
            times = [mark(timing, record.disturbances) + format_seconds(timing.median_s) for timing in (alone, beside)]
            rows.append((name, what, *times, f"+{100 * ratio:.1f} %"))
    columns = ("load", "", "alone", "beside the other", "slower")
    return Table(
        title="Interference of compute and copies to the device",
        columns=columns,
        rows=tuple(rows),
        numeric=frozenset(columns[2:]),
        foldable=frozenset({"load"}),
    )


def budget_table(profile: NodeProfile, *, full: bool) -> Table:
    """Budgets and constants, each with its source; in full also what is unknown, with its reason."""
    known = tuple(
        (name_figure(name), format_value(figure.value, figure.unit), figure.source)
        for name, figure in profile.figures.items()
    )
    unknown = tuple((name_figure(name), "unknown", reason) for name, reason in profile.unknown.items())
    return Table(
        title="Budgets and constants",
        columns=("figure", "value", "source"),
        rows=(*known, *unknown) if full else known,
        numeric=frozenset({"value"}),
        foldable=frozenset({"figure", "source"}),
    )


def describe_unknown(profile: NodeProfile) -> tuple[str, ...]:
    """Figures that could not be read, one sentence per reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in profile.unknown.items():
        reasons.setdefault(reason, []).append(name_figure(name))
    return tuple(f"unknown: {', '.join(names)}: {reason}" for reason, names in reasons.items())


def name_figure(name: str) -> str:
    """What people call the figure ``name`` of a document."""
    return _FIGURES.get(name, name)


def _describe_spread(link: LinkRecord) -> str:
    return format_spread(link.timing)


def _describe_rate(link: LinkRecord) -> str:
    return f"{mark(link.timing, link.disturbances)}{link.bytes_per_s / 1e9:,.2f}"


def _count_owners(facts: ModelFacts) -> dict[int, str]:
    """Size of a layer -> how many layers of which components have it."""
    counts: dict[int, dict[str, int]] = {}
    for component in facts.model.components:
        for stack in component.stacks:
            for layer in stack.layers:
                names = counts.setdefault(layer.run_bytes, {})
                names[component.name] = names.get(component.name, 0) + 1
    return {size: ", ".join(f"{count} of {name}" for name, count in names.items()) for size, names in counts.items()}
