"""The picture of device memory: every owner's bytes, phases wide enough to read, the cap."""

import pytest
from figure_checks import LAYOUTS, build_catalog_run, find_label_faults
from run_data_builders import build_run_data

from reports.figures.memory import draw_memory, memory_series, share_width
from runtime.units import GIB

WITH_PHASES = [layout for layout in LAYOUTS if "memory" in layout]


@pytest.mark.parametrize("layout", WITH_PHASES, ids=lambda layout: layout["model"])
def test_labels_stay_apart_and_inside_for_every_catalog_model(layout):
    assert not find_label_faults(draw_memory(build_catalog_run(layout)))


@pytest.mark.parametrize("layout", WITH_PHASES, ids=lambda layout: layout["model"])
def test_bands_sum_to_what_each_phase_is_charged(layout):
    series = memory_series(build_catalog_run(layout))
    totals = [sum(sizes) for sizes in zip(*(band.phase_bytes for band in series.layers), strict=True)]
    assert totals == [phase.charged_bytes for phase in series.phases]
    assert max(totals) == max(phase.charged_bytes for phase in build_catalog_run(layout).memory)
    assert len({band.look for band in series.layers}) == len(series.layers)


def test_bars_are_as_high_as_the_run_says_in_gib_and_fill_the_width():
    series = memory_series(build_run_data())
    axes = draw_memory(build_run_data()).axes[0]
    count = len(series.phases)
    first = axes.patches[:count]
    assert [bar.get_height() for bar in first] == [size / GIB for size in series.layers[0].phase_bytes]
    assert sum(bar.get_width() for bar in first) == pytest.approx(1)
    top = axes.patches[-1]
    assert top.get_y() + top.get_height() == pytest.approx(series.phases[-1].charged_bytes / GIB)
    assert axes.get_ylabel() == "device memory (GiB)"


def test_short_phases_keep_a_part_of_the_width_and_long_ones_take_the_rest():
    widths = share_width([0.0, 0.001, 100.0])
    assert widths[0] == pytest.approx(0.09)
    assert widths[1] > widths[0]
    assert widths[2] == pytest.approx(1 - widths[0] - widths[1])
    assert sum(share_width([1.0] * 30)) == pytest.approx(1)
    assert share_width([0.0, 0.0]) == (0.5, 0.5)


def test_what_is_queued_after_a_use_is_left_out_unless_it_is_the_peak():
    layout = next(item for item in WITH_PHASES if item["model"] == "H3")
    series = memory_series(build_catalog_run(layout))
    assert not any(": after " in phase.phase for phase in series.phases)
    raised = {**layout, "memory": [[*row[:3], [80 * GIB, *row[3][1:]]] for row in layout["memory"][2:3]]}
    assert [phase.phase for phase in memory_series(build_catalog_run(raised)).phases] == [layout["memory"][2][0]]


def test_the_title_names_the_peak_and_its_distance_from_the_cap():
    layout = next(item for item in WITH_PHASES if item["model"] == "H3")
    assert memory_series(build_catalog_run(layout)).finding == (
        "Peak 13.54 GiB, 9.98 GiB under the cap, in first request: transformer"
    )
    tight = {**layout, "cap_bytes": 10 * GIB}
    assert "3.54 GiB over the cap" in memory_series(build_catalog_run(tight)).finding


def test_a_run_without_phases_has_no_such_picture_and_one_without_a_plan_no_cap():
    assert draw_memory(build_run_data(memory=())) is None
    assert memory_series(build_run_data(plan=None)).cap_bytes is None
    assert not find_label_faults(draw_memory(build_run_data(plan=None)))
