"""The trade-off picture: what it draws, what it says, and that its labels stay apart for every catalog model."""

from dataclasses import replace

import pytest
from figure_checks import LAYOUTS, build_catalog_run, find_label_faults
from run_data_builders import PLACEMENTS, build_document, build_run_data

from reports.figures.tradeoff import draw_tradeoff, find_knee, tradeoff_series
from reports.run_data import CurvePoint
from runtime.units import GIB


def _curve(*points):
    return tuple(
        CurvePoint(charged_bytes=size * GIB, latency_s=time_s, fits=True, placements=PLACEMENTS)
        for size, time_s in points
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout['model']}-{layout['cap_bytes'] >> 30}")
def test_labels_stay_apart_and_inside_for_every_catalog_model(layout):
    assert not find_label_faults(draw_tradeoff(build_catalog_run(layout)))


def test_the_series_are_the_runs_own_values():
    data = build_run_data()
    series = tradeoff_series(data)
    assert series.curve == data.curve
    assert series.cap_bytes == data.plan.cap.effective_bytes
    assert series.least_bytes == 3 * GIB
    assert [mark.name for mark in series.marks] == ["plan", "server default", "streamed", "everything resident"]
    assert set(series.marks) < set(data.plan.comparisons)


def test_the_chosen_plan_lies_on_the_curve_or_ties_with_it():
    curve = _curve((3, 0.11), (6, 0.085), (8, 0.06))
    document = build_document()
    chosen = replace(document.comparisons[0], charged_bytes=7 * GIB, latency_s=0.0852)
    series = tradeoff_series(build_run_data(curve=curve, plan=replace(document, comparisons=(chosen,))))
    corner = max(
        (point for point in series.curve if point.charged_bytes <= series.mark("plan").charged_bytes),
        key=lambda point: point.charged_bytes,
    )
    assert corner.latency_s <= series.mark("plan").latency_s <= corner.latency_s * 1.005


def test_what_is_drawn_is_the_curve_in_gib_and_seconds():
    data = build_run_data()
    axes = draw_tradeoff(data).axes[0]
    stairs = max(axes.lines, key=lambda line: len(line.get_xdata()))
    assert list(stairs.get_xdata())[:4] == [3.0, 4.0, 6.0, 8.0]
    assert list(stairs.get_ydata())[:4] == [0.11, 0.09, 0.085, 0.06]
    assert stairs.get_drawstyle() == "steps-post"
    assert axes.get_xlabel().endswith("(GiB)")
    assert axes.get_ylabel().endswith("(s)")


def test_a_plan_that_takes_less_than_what_was_fixed_allows_lies_within_the_picture():
    document = build_document()
    streamed = next(item for item in document.comparisons if item.name == "streamed")
    small = replace(streamed, charged_bytes=9 * GIB)
    data = build_run_data(curve=_curve((18, 0.07)), plan=replace(document, comparisons=(small,)))
    figure = draw_tradeoff(data)
    assert figure.axes[0].get_xlim()[0] < 9
    assert not find_label_faults(figure)


def test_the_chosen_plan_is_marked_where_the_plan_document_puts_it():
    data = build_run_data()
    plan = data.plan.comparisons[0]
    axes = draw_tradeoff(data).axes[0]
    (mark,) = [line for line in axes.lines if str(line.get_label()).startswith("plan:")]
    assert list(mark.get_ydata()) == [plan.latency_s]
    assert mark.get_marker() == "o"


def test_the_knee_is_the_corner_furthest_below_the_chord():
    curve = _curve((0, 100.0), (2, 40.0), (5, 30.0), (10, 0.0))
    assert find_knee(curve) is curve[1]


def test_a_straight_or_flat_curve_has_no_knee():
    assert find_knee(_curve((0, 100.0), (5, 50.0), (10, 0.0))) is None
    assert find_knee(_curve((0, 100.0), (2, 99.7), (10, 99.6))) is None
    assert find_knee(_curve((4, 100.0))) is None


def test_a_point_far_to_the_right_is_drawn_at_the_edge_and_says_so():
    layout = next(item for item in LAYOUTS if item["model"] == "HunyuanVideo")
    axes = draw_tradeoff(build_catalog_run(layout)).axes[0]
    (mark,) = [line for line in axes.lines if str(line.get_label()).startswith("server default")]
    assert mark.get_marker() == ">"
    assert list(mark.get_xdata()) == [axes.get_xlim()[1]]
    assert mark.get_label().endswith("→")


@pytest.mark.parametrize(
    ("times_s", "finding"),
    [
        ((100.4, 100.4, 101.0, 100.0), "Copies are hidden: residency buys 0.59 %"),
        ((100.9, 100.95, 101.0, 100.0), "Copies are hidden: residency buys less than 0.1 %"),
        ((60.0, 60.0, 90.0, 50.0), "Streaming costs 40.00 s a request; the plan in 20.00 GiB saves 75.0 % of that"),
        ((90.0, 90.0, 90.0, 50.0), "Streaming costs 40.00 s a request; the plan in 20.00 GiB saves none of that"),
    ],
)
def test_the_title_states_the_finding(times_s, finding):
    optimum_s, plan_s, streamed_s, resident_s = times_s
    layout = {
        "cap_bytes": 24 * GIB,
        "curve": [[10 * GIB, streamed_s], [20 * GIB, plan_s]],
        "comparisons": [
            ["plan", plan_s, 20 * GIB, True],
            ["optimum", optimum_s, 23 * GIB, True],
            ["streamed", streamed_s, 10 * GIB, True],
            ["everything resident", resident_s, 60 * GIB, False],
        ],
    }
    assert tradeoff_series(build_catalog_run(layout)).finding == finding


def test_a_run_without_a_plan_shows_the_curve_alone_and_one_without_a_curve_nothing():
    alone = tradeoff_series(build_run_data(plan=None))
    assert (alone.marks, alone.cap_bytes) == ((), None)
    assert alone.finding == "From 3.00 GiB to 8.00 GiB a request falls from 110 ms to 60 ms"
    assert not find_label_faults(draw_tradeoff(build_run_data(plan=None)))
    assert draw_tradeoff(build_run_data(curve=())) is None
    assert tradeoff_series(build_run_data(plan=build_document(), curve=())) is None
