"""Reads a table of measured runs: every row becomes an observation or says why it cannot be compared."""

from __future__ import annotations

from pathlib import Path

from autotune.catalog.registry import find_model
from autotune.observed.csv_rows import load_rows
from autotune.observed.measured_row import read_row
from autotune.observed.observation import Observation, ObservedRuns, Refused
from autotune.observed.refusal import RowRefusedError


def read_measurement_table(path: str | Path, model: str | None = None) -> ObservedRuns:
    """The runs in the CSV file at ``path``, in the columns of ``autotune.observed.csv_rows.COLUMNS``.

    Args:
        path: of the file.
        model: a name of the only model that is wanted; rows of others are refused. None for any.

    Raises:
        InputError: the file cannot be read, is no text or has no usable header, or ``model`` is unknown. Whatever is
            wrong with a row refuses that row alone.
    """
    wanted = None if model is None else find_model(model).name
    table = load_rows(path)
    observations: list[Observation] = []
    refused, notes = list(table.refused), list(table.notes)
    for row in table.rows:
        try:
            result = read_row(row, wanted)
        except RowRefusedError as error:
            refused.append(Refused(name=row.name, where=row.where, reason=error.reason, text=str(error)))
            continue
        observations += result.observations
        notes += [f"{row.name} ({row.where}): not used: {text}" for text in result.unused]
    return ObservedRuns(observations=tuple(observations), refused=tuple(refused), notes=tuple(notes))
