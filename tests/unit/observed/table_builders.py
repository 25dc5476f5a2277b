"""Measurement tables from the cells that a test cares about."""

import csv

from autotune.observed.csv_rows import TableRow
from autotune.observed.measured_row import read_row
from autotune.observed.measurement_table import read_measurement_table

RUN = {
    "id": "run-1",
    "gpu": "RTX 5090",
    "model": "Qwen-Image",
    "workload": "1024x1024",
    "steps": "50",
    "prefetch": "1",
    "resident": "30",
    "peak_vram": "24.47",
    "peak_unit": "GiB peak reserved",
    "latency_s": "36.68",
    "latency_scope": "denoise",
    "oom": "no",
}


def build_row(**cells):
    """A row of a good run with these cells changed."""
    return TableRow(name="run-1", where="runs.csv line 2", cells={**RUN, **cells})


def observe(**cells):
    """The first observation of a good row with these cells changed."""
    return read_row(build_row(**cells)).observations[0]


def write_table(path, *rows, columns=None, **options):
    """A CSV file of good rows, each with the cells of one of ``rows`` changed."""
    columns = columns or list(dict.fromkeys([*RUN, *(column for row in rows for column in row)]))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore", **options)
        writer.writeheader()
        writer.writerows({**RUN, **row} for row in rows)
    return path


def read_text(tmp_path, content):
    """The runs of a file with exactly this content, text or bytes."""
    path = tmp_path / "runs.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_measurement_table(path)
