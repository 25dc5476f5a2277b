"""What an execution took, use by use and component by component: latency, waits, copies, peak memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reports.tables import Table
from runtime.measurement_document import MeasuredUse, MeasurementDocument
from runtime.time_spread import Spread
from runtime.units import format_gib, format_seconds

_LATER = "later request"


@dataclass(frozen=True, slots=True, kw_only=True)
class UseRow:
    """One row: the whole request, one use of it, or all uses of a component.

    Attributes:
        scope: ``request``, ``use`` or ``component``.
        name: title of the use, or the component; ``later request`` for the whole.
        component: empty for the whole request.
        requests: how many count.
        first_s: the same in the first request after load.
        p50_s, p95_s, low_s, high_s: time of the later requests that count.
        fill_p50_s, stall_p50_s, hidden_p50_s, exposed_p50_s: waits before the first layer, other waits, and copies
            beside compute and while it waited; None except for uses.
        copied_bytes: moved in the use; None except for uses.
        binding: what bound the use; empty except for uses.
        peak_bytes, reserved_bytes: device memory at the peak, and what the allocator held; None where not told.
    """

    scope: str
    name: str
    component: str
    requests: int
    first_s: float
    p50_s: float
    p95_s: float | None
    low_s: float
    high_s: float
    fill_p50_s: float | None = None
    stall_p50_s: float | None = None
    hidden_p50_s: float | None = None
    exposed_p50_s: float | None = None
    copied_bytes: int | None = None
    binding: str = ""
    peak_bytes: int | None = None
    reserved_bytes: int | None = None


def list_use_rows(measurement: MeasurementDocument) -> tuple[UseRow, ...]:
    """The whole request, then its uses in order, then its components."""
    peaks = _peaks(measurement, f"{_LATER}: ")
    whole = _row("request", _LATER, "", measurement.latency, measurement.first_latency_s, peaks=peaks)
    return (whole, *_list_uses(measurement), *_list_components(measurement))


def _list_uses(measurement: MeasurementDocument) -> Iterator[UseRow]:
    for use in measurement.uses:
        peaks = _peaks(measurement, f"{_LATER}: {use.title}", whole_name=True)
        yield _row("use", use.title, use.component, use.time, use.first_s, peaks=peaks, use=use)


def _list_components(measurement: MeasurementDocument) -> Iterator[UseRow]:
    for item in measurement.components:
        uses = [use for use in measurement.uses if use.component == item.component]
        peaks = [_peaks(measurement, f"{_LATER}: {use.title}", whole_name=True) for use in uses]
        most = tuple(max((peak[part] or 0 for peak in peaks), default=0) or None for part in (0, 1))
        first_s = sum(use.first_s for use in uses)
        yield _row("component", item.component, item.component, item.time, first_s, peaks=(most[0], most[1]))


def _row(
    scope: str,
    name: str,
    component: str,
    time: Spread,
    first_s: float,
    *,
    peaks: tuple[int | None, int | None],
    use: MeasuredUse | None = None,
) -> UseRow:
    return UseRow(
        scope=scope,
        name=name,
        component=component,
        requests=time.count,
        first_s=first_s,
        p50_s=time.median_s,
        p95_s=time.p95_s,
        low_s=time.low_s,
        high_s=time.high_s,
        fill_p50_s=use.fill.median_s if use is not None else None,
        stall_p50_s=use.stall.median_s if use is not None else None,
        hidden_p50_s=use.hidden.median_s if use is not None else None,
        exposed_p50_s=use.exposed.median_s if use is not None else None,
        copied_bytes=sum(use.copied_bytes.values()) if use is not None else None,
        binding=use.binding if use is not None else "",
        peak_bytes=peaks[0],
        reserved_bytes=peaks[1],
    )


def _peaks(measurement: MeasurementDocument, name: str, *, whole_name: bool = False) -> tuple[int | None, int | None]:
    """The most bytes of everything, and the most that the allocator held, in the phases of that name."""
    phases = [
        phase for phase in measurement.phases if (phase.phase == name if whole_name else phase.phase.startswith(name))
    ]
    reserved = [phase.reserved_bytes for phase in phases if phase.reserved_bytes is not None]
    return max((phase.total_bytes for phase in phases), default=None), max(reserved, default=None)


def uses_table(measurement: MeasurementDocument) -> Table:
    """The same for people: latency at the median and at the 95th percentile, waits, and memory."""
    rows = tuple(
        (
            row.name if row.scope != "component" else f"{row.name}, all uses",
            _seconds(row.p50_s),
            _seconds(row.p95_s),
            _seconds(row.first_s),
            _seconds(row.fill_p50_s),
            _seconds(row.stall_p50_s),
            "" if row.copied_bytes is None else format_gib(row.copied_bytes),
            row.binding,
            "" if row.peak_bytes is None else format_gib(row.peak_bytes),
        )
        for row in list_use_rows(measurement)
    )
    columns = ("", "p50", "p95", "first request", "fill", "stalls", "copied", "bound by", "peak memory")
    count = measurement.latency.count
    return Table(
        title=f"Latency and memory of {count} later {'request' if count == 1 else 'requests'}",
        columns=columns,
        rows=rows,
        numeric=frozenset(columns[1:7]) | {"peak memory"},
        foldable=frozenset({""}),
        optional=("copied", "bound by", "fill", "stalls"),
    )


def _seconds(time_s: float | None) -> str:
    return "" if time_s is None else format_seconds(time_s)
