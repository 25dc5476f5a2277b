"""Tables behind pictures: every value of the record, as all other tables print it, and none besides."""

from dataclasses import replace

import pytest
from run_data_builders import build_document, build_run_data

from reports.figures.timeline import LANE_NAMES
from reports.measurement import measurement_table
from reports.page.pictures import PICTURES
from reports.run_data import Owner
from reports.tables import what_if_table
from runtime.units import format_gib, format_seconds

DATA = build_run_data()


def rows_of(key, data=DATA):
    return PICTURES[key].illustrate(data).table.rows


def test_trade_off_has_every_mark_the_cap_and_every_corner():
    rows = rows_of("trade-off")
    plan = DATA.plan
    for item in plan.comparisons:
        cells = (
            item.name,
            format_gib(item.charged_bytes),
            format_seconds(item.latency_s),
            "yes" if item.fits else "no",
        )
        assert (cells in rows) == (item.name != "optimum")
    assert ("cap", format_gib(plan.cap.effective_bytes), "", "") in rows
    corners = [row for row in rows if row[0] == "curve"]
    assert [row[1:3] for row in corners] == [
        (format_gib(point.charged_bytes), format_seconds(point.latency_s)) for point in DATA.curve
    ]
    assert [row[3] == "yes" for row in corners] == [point.fits for point in DATA.curve]


def test_hosts_have_a_row_each_and_say_where_nothing_fits():
    rows = rows_of("hosts")
    assert [row[0] for row in rows] == [format_gib(point.host_bytes) for point in DATA.host_curve]
    assert rows[0][1:3] == ("nothing fits", "")
    assert [row[1] for row in rows[1:]] == [format_seconds(point.latency_s) for point in DATA.host_curve[1:]]
    assert [row[4] for row in rows] == ["no", "no", "yes", "no"]


def test_passes_have_every_span_and_every_wait_in_them():
    rows = rows_of("passes")
    start_s, end_s = DATA.windows[0].start_s, DATA.windows[0].end_s
    own = [row for row in rows if row[0] == "first pass"]
    spans = [span for span in DATA.timeline.spans if start_s <= span.start_s < end_s]
    expected = [
        (LANE_NAMES[span.lane], format_seconds(span.start_s - start_s), format_seconds(span.end_s - span.start_s))
        for span in spans
    ]
    assert [(row[1], *row[3:]) for row in own if row[1] != "compute waits"] == expected
    assert [row[4] for row in own if row[1] == "compute waits"] == ["6 ms", "6 ms"]


def test_memory_has_every_owner_of_every_phase():
    table = PICTURES["memory"].illustrate(DATA).table
    *phases, cap = table.rows
    for row, phase in zip(phases, DATA.memory, strict=True):
        cells = dict(zip(table.columns, row, strict=True))
        assert cells["charged"] == format_gib(phase.charged_bytes)
        for component, size_bytes in phase.by_component.items():
            assert cells[f"layers of {component}"] == format_gib(size_bytes)
        for owner, size_bytes in phase.parts.items():
            assert owner is Owner.STREAMED or cells[str(owner)] == format_gib(size_bytes)
    assert cap[-1] == format_gib(DATA.plan.cap.effective_bytes)


def test_waits_have_every_layer_in_order():
    assert rows_of("waits") == tuple(
        (item.component, item.stack, str(item.layer), format_seconds(item.stall_s)) for item in DATA.stalls
    )


def test_changes_are_those_of_the_plan_the_most_saving_first():
    expected = sorted(DATA.plan.what_ifs, key=lambda item: item.then_s / item.now_s)
    table = what_if_table(build_document(what_ifs=tuple(expected)))
    assert tuple(row[:4] for row in rows_of("changes")) == tuple(row[:4] for row in table.rows)
    sure = replace(expected[0], difference_sd_s=0.25)
    rows = rows_of("changes", build_run_data(plan=build_document(what_ifs=(sure,))))
    assert rows[0][4] == "± 250 ms"


def test_measured_quantities_are_those_of_the_measurement():
    rows = rows_of("measured")
    assert len(rows) > 5
    assert set(rows) <= set(measurement_table(DATA.measurement).rows)


@pytest.mark.parametrize("place", range(len(DATA.trials)))
def test_search_has_every_trial_with_the_best_so_far(place):
    trial, row = DATA.trials[place], rows_of("search")[place]
    best_s = min(item.latency_s for item in DATA.trials[: place + 1] if item.latency_s is not None)
    time = "failed" if trial.latency_s is None else format_seconds(trial.latency_s)
    assert row == (str(place + 1), trial.origin, time, "yes" if trial.feasible else "no", format_seconds(best_s))
