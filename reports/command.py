"""A server's command beside what else could be run: tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.differences import difference_cell
from reports.tables import Table
from runtime.units import format_gib, format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPlan:
    """One of the plans that are compared.

    Attributes:
        name, meaning: what it is.
        latency_s: a later request.
        charged_bytes: the most that is charged against the VRAM cap.
        host_bytes: its copies in host memory.
        fits: whether both memories suffice.
        placements: component -> placement in words.
        difference_s: by how much it is slower than the first of the plans; None for that.
        difference_sd_s: standard deviation of that.
    """

    name: str
    meaning: str
    latency_s: float
    charged_bytes: int
    host_bytes: int
    fits: bool
    placements: Mapping[str, str]
    difference_s: float | None = None
    difference_sd_s: float | None = None


def compared_plans_table(plans: Sequence[ComparedPlan]) -> Table:
    """The plans side by side."""
    columns = ("plan", "request", "VRAM charged", "fits", "host", f"beside {plans[0].name}")
    return Table(
        title="Compared",
        columns=columns,
        rows=tuple(
            (
                plan.name,
                format_seconds(plan.latency_s),
                format_gib(plan.charged_bytes),
                "yes" if plan.fits else "no",
                format_gib(plan.host_bytes),
                difference_cell(plan.difference_s, plan.difference_sd_s),
            )
            for plan in plans
        ),
        numeric=frozenset({"request", "VRAM charged", "host"}),
    )


def compared_placements_table(plans: Sequence[ComparedPlan], chosen_by_server: Sequence[str]) -> Table:
    """Who chose each placement of the first plan, and the placements of all plans."""
    first, *others = plans
    rows = tuple(
        (
            name,
            placement,
            "the server" if name in chosen_by_server else "the command",
            *(plan.placements[name] for plan in others),
        )
        for name, placement in first.placements.items()
    )
    columns = ("component", first.name, "chosen by", *(plan.name for plan in others))
    return Table(title="Placements", columns=columns, rows=rows, foldable=frozenset(columns[1:]))
