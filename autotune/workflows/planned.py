"""What a search answers: a plan with what it is compared with, or that nothing fits."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.evaluate import Evaluation
from autotune.exact import CurvePoint, ExactSolution
from autotune.fidelity.spread import Difference, LatencySpreads
from autotune.study_records import StudyResult
from runtime.plan_document import Advice, TuningGain, WhatIf


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingFits:
    """The answer when no plan stays within the cap: the one that comes nearest, and what it needs."""

    cap_bytes: int
    nearest: Evaluation

    @property
    def short_bytes(self) -> int:
        """Device memory that is missing; 0 when only the host has too little."""
        return max(0, self.nearest.peak.charged_bytes - self.cap_bytes)

    @property
    def host_short_bytes(self) -> int:
        """Host memory that is missing."""
        return self.nearest.hosting.short_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The answer when something fits.

    Attributes:
        solution: optimum and chosen plan.
        chosen: the chosen plan, in full.
        streamed: the plan of ``streamed_plan``, with which the others are compared.
        server_default: what the server chooses by itself; None when that is not known.
        unresident: the chosen plan without residents in the components that read from disk; None when none does.
        resident: everything resident, which reaches the bound of compute alone and rarely fits.
        curve: the trade-off between latency and VRAM.
        what_ifs, tuning_gains: what would change the answer, and where tuning would pay.
        study: the Optuna sweep, if one was asked for.
        spreads: how far the latencies of these plans may be off, and of which plans.
        advice: switches outside the search, if they were asked for.
    """

    solution: ExactSolution
    chosen: Evaluation
    streamed: Evaluation
    server_default: Evaluation | None
    unresident: Evaluation | None
    resident: Evaluation
    curve: tuple[CurvePoint, ...]
    what_ifs: tuple[WhatIf, ...]
    tuning_gains: tuple[TuningGain, ...]
    study: StudyResult | None
    spreads: LatencySpreads
    advice: tuple[Advice, ...] = ()

    @property
    def gain_ratio(self) -> float:
        """Share of the streamed plan's latency that the optimum saves."""
        return 1 - self.solution.optimum_score.latency_s / self.streamed.latency_s

    @property
    def gain(self) -> Difference:
        """By how much the streamed plan is slower than the optimum; tuning pays where that is no tie."""
        return self.spreads.difference(self.streamed.plan, self.solution.optimum)


def find_expected_peak(evaluation: Evaluation) -> int:
    """The most that a plan is expected to take of the card, without what is kept free."""
    return max(phase.expected_bytes for phase in evaluation.phases)
