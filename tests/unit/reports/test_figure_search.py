"""The picture of the search: trials in order, the best so far, the exact optimum."""

from dataclasses import replace

import pytest
from figure_checks import find_label_faults
from run_data_builders import build_run_data

from reports.figures.search import draw_search, search_series


def _run(*rows, count=1):
    data = build_run_data()
    trials = tuple(
        replace(data.trials[0], number=number, latency_s=time_s, feasible=feasible)
        for number, (time_s, feasible) in enumerate(rows * count)
    )
    return replace(data, trials=trials)


def test_the_best_so_far_counts_feasible_trials_only():
    data = _run((5.0, False), (9.0, True), (None, False), (7.0, True), (8.0, True))
    series = search_series(data)
    assert series.trials == data.trials
    assert series.best_s == (None, 9.0, 9.0, 7.0, 7.0)
    assert series.optimum_s == data.plan.comparisons[1].latency_s


def test_every_trial_is_drawn_where_its_order_and_latency_say():
    axes = draw_search(_run((5.0, False), (9.0, True), (None, False), (7.0, True))).axes[0]
    lines = {str(line.get_label()).partition(":")[0]: line for line in axes.lines}
    assert list(lines["feasible"].get_xdata()) == [2, 4]
    assert list(lines["feasible"].get_ydata()) == [9.0, 7.0]
    assert list(lines["does not fit"].get_xdata()) == [1]
    assert list(lines["failed, no latency"].get_xdata()) == [3]
    assert {"best so far", "exact optimum"} <= set(lines)
    assert axes.get_ylabel().endswith("(s)")


@pytest.mark.parametrize(
    ("ratio", "finding"),
    [
        (1.0, "Of 2 trials, none is faster than the exact optimum of "),
        (1.1, "The best of 2 trials is 10.0 % slower than the exact optimum"),
        (0.9, "The best of 2 trials is 10.0 % faster than the exact optimum"),
    ],
)
def test_the_title_compares_the_best_trial_with_the_optimum(ratio, finding):
    optimum_s = build_run_data().plan.comparisons[1].latency_s
    data = _run((optimum_s * ratio, True), (optimum_s * 2, True))
    assert search_series(data).finding.startswith(finding)


def test_the_title_says_when_nothing_fits_or_no_optimum_is_known():
    assert search_series(_run((5.0, False), (6.0, False))).finding == "None of 2 trials fits"
    alone = replace(_run((5.0, True)), plan=None)
    assert search_series(alone).finding == "The best of one trial takes 5.00 s a request"
    assert not find_label_faults(draw_search(alone))


def test_labels_stay_apart_for_many_trials_of_every_kind():
    data = _run((1248.2, True), (4021.9, False), (None, False), count=100)
    assert not find_label_faults(draw_search(data))


def test_a_run_without_a_study_has_no_such_picture():
    assert draw_search(build_run_data(trials=())) is None
