"""The picture of what-ifs: a bar per change, what it saves beside it."""

from dataclasses import replace

import pytest
from figure_checks import find_label_faults
from run_data_builders import build_document, build_run_data

from reports.figures.what_ifs import draw_what_ifs, what_if_series
from runtime.plan_document import WhatIf

CHANGES = (
    WhatIf(change="2 GiB more VRAM", now_s=1248.0, then_s=1247.6, difference_sd_s=3.0),
    WhatIf(change="16 GiB more host memory", now_s=1248.0, then_s=1100.0),
    WhatIf(change="PCIe x8 instead of x16", now_s=1248.0, then_s=2500.0, difference_sd_s=200.0),
    WhatIf(change="half the steps", now_s=1248.0, then_s=640.0),
)


def _run(*changes):
    return build_run_data(plan=replace(build_document(), what_ifs=changes))


def test_the_series_are_the_plans_changes_the_most_saving_one_first():
    series = what_if_series(_run(*CHANGES))
    assert series.changes == (CHANGES[3], CHANGES[1], CHANGES[0], CHANGES[2])


def test_bars_are_as_long_as_the_latency_with_the_change():
    figure = draw_what_ifs(_run(*CHANGES))
    axes = figure.axes[0]
    assert [bar.get_width() for bar in axes.patches] == [640.0, 1100.0, 1247.6, 2500.0]
    assert "(s)" in axes.get_xlabel()
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["640.0 s (−48.7 %)", "1,100.0 s (−11.9 %)", "1,247.6 s (as now)", "2,500.0 s (+100.3 %)"]  # noqa: RUF001
    assert not find_label_faults(figure)


def test_only_changes_that_make_requests_slower_are_hatched():
    slightly = WhatIf(change="16 GiB less host memory", now_s=1248.0, then_s=1249.0)
    axes = draw_what_ifs(_run(slightly, *CHANGES)).axes[0]
    assert [bar.get_hatch() for bar in axes.patches] == ["", "", "", "", "////"]


def test_a_long_change_is_folded_and_stays_inside():
    change = WhatIf(change="twice the host memory and a link of 64 GB/s instead of 32 GB/s", now_s=0.01, then_s=0.009)
    assert not find_label_faults(draw_what_ifs(_run(change, CHANGES[2])))


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (CHANGES, "Half the steps would save 48.7 % of a request, 16 GiB more host memory 11.9 %"),
        (CHANGES[::3], "Half the steps would save 48.7 % of a request; nothing else here saves time"),
        (CHANGES[3:], "Half the steps would save 48.7 % of a request"),
        (CHANGES[:1], "Nothing here would make the fastest plan faster"),
    ],
)
def test_the_title_states_the_finding(changes, finding):
    assert what_if_series(_run(*changes)).finding == finding


def test_a_plan_without_changes_has_no_such_picture():
    assert draw_what_ifs(_run()) is None
    assert draw_what_ifs(build_run_data(plan=None)) is None
