"""A plan document as tables: rows of text, the same on the terminal, in Markdown and in files. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reports.differences import difference_cell
from runtime.model_spec import ComponentSpec
from runtime.plan import Placement
from runtime.plan_document import PlanDocument
from runtime.prediction import Prediction, UsePrediction
from runtime.residency import Mode
from runtime.units import GIB, format_gib, format_percent, format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells under column heads.

    Attributes:
        title: above the table; may be empty.
        columns, rows: every row has a cell per column.
        numeric: columns to align to the right.
        foldable: columns whose text may go over several lines.
        optional: columns that may be left out where there is little room, the first one first.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[str] = frozenset()
    foldable: frozenset[str] = frozenset()
    optional: tuple[str, ...] = ()


def component_table(document: PlanDocument) -> Table:
    """Per component: bytes, layers, passes, placement, time of its uses, VRAM in its worst use."""
    rows = []
    for component in document.model.components:
        uses = [use for use in document.prediction.uses if use.component == component.name]
        total_s = sum(use.end_s - use.start_s for use in uses)
        waits_s = max(sum(use.end_s - use.start_s - use.compute_s for use in uses), 0.0)
        placement = document.plan.placement(component.name)
        streams = placement.mode is Mode.LAYERWISE_OFFLOAD
        rows.append(
            (
                component.name,
                _gib(component.run_bytes),
                _count_layers(component),
                _count_passes(uses),
                str(placement.mode).removesuffix("-offload"),
                str(placement.prefetch) if streams else "",
                _describe_residents(placement),
                format_seconds(total_s),
                format_seconds(waits_s),
                _gib(document.prediction.peak_of(component.name).charged_bytes),
            )
        )
    columns = ("component", "GiB", "layers", "passes", "mode", "ahead", "resident", "time", "waits", "peak VRAM")
    numeric = frozenset({"GiB", "ahead", "time", "waits", "peak VRAM"})
    return Table(
        title="Components (sizes in GiB; layers and passes stack by stack)",
        columns=columns,
        rows=tuple(rows),
        numeric=numeric,
        optional=("waits", "layers", "passes"),
    )


def comparison_table(document: PlanDocument) -> Table:
    """The plan beside what it is compared with."""
    rows = tuple(
        (
            item.name,
            format_seconds(item.latency_s),
            format_gib(item.charged_bytes),
            "yes" if item.fits else "no",
            difference_cell(item.difference_s, item.difference_sd_s),
            item.meaning,
        )
        for item in document.comparisons
    )
    return Table(
        title="Compared",
        columns=("", "request", "VRAM charged", "fits", "beside the plan", "what it is"),
        rows=rows,
        numeric=frozenset({"request", "VRAM charged"}),
        foldable=frozenset({"beside the plan", "what it is"}),
    )


def memory_table(prediction: Prediction) -> Table:
    """Device memory of the phases that matter: load, every phase of a later request, the peak of the first one.

    Layers are those of streamed components, resident ones included, and whole components that were moved.
    """
    first = max(
        (phase for phase in prediction.phases if phase.phase.startswith("first request")),
        key=lambda phase: phase.charged_bytes,
        default=None,
    )
    rows = [
        (
            phase.phase,
            _gib(phase.standing_bytes),
            _gib(phase.streamed_bytes),
            _gib(phase.activation_bytes),
            _gib(phase.live_bytes),
            _gib(phase.charged_bytes),
        )
        for phase in prediction.phases
        if phase is first or (not phase.phase.startswith("first request") and ": after " not in phase.phase)
    ]
    columns = ("phase", "standing weights", "layers", "activations, frames", "live", "charged")
    numeric = frozenset(columns[1:])
    return Table(
        title="Device memory at the peak of each phase, GiB", columns=columns, rows=tuple(rows), numeric=numeric
    )


def host_table(prediction: Prediction) -> Table:
    """Where the layers of every streamed stack wait on the host, and how many bytes that is."""
    rows = tuple(
        (
            f"{item.component}.{item.stack}",
            str(item.layers),
            str(item.pinned),
            str(item.pageable),
            str(item.mapped),
            _gib(item.pinned_bytes),
            _gib(item.pageable_bytes),
            _gib(item.mapped_bytes),
        )
        for item in prediction.hosting
    )
    columns = ("stack", "layers", "pinned", "pageable", "mapped", "pinned GiB", "pageable GiB", "read from file GiB")
    return Table(
        title="Host memory: where streamed layers wait (sizes in GiB)",
        columns=columns,
        rows=rows,
        numeric=frozenset(columns[1:]),
        optional=("pageable GiB", "pinned GiB"),
    )


def describe_hosting(prediction: Prediction) -> tuple[str, ...]:
    """The same in the words of the server's start-up log, for the stacks of which not every layer is pinned."""
    return tuple(
        f"{item.component}.{item.stack} pins {item.pinned} of {item.hosted} layers ({format_gib(item.pinned_bytes)} of "
        f"{format_gib(item.spendable_bytes)} spendable). Of the rest, {item.pageable} are copied into pageable host "
        f"memory and {item.mapped} stay on the checkpoint mapping"
        for item in prediction.hosting
        if item.pinned < item.hosted
    )


def placement_table(document: PlanDocument) -> Table:
    """Every setting of every component."""
    rows = []
    for placement in document.plan.placements:
        streamed = placement.mode is Mode.LAYERWISE_OFFLOAD
        rows.append(
            (
                placement.component,
                str(placement.mode),
                str(placement.prefetch) if streamed else "",
                str(placement.resident) if streamed else "",
                str(placement.policy) if streamed else "",
                str(placement.lifetime) if streamed else "",
                format_gib(document.prediction.host_bytes.get(placement.component, 0)),
            )
        )
    return Table(
        title="Placements",
        columns=("component", "mode", "prefetch", "resident layers", "policy", "lifetime", "host copy"),
        rows=tuple(rows),
        numeric=frozenset({"prefetch", "resident layers", "host copy"}),
    )


def what_if_table(document: PlanDocument) -> Table:
    """What a change outside the plan would do to the fastest plan."""
    rows = tuple(
        (item.change, format_seconds(item.now_s), format_seconds(item.then_s), format_percent(item.gain_ratio))
        for item in document.what_ifs
    )
    columns = ("change", "fastest now", "fastest then", "saved")
    return Table(title="What would change it", columns=columns, rows=rows, numeric=frozenset(columns[1:]))


def tuning_table(document: PlanDocument) -> Table:
    """Where tuning would pay: other requests, streamed and tuned."""
    rows = tuple(
        (item.setting, format_seconds(item.streamed_s), format_seconds(item.best_s), format_percent(item.gain_ratio))
        for item in document.tuning_gains
    )
    columns = ("request", "streamed", "tuned", "saved")
    return Table(title="What tuning would gain elsewhere", columns=columns, rows=rows, numeric=frozenset(columns[1:]))


def advice_table(document: PlanDocument) -> Table:
    """Switches outside the search: those with the same output first, then those that change it."""
    rows = tuple(
        (
            item.switch,
            "same" if item.same_output else "changes",
            format_seconds(item.now_s or 0.0),
            format_seconds(item.then_s or 0.0),
            format_percent(item.gain_ratio),
            format_gib(item.charged_bytes or 0),
            item.note,
        )
        for item in document.advice
        if item.gain_ratio is not None
    )
    columns = ("switch", "output", "fastest now", "fastest then", "saved", "VRAM charged", "what it is")
    return Table(
        title="What other switches would give (both sides by a coarser search)",
        columns=columns,
        rows=rows,
        numeric=frozenset(columns[2:6]),
        foldable=frozenset({"what it is"}),
        optional=("VRAM charged",),
    )


def describe_unmodelled(document: PlanDocument) -> tuple[str, ...]:
    """Switches without a figure."""
    return tuple(
        f"not modelled: {item.switch}" + (f", {item.note}" if item.note else "")
        for item in document.advice
        if item.gain_ratio is None
    )


def _describe_residents(placement: Placement) -> str:
    if placement.mode is not Mode.LAYERWISE_OFFLOAD:
        return ""
    return f"{placement.resident} {placement.policy} {placement.lifetime}" if placement.resident else "0"


def _count_layers(component: ComponentSpec) -> str:
    counts = [len(stack.layers) for stack in component.stacks]
    if len(counts) > 3:
        return f"{sum(counts)} in {len(counts)} stacks"
    return " + ".join(map(str, counts)) or "none"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:,.2f}"


def _count_passes(uses: list[UsePrediction]) -> str:
    return " + ".join(str(part.count) for use in uses for part in use.passes) or "none"
