"""The picture of predicted against measured figures."""

import numpy as np
import pytest
from comparison_builders import build_figure

from autotune.fidelity.comparison import Kind
from autotune.fidelity.summary import summarize_kind
from reports.figures.scatter import describe_finding, draw_scatter
from runtime.units import GIB


def _draw(*figures, kind=Kind.LATENCY):
    picture = draw_scatter(figures, summarize_kind(figures, kind))
    picture.draw_without_rendering()
    return picture


def _points(axes):
    return [point for line in axes.lines if line.get_marker() not in ("", "None") for point in line.get_xydata()]


def test_finding_is_how_far_off_half_are_before_and_after():
    figures = [build_figure("a"), build_figure("b", predicted=11.0, calibrated=10.1)]
    assert describe_finding(summarize_kind(figures, Kind.LATENCY)) == (
        "Half of 2 latencies are predicted within 15.0 %; calibrated on other runs, half of 1 within 1.0 %"
    )
    assert describe_finding(summarize_kind([build_figure()], Kind.LATENCY)).endswith("within 20.0 %")


def test_all_figures_lie_within_the_axes_on_logarithmic_scales():
    figures = [build_figure("a", observed=0.01, predicted=0.0003), build_figure("b", observed=900.0, calibrated=800.0)]
    axes = _draw(*figures).axes[0]
    low, high = axes.get_xlim()
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylim()) == ("log", "log", (low, high))
    assert len(_points(axes)) == 3
    assert all(low < value < high for value in np.ravel(_points(axes)))


def test_peaks_are_drawn_in_gib_with_their_band():
    peak = build_figure(kind=Kind.PEAK, observed=10.0 * GIB, predicted=11.0 * GIB)
    picture = _draw(peak, build_figure("other kind"), kind=Kind.PEAK)
    labels = [text.get_text() for text in picture.legends[0].get_texts()]
    assert [tuple(point) for point in _points(picture.axes[0])] == [(10.0, 11.0)]
    assert "GiB" in picture.axes[0].get_xlabel()
    assert labels == ["toy, card", "predicted", "within 5 %"]


def test_families_beyond_the_marks_share_one():
    figures = [build_figure(f"r{number}", family=f"model {number}") for number in range(30)]
    labels = [text.get_text() for text in _draw(*figures).legends[0].get_texts()]
    assert "others" in labels
    assert len(labels) < 20


@pytest.mark.parametrize("count", [1, 12])
def test_legend_and_axes_do_not_overlap(count):
    figures = [build_figure(f"r{number}", family=f"Wan2.2-T2V-A14B, rtx-600{number}-ada") for number in range(count)]
    picture = _draw(*figures)
    axes, legend = picture.axes[0].get_tightbbox(), picture.legends[0].get_window_extent()
    assert legend.y1 <= axes.y0 + 1
    assert legend.x1 <= picture.bbox.x1
