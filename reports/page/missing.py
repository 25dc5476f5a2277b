"""What a run folder does not give, and how to get it. Pure."""

from __future__ import annotations

from reports.run_data import Gap, RunData
from reports.tables import Table
from runtime.measurement_document import FILE_NAME as MEASUREMENT_FILE

SEARCH = "autotune search"
MEASURE = "autotune run plan.json"


def missing_table(data: RunData) -> Table:
    """One row per gap: the file, what is wrong, what that leaves out of the report, and what would make it."""
    rows = tuple((gap.file, gap.problem, gap.lost, _remedy(gap, data)) for gap in data.gaps)
    columns = ("file", "what is wrong", "left out of this report", "how to get it")
    return Table(
        title="What this run folder does not give", columns=columns, rows=rows, foldable=frozenset(columns[1:])
    )


def _remedy(gap: Gap, data: RunData) -> str:
    if gap.file == MEASUREMENT_FILE:
        return f"execute the plan: {MEASURE}"
    return f"make the run again: {data.plan.command if data.plan is not None else SEARCH}"
