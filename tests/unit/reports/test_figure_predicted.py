"""The picture of predicted over measured figures: every pair, and which is furthest off."""

from dataclasses import replace

import pytest
from figure_checks import find_label_faults
from run_data_builders import build_run_data

from reports.figures.predicted import draw_predicted, predicted_series
from runtime.measurement_document import Compared
from runtime.units import GIB


def _run(*pairs):
    data = build_run_data()
    return replace(data, measurement=replace(data.measurement, comparisons=pairs))


def _pair(quantity, predicted, measured, unit="s"):
    ratio = measured / predicted if predicted else None
    return Compared(quantity=quantity, unit=unit, predicted=predicted, measured=measured, ratio=ratio)


PAIRS = (
    _pair("later request", 100.0, 104.0),
    _pair("fill of transformer", 0.5, 0.8),
    _pair("peak weights", 20 * GIB, 20 * GIB, "bytes"),
    _pair("peak of idle", 0.0, 0.0, "bytes"),
)


def test_the_series_are_the_measurements_pairs_but_for_those_a_logarithm_has_no_place_for():
    series = predicted_series(_run(*PAIRS))
    assert series.compared == PAIRS[:3]
    assert series.left_out == PAIRS[3:]
    assert series.finding == (
        "2 of 3 predictions are within 10 % of what was measured; furthest: fill of transformer, measured 60.0 % more"
    )


def test_pairs_are_drawn_measured_to_the_right_and_predicted_upwards():
    figure = draw_predicted(_run(*PAIRS))
    times, sizes = figure.axes
    assert times.lines[-1].get_xydata().tolist() == [[104.0, 100.0], [0.8, 0.5]]
    assert sizes.lines[-1].get_xydata().tolist() == [[20.0, 20.0]]
    assert (times.get_xlabel(), times.get_ylabel()) == ("measured time (s)", "predicted time (s)")
    assert sizes.get_ylabel() == "predicted device memory (GiB)"
    assert times.get_xlim() == times.get_ylim()
    assert not find_label_faults(figure)


def test_an_emulated_execution_is_measured_as_predicted():
    data = build_run_data()
    assert predicted_series(data).finding.endswith("figures were measured as predicted")
    assert not find_label_faults(draw_predicted(data))


@pytest.mark.parametrize(("least", "most"), [(1e-4, 5000.0), (3.0, 3.1), (1.0, 60.0), (240.0, 1250.0)])
def test_labels_stay_apart_whatever_the_range(least, most):
    pairs = tuple(
        _pair(str(value), value * per_unit, value * per_unit * 1.05, unit)
        for value in (least, most)
        for unit, per_unit in (("s", 1), ("bytes", GIB))
    )
    figure = draw_predicted(_run(*pairs))
    assert not find_label_faults(figure)


def test_a_run_that_was_not_executed_has_no_such_picture():
    assert draw_predicted(build_run_data(measurement=None)) is None
    assert draw_predicted(_run(*PAIRS[3:])) is None
