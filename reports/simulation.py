"""The uses of a predicted request as a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reports.tables import Table
from runtime.prediction import Prediction
from runtime.units import format_seconds


def simulated_uses_table(prediction: Prediction, placements: Mapping[str, str]) -> Table:
    """Use by use: when it starts, how long it takes, what it waits for, its passes."""
    rows = tuple(
        (
            use.component,
            placements[use.component],
            format_seconds(use.start_s),
            format_seconds(use.end_s - use.start_s),
            format_seconds(use.fill_s),
            format_seconds(max(use.end_s - use.start_s - use.compute_s, 0.0)),
            format_seconds(use.bound_s),
            ", ".join(f"{part.count} x {format_seconds(part.steady_s)}" for part in use.passes) or "nothing runs",
        )
        for use in prediction.uses
    )
    columns = ("use", "placement", "starts at", "takes", "fill", "waits in all", "bound", "steady passes")
    return Table(
        title="A later request",
        columns=columns,
        rows=rows,
        numeric=frozenset(columns[2:7]),
        foldable=frozenset({"placement", "steady passes"}),
        optional=("starts at", "waits in all"),
    )
