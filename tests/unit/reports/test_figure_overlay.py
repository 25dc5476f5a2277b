"""Several trade-off curves in one picture."""

from dataclasses import replace
from io import BytesIO

import pytest
from figure_checks import find_label_faults
from PIL import Image
from run_data_builders import build_document, build_run_data

from reports.figures.overlay import MOST_RUNS, OverlayCurve, draw_overlay, overlay_series
from reports.figures.png import encode_png
from reports.run_data import CurvePoint
from runtime.errors import InputError
from runtime.target_summary import CapSummary
from runtime.units import GIB


def build_curve(*corners):
    return tuple(
        CurvePoint(charged_bytes=round(gib * GIB), latency_s=time_s, fits=True, placements={})
        for gib, time_s in corners
    )


def build_run(name, *corners, cap_gib=16):
    plan = build_document(cap=CapSummary(asked_bytes=None, effective_bytes=round(cap_gib * GIB), reason="asked for"))
    return build_run_data(name=name, plan=plan, curve=build_curve(*corners))


def draw(*runs):
    return draw_overlay(runs, "One card is faster").get_axes()[0]


def test_each_run_is_a_line_through_its_corners_as_far_as_its_cap():
    axes = draw(build_run("slow", (12, 40.0), (8, 50.0)), build_run("fast", (9, 30.0)))
    lines = {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}
    assert list(lines) == ["slow", "fast"]
    assert list(lines["slow"].get_xdata()) == [8.0, 12.0, 16.0]
    assert list(lines["slow"].get_ydata()) == [50.0, 40.0, 40.0]
    assert lines["slow"].get_drawstyle() == "steps-post"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("device memory charged (GiB)", "latency of a later request (s)")


@pytest.mark.parametrize(("latency_s", "scale"), [(13.0, "linear"), (9.0, "log")])
def test_latencies_far_apart_get_a_logarithmic_axis(latency_s, scale):
    axes = draw(build_run("a", (8, 50.0), (12, 40.0)), build_run("b", (8, latency_s)))
    assert axes.get_yscale() == scale


def test_curve_says_the_latency_within_an_amount_of_memory():
    (curve,) = overlay_series([build_run("a", (12, 40.0), (8, 50.0))])
    found = [curve.latency_within(round(gib * GIB)) for gib in (7, 8, 11.9, 12, 99)]
    assert found == [None, 50.0, 50.0, 40.0, 40.0]


def test_corners_beyond_the_cap_are_left_out():
    beyond = CurvePoint(charged_bytes=20 * GIB, latency_s=1.0, fits=False, placements={})
    (curve,) = overlay_series([replace(build_run("a", (8, 50.0)), curve=(*build_curve((8, 50.0)), beyond))])
    assert curve.points == build_curve((8, 50.0))


def test_a_curve_without_a_plan_ends_at_the_edge():
    axes = draw(replace(build_run("a", (8, 50.0), (12, 40.0)), plan=None), build_run("b", (9, 60.0), cap_gib=24))
    assert axes.get_lines()[0].get_xdata()[-1] == 24.0


def test_runs_without_a_curve_are_left_out():
    empty = replace(build_run_data(), curve=())
    assert overlay_series([empty]) == ()
    assert draw_overlay([empty], "nothing") is None
    found = overlay_series([empty, build_run("a", (8, 1.0))])
    assert found == (OverlayCurve(name="a", points=build_curve((8, 1.0)), cap_bytes=16 * GIB),)


def test_labels_of_as_many_runs_as_can_be_told_apart_do_not_touch():
    runs = [build_run(f"MiniMax-H3, rtx-4090 number {n}", (8 + n, 50.0 + n), (20, 10.0 + n)) for n in range(MOST_RUNS)]
    figure = draw_overlay(runs, "The more memory, the faster, on each of the seven cards that were compared")
    assert find_label_faults(figure) == []


def test_more_runs_than_can_be_told_apart_are_refused():
    runs = [build_run(f"number {n}", (8 + n, 50.0)) for n in range(MOST_RUNS + 1)]
    with pytest.raises(InputError, match=f"draw at most {MOST_RUNS}"):
        draw_overlay(runs, "too many")


def test_a_picture_file_is_composed_for_640_pixels_and_always_the_same():
    pictures = {encode_png(draw_overlay([build_run("a", (8, 50.0), (12, 40.0))], "Found")) for _ in range(2)}
    assert len(pictures) == 1
    image = Image.open(BytesIO(pictures.pop()))
    assert image.size == (640, 432)
    assert image.text == {}
