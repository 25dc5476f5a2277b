"""Predictions beside measurements as tables and sentences."""

from comparison_builders import build_figure

from autotune.fidelity.comparison import ExhaustedRun, Kind
from autotune.fidelity.groups import Difference, Group
from autotune.fidelity.summary import summarize_kind
from autotune.observed.observation import Reason, Refused
from reports.validation import (
    describe_result,
    exhausted_table,
    figure_table,
    group_tables,
    list_misses,
    refusal_tables,
    summary_table,
)
from runtime.units import GIB

LATENCY = build_figure("A", calibrated=10.5, reasons=("it is short",))
PEAK = build_figure("B", kind=Kind.PEAK, what="peak (reserved)", components=(), observed=10 * GIB, predicted=9 * GIB)
DIFFERENCE = Difference(
    run="A",
    other="C",
    what="use",
    other_s=10.0,
    observed_s=5.0,
    predicted_s=-5.0,
    calibrated_s=-4.0,
    reasons=("older",),
)
GROUP = Group(
    title="toy",
    placements={"A": "transformer P=2", "C": "transformer P=1"},
    fitted_on=("C",),
    figures=(LATENCY,),
    differences=(DIFFERENCE,),
)


def _scopes(*figures):
    summaries = tuple(summarize_kind(figures, kind) for kind in Kind)
    return (("one card", len(figures), summaries), ("each of several ranks", 0, ()))


def test_every_figure_has_its_unit_and_signed_errors():
    rows = figure_table([LATENCY, PEAK]).rows
    assert rows[0][3:] == ("10.00 s", "12.00 s", "+20.0 %", "+5.0 %")
    assert rows[1][3:] == ("10.00 GiB", "9.00 GiB", "-10.0 %", "")


def test_summary_has_a_row_for_each_kind_that_was_measured():
    table = summary_table(_scopes(LATENCY, PEAK))
    assert [row[0] for row in table.rows] == ["latency, one card", "peak, one card"]
    assert table.rows[0][1:7] == ("1", "20.0 %", "20.0 % (A)", "1", "5.0 %", "5.0 % (A)")
    assert table.rows[1][4:7] == ("0", "", "")


def test_result_says_counts_medians_and_peaks_that_are_too_low():
    sentences = describe_result(_scopes(LATENCY, PEAK), [PEAK], 7)
    assert sentences[0] == "Compared: 2 runs on one card; 7 cannot be compared"
    assert sentences[1].startswith(
        "Latencies, one card: half of 1 are off by at most 20.0 %, after calibrating half of 1 by"
    )
    assert sentences[-1] == "Peaks predicted more than 5 % too low: B (-10.0 %)"


def test_group_says_what_was_fitted_and_judges_differences():
    figures, differences = group_tables(GROUP)
    assert figures.title == "toy. Calibrated on C (transformer P=1)"
    assert figures.rows == (("A", "transformer P=2", "use of transformer", "10.00 s", "10.50 s", "+5.0 %"),)
    assert differences.rows == (("A", "C", "+50.0 %", "-50.0 %", "-40.0 %", "wrong direction"),)


def test_misses_are_listed_under_their_reasons():
    shortage = ExhaustedRun(run="D", had_bytes=GIB, predicted_bytes=GIB // 2, reasons=("older",))
    misses = list_misses([LATENCY, PEAK], [GROUP], [shortage])
    assert misses == [
        "A use of transformer +20.0 %: it is short",
        "A against C: wrong direction, D: not predicted to run out of memory: older",
    ]


def test_confirmed_shortage_is_no_miss():
    confirmed = ExhaustedRun(run="D", had_bytes=GIB, predicted_bytes=2 * GIB)
    assert list_misses([], [], [confirmed]) == []
    assert exhausted_table([confirmed]).rows == (("D", "1.00 GiB", "2.00 GiB", "yes"),)


def test_refused_runs_are_counted_by_reason_and_told_run_by_run():
    refused = [
        Refused(name=name, where="t.csv", reason=reason, text=f"why {name}")
        for name, reason in (("a", Reason.QUANTISED), ("b", Reason.NO_FIGURE), ("c", Reason.QUANTISED))
    ]
    counts, rows = refusal_tables(refused, {Reason.QUANTISED: 2, Reason.NO_FIGURE: 1})
    assert counts.rows == (("quantised", "2"), ("no figure", "1"))
    assert [row[0] for row in rows.rows] == ["a", "c", "b"]
    assert refusal_tables([], {}) == ()
