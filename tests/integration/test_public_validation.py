"""The public table, validated: how far predictions are off, and what is said of each miss."""

from pathlib import Path

import pytest

from autotune.capture_cache import load_model_facts
from autotune.fidelity.comparison import Kind
from autotune.fidelity.groups import Verdict
from autotune.observed.measurement_table import read_measurement_table
from autotune.observed.observation import Reason
from autotune.workflows.validation import validate_runs

TABLE = Path(__file__).parents[1] / "data" / "public_measurements.csv"
AGE = "an older server than"


@pytest.fixture(scope="module")
def found(shared_cache):
    return validate_runs(read_measurement_table(TABLE), load_model_facts)


def _median(found, kind, *, single, calibrated):
    summary = next(item for item in found.summarize(single=single) if item.kind is kind)
    return (summary.calibrated if calibrated else summary.predicted).median_ratio


def test_every_row_is_compared_or_refused_with_a_reason(found):
    rows = len(TABLE.read_text(encoding="utf-8").splitlines()) - 1
    assert rows == 207
    # One row holds two runs, one ran out of memory, and three kinds of ranks are counted apart.
    compared = found.count_runs(single=True) + found.count_runs(single=False) + len(found.exhausted)
    assert compared + len(found.refused) == rows + 1
    assert found.count_runs(single=True) >= 30
    assert found.count_runs(single=False) == 6
    assert set(found.refusals) <= set(Reason)
    assert all(row.text for row in found.refused)


@pytest.mark.parametrize(
    ("kind", "calibrated", "limit"),
    [
        (Kind.PEAK, False, 0.05),
        (Kind.PEAK, True, 0.05),
        (Kind.LATENCY, False, 0.30),
        (Kind.LATENCY, True, 0.10),
    ],
)
def test_median_errors_of_runs_on_one_card(found, kind, calibrated, limit):
    assert _median(found, kind, single=True, calibrated=calibrated) <= limit


def test_ranks_are_predicted_as_well_as_one_card(found):
    assert _median(found, Kind.PEAK, single=False, calibrated=False) <= 0.05
    assert _median(found, Kind.LATENCY, single=False, calibrated=False) <= 0.20


def test_most_figures_lie_within_what_is_known_before_any_run(found):
    latency, peak = found.summarize(single=True)
    ranks, _ = found.summarize(single=False)
    assert min(latency.within_ratio, peak.within_ratio, ranks.within_ratio) >= 0.8


def test_peaks_predicted_too_low_have_a_reason_besides_the_age_of_the_server(found):
    assert {figure.run for figure in found.under_predicted} <= {"PM007", "PM010", "PM093"}
    assert all(figure.reasons and not figure.reasons[0].startswith(AGE) for figure in found.under_predicted)


def test_every_figure_that_is_off_says_why(found):
    off = [figure for figure in found.figures if abs(figure.error_ratio) > 0.1]
    assert off
    assert all(figure.reasons for figure in off)


def test_groups_are_those_that_differ_in_placements_alone(found):
    members = sorted("+".join(sorted(group.placements)) for group in found.groups)
    assert members == [
        "PM001+PM002+PM004",
        "PM064+PM065+PM066",
        "PM067+PM068+PM069",
        "PM073+PM074+PM075",
        "PM082+PM083+PM084",
        "PM135+PM135 (10 resident)",
    ]
    assert all(len(group.fitted_on) < len(group.placements) for group in found.groups)


def test_peaks_of_the_others_of_a_group_are_within_five_percent(found):
    peaks = [figure for group in found.groups for figure in group.figures if figure.kind is Kind.PEAK]
    assert peaks
    assert all(abs(figure.calibrated_error_ratio) <= 0.05 for figure in peaks)


def test_differences_have_the_right_direction_and_size_or_a_reason(found):
    differences = [item for group in found.groups for item in group.differences]
    missed = {(item.run, item.other) for item in differences if item.verdict is not Verdict.RIGHT}
    assert missed <= {("PM002", "PM001"), ("PM073", "PM074"), ("PM082", "PM083"), ("PM082", "PM084")}
    assert all(item.verdict is not Verdict.WRONG_DIRECTION for item in differences)
    assert all(item.reasons for item in differences if item.verdict is not Verdict.RIGHT)


def test_prefetch_of_the_public_image_run_gains_nothing_and_the_loss_names_the_version(found):
    group = next(group for group in found.groups if "PM002" in group.placements)
    peak = next(figure for figure in group.figures if figure.kind is Kind.PEAK)
    against_streamed = next(item for item in group.differences if item.other == "PM001")
    assert abs(peak.calibrated_error_ratio) <= 0.03
    assert against_streamed.calibrated_s > 0
    assert "from 0.5.19 on give 4 layer(s) back" in against_streamed.reasons[0]


def test_decoders_working_memory_is_torchs_own_count(found):
    decodes = [figure for figure in found.figures if figure.what == "peak of vae"]
    assert len(decodes) == 3
    assert all(abs(figure.error_ratio) < 0.01 for figure in decodes)


def test_run_that_ran_out_is_missed_because_of_its_decoder(found):
    (run,) = found.exhausted
    assert (run.run, run.is_confirmed) == ("PM144", False)
    assert any("float32" in text for text in run.reasons)
