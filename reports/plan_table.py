"""Best plans for several requests and caps as one table, with one plan that serves them all. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reports.tables import Table
from runtime.units import format_gib, format_percent, format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One request under one cap.

    Attributes:
        size, cap: as people read them.
        latency_s: of the best plan; None when nothing fits.
        charged_bytes: what it, or the nearest plan, is charged.
        residents: layers and components that stay on the device.
        tiers: where its layers wait on the host, in short.
        missing: what keeps anything from fitting; empty where something does.
        safest_ratio: how much slower the safest choice is than the fastest plan; None where it does not fit, and where
            nothing does.
        has_safest: whether there is a safest choice.
    """

    size: str
    cap: str
    latency_s: float | None
    charged_bytes: int
    residents: str
    tiers: str
    missing: str
    safest_ratio: float | None
    has_safest: bool


def plan_table(rows: tuple[PlanRow, ...]) -> Table:
    """``rows`` in their order."""
    columns = ("request", "cap", "time", "VRAM charged", "stays on the device", "waits on the host", "safest choice")
    return Table(
        title="Best plans",
        columns=columns,
        rows=tuple(map(_cells, rows)),
        numeric=frozenset({"cap", "time", "VRAM charged", "safest choice"}),
        foldable=frozenset({"stays on the device", "waits on the host"}),
        optional=("waits on the host", "VRAM charged"),
    )


def _cells(row: PlanRow) -> tuple[str, ...]:
    if row.latency_s is None:
        return (row.size, row.cap, "nothing fits", f"{format_gib(row.charged_bytes)}", row.missing, "", "")
    safest = ""
    if row.has_safest:
        safest = "does not fit" if row.safest_ratio is None else f"+{format_percent(max(row.safest_ratio, 0.0))}"
    return (
        row.size,
        row.cap,
        format_seconds(row.latency_s),
        format_gib(row.charged_bytes),
        row.residents,
        row.tiers,
        safest,
    )
