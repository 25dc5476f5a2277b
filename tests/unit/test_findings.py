"""What the report says of the Optuna sweep."""

import pytest
from builders import build_plan, streamed

from autotune.evaluate import Score
from autotune.study_records import StudyResult, TrialRecord
from autotune.workflows.findings import _second_opinion, _what_if
from runtime.plan_document import WhatIf


@pytest.mark.parametrize(
    ("found_s", "words"),
    [(9.0, "10.0 % faster than the optimum"), (10.0, "nothing better than the optimum"), (11.0, "10.0 % slower")],
)
def test_a_sweep_is_reported_as_what_it_found(found_s, words):
    record = TrialRecord(
        number=0,
        plan=build_plan(streamed()),
        score=Score(latency_s=found_s, charged_bytes=1),
        feasible=True,
        origin="sampled",
        repeated=False,
    )
    assert words in _second_opinion(StudyResult(records=(record,), evaluations=1, exhausted=False), 10.0)


@pytest.mark.parametrize(
    ("then_s", "sd_s", "words"),
    [
        (90.0, 4.0, "would make the fastest plan 10.00 s ± 4.00 s a request faster (10.0 %)"),
        (90.0, 11.0, "are a tie, their difference is 10.00 s ± 11.00 s"),
        (110.0, None, "would make the fastest plan 10.00 s a request slower (10.0 %)"),
        (98.0, None, "are a tie, their difference is 2.00 s ± 2.80 s"),
    ],
)
def test_a_change_outside_the_plan_is_told_unless_it_is_within_the_noise(then_s, sd_s, words):
    change = WhatIf(change="more", now_s=100.0, then_s=then_s, difference_sd_s=sd_s)
    assert words in _what_if(change, 0.02)
