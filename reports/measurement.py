"""A measurement as a table: every quantity as predicted and as measured. Pure."""

from __future__ import annotations

from reports.tables import Table
from runtime.measurement_document import Compared, MeasurementDocument
from runtime.units import format_gib, format_seconds


def measurement_table(document: MeasurementDocument) -> Table:
    """What was predicted beside what was measured; the column says where times are emulated."""
    measured = "emulated" if document.is_emulated else "measured"
    columns = ("", "predicted", measured, "ratio")
    return Table(
        title=f"Predicted and {measured} (medians of {document.repeats} after {document.warmup} for warm-up)",
        columns=columns,
        rows=tuple(map(compared_cells, document.comparisons)),
        numeric=frozenset(columns[1:]),
        foldable=frozenset({""}),
    )


def compared_cells(item: Compared) -> tuple[str, str, str, str]:
    """One quantity: its name, as predicted, as measured, and measured over predicted."""
    ratio = "" if item.ratio is None else f"{item.ratio:.3f}"
    return (item.quantity, _format(item, item.predicted), _format(item, item.measured), ratio)


def _format(item: Compared, value: float) -> str:
    return format_seconds(value) if item.unit == "s" else format_gib(value, 3)
