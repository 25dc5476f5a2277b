"""Medians, worst errors, and peaks that are predicted too low."""

import pytest
from comparison_builders import build_figure

from autotune.fidelity.comparison import Kind
from autotune.fidelity.summary import list_under_predicted, summarize_kind


def _peak(run, predicted, **changes):
    return build_figure(run, kind=Kind.PEAK, observed=100.0, predicted=predicted, low=90.0, high=120.0, **changes)


def test_sizes_of_errors_count_whatever_their_sign():
    found = summarize_kind([_peak("a", 90.0), _peak("b", 102.0), _peak("c", 101.0)], Kind.PEAK)
    assert (found.predicted.count, found.predicted.worst_run) == (3, "a")
    assert found.predicted.median_ratio == pytest.approx(0.02)
    assert found.predicted.worst_ratio == pytest.approx(0.1)


def test_only_calibrated_figures_count_after_calibrating():
    found = summarize_kind([_peak("a", 90.0, calibrated=99.0), _peak("b", 102.0)], Kind.PEAK)
    assert found.calibrated.count == 1
    assert found.calibrated.median_ratio == pytest.approx(0.01)


def test_kinds_are_apart_and_nothing_has_no_error():
    found = summarize_kind([_peak("a", 90.0)], Kind.LATENCY)
    assert (found.predicted.count, found.predicted.median_ratio, found.within_ratio) == (0, None, None)


def test_share_within_the_interval_is_of_all_figures():
    outside = build_figure("out", low=11.0, high=13.0)
    assert summarize_kind([build_figure(), outside], Kind.LATENCY).within_ratio == 0.5


def test_under_predicted_are_peaks_alone_and_beyond_what_is_tolerated():
    figures = [_peak("low", 94.0), _peak("near", 96.0), _peak("high", 130.0), build_figure("slow", predicted=1.0)]
    assert [figure.run for figure in list_under_predicted(figures)] == ["low"]
