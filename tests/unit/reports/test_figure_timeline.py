"""The picture of a pass: its work cut out of the timeline, its waits, and what binds."""

import pytest
from figure_checks import find_label_faults
from run_data_builders import build_run_data

from reports.figures.timeline import draw_timeline, timeline_series
from reports.run_data import PassWindow
from runtime.timeline import Lane, Span, Stall, Timeline


def _run(spans, stalls=(), end_s=10.0):
    timeline = Timeline(spans=tuple(spans), stalls=tuple(stalls), repeats=(), live=())
    window = PassWindow(title="steady pass", component="dit", start_s=0.0, end_s=end_s)
    return build_run_data(timeline=timeline, windows=(window,))


def _span(lane, start_s, end_s, component="dit"):
    return Span(lane=lane, start_s=start_s, end_s=end_s, component=component, stack="blocks", layer=0)


def test_passes_hold_the_timelines_spans_and_stalls_from_their_beginning_on():
    first, steady = timeline_series(build_run_data()).passes
    assert (first.title, steady.title) == ("first pass", "steady pass")
    assert first.duration_s == pytest.approx(0.024)
    assert first.waiting_s == pytest.approx(0.012)
    assert first.busy_s(Lane.COMPUTE) == pytest.approx(0.012)
    assert steady.waiting_s == pytest.approx(0.006)
    assert min(bar.start_s for bar in steady.work) == pytest.approx(0.0)


def test_work_that_crosses_the_windows_edge_is_cut_there():
    series = timeline_series(_run([_span(Lane.H2D, -1.0, 2.0), _span(Lane.COMPUTE, 8.0, 12.0)]))
    assert [(bar.start_s, bar.length_s) for bar in series.passes[0].work] == [(0.0, 2.0), (8.0, 2.0)]
    assert series.lanes == (Lane.H2D, Lane.COMPUTE)


def test_copies_of_other_components_are_told_apart():
    series = timeline_series(_run([_span(Lane.H2D, 0.0, 1.0, "vae"), _span(Lane.COMPUTE, 0.0, 9.0)]))
    assert [bar.is_own for bar in series.passes[0].work] == [False, True]


@pytest.mark.parametrize(
    ("lane", "copy_s", "wait_s", "finding"),
    [
        (Lane.H2D, 4.0, 0.0, "Compute binds: a steady pass of 10.00 s never waits for a copy"),
        (Lane.H2D, 10.0, 4.0, "The link binds: 40.0 % of a steady pass of 10.00 s is waiting for copies"),
        (Lane.READ, 10.0, 4.0, "Reading weights binds: 40.0 % of a steady pass of 10.00 s is waiting for copies"),
    ],
)
def test_the_title_names_what_is_busiest(lane, copy_s, wait_s, finding):
    stalls = [Stall(start_s=0.0, end_s=wait_s, component="dit")] if wait_s else []
    data = _run([_span(lane, 0.0, copy_s), _span(Lane.COMPUTE, wait_s, 9.5)], stalls)
    assert timeline_series(data).finding == finding
    assert not find_label_faults(draw_timeline(data))


def test_both_passes_share_one_scale_of_seconds_and_have_a_row_per_lane():
    figure = draw_timeline(build_run_data())
    first, steady = figure.axes
    assert first.get_xlim() == steady.get_xlim()
    assert first.get_xlim()[1] == pytest.approx(0.024 * 1.01)
    assert [label.get_text() for label in steady.get_yticklabels()] == ["compute", "copy up"]
    assert steady.get_xlabel().endswith("(s)")
    assert not find_label_faults(figure)


def test_a_run_without_timeline_or_passes_has_no_such_picture():
    assert draw_timeline(build_run_data(timeline=None)) is None
    assert draw_timeline(build_run_data(windows=())) is None
