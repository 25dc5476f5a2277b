"""Latency and memory of an execution, row by row: the request, its uses, its components."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from builders import build_component, build_plan, moved, streamed
from execution_builders import build_run

from autotune.workflows.emulated_execution import execute_emulated
from autotune.workflows.measurement_record import build_measurement
from autotune.workflows.run_settings import Emulation, Rounds
from reports.uses import list_use_rows, uses_table

COMPONENTS = {
    "vae": build_component(2, copy_ms=5, compute_ms=1),
    "transformer": build_component(4, copy_ms=6, compute_ms=3, passes=8, is_dit=True),
}


@pytest.fixture(scope="module")
def measurement():
    document, profile = build_run(COMPONENTS, build_plan(moved("vae"), streamed("transformer")))
    rounds = Rounds(warmup=1, repeats=4)
    execution = execute_emulated(document, profile, Emulation(clock="virtual"), rounds, seed=5)
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return build_measurement(document, execution, rounds, seed=5, command="autotune run", created=created)


def test_rows_are_the_request_then_uses_then_components(measurement):
    rows = list_use_rows(measurement)
    scopes = [(row.scope, row.name) for row in rows]
    assert scopes == [
        ("request", "later request"),
        ("use", "vae"),
        ("use", "transformer"),
        ("component", "vae"),
        ("component", "transformer"),
    ]
    assert {row.requests for row in rows} == {4}


def test_every_figure_is_that_of_the_document(measurement):
    whole, vae, transformer, *_ = list_use_rows(measurement)
    assert (whole.p50_s, whole.p95_s) == (measurement.latency.median_s, measurement.latency.p95_s)
    assert (vae.first_s, vae.p50_s) == (measurement.uses[0].first_s, measurement.uses[0].time.median_s)
    assert transformer.copied_bytes == sum(measurement.uses[1].copied_bytes.values()) > 0
    peaks = {phase.phase: phase.total_bytes for phase in measurement.phases}
    assert transformer.peak_bytes == peaks["later request: transformer"]
    assert whole.peak_bytes == max(size for name, size in peaks.items() if name.startswith("later request"))


def test_uses_of_one_component_add_up(measurement):
    twice = replace(measurement, uses=(measurement.uses[0], replace(measurement.uses[0], title="vae (2)")))
    (row,) = (row for row in list_use_rows(twice) if row.scope == "component" and row.name == "vae")
    assert row.first_s == 2 * measurement.uses[0].first_s


def test_the_table_leaves_what_is_not_known_empty(measurement):
    unknown = replace(measurement, latency=replace(measurement.latency, p95_s=None))
    table = uses_table(unknown)
    assert table.title == "Latency and memory of 4 later requests"
    assert table.rows[0][2] == ""
    assert table.rows[1][2].endswith("s")
    assert table.rows[3][0] == "vae, all uses"
