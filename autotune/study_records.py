"""What a study keeps of each trial, and what it found."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.evaluate import Score
from runtime.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One trial.

    Attributes:
        number: position in this run of the study, from 0.
        plan: what was tried.
        score: what it scored; None when it could not be run.
        feasible: whether it ran and stayed within the cap.
        origin: ``sampled``, or what the plan was seeded as.
        repeated: whether the answer came from memory.
        failure: why it could not be run.
    """

    number: int
    plan: Plan
    score: Score | None
    feasible: bool
    origin: str
    repeated: bool
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """What a run of a study found.

    Attributes:
        records: trials of this run, in order.
        evaluations: trials of this run that were not answered from memory.
        exhausted: whether every plan of the space has been tried, in this run or before.
        earlier: distinct plans that earlier runs in the same storage have tried, in order.
    """

    records: tuple[TrialRecord, ...]
    evaluations: int
    exhausted: bool
    earlier: tuple[TrialRecord, ...] = ()

    @property
    def best(self) -> TrialRecord | None:
        """The fastest feasible trial of all runs; the one that needs less VRAM among equals; None when none is."""
        feasible = [record for record in (*self.earlier, *self.records) if record.feasible]
        return min(feasible, key=rank_record, default=None)


def rank_record(record: TrialRecord) -> tuple[float, int, int]:
    """Order of preference: fast, then small, then early; trials that could not be run come last."""
    score = record.score
    if score is None:
        return (math.inf, 0, record.number)
    return (score.latency_s, score.charged_bytes, record.number)
