"""What the report says of the Optuna sweep."""

import pytest
from builders import build_plan, streamed

from autotune.evaluate import Score
from autotune.study_records import StudyResult, TrialRecord
from autotune.workflows.findings import _second_opinion


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
