"""The Optuna sweep: what runs when trials are measured, and a check on the exact solver when they are predicted.

The library decides which plan to try next; this module decides everything else, because each of these went wrong for
somebody: every trial carries its constraint or fails (a trial without one counts as feasible), an out-of-memory trial is
complete and infeasible with a finite violation, a repeat is answered from memory, values that nobody suggested are
validated here, and the winner is read from our own records, never from the study's summary.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

import optuna
from optuna.samplers import BaseSampler, GridSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import TrialState, create_trial

from autotune.evaluate import Score
from autotune.study_space import StudySpace
from runtime.errors import AutotuneError, InputError
from runtime.plan import Plan
from runtime.units import GIB

# Larger grids than this are refused: the library lists and shuffles every point before the first trial.
_LARGEST_GRID = 50_000

# Shown to the sampler for plans that could not be run at all: finite, and worse than any plan that merely needs more.
_FAILED_VIOLATION_GIB = 1e3

Objective = Callable[[Plan], Score]


class SamplerName(StrEnum):
    """Samplers offered."""

    TPE = "tpe"
    NSGA2 = "nsga2"
    RANDOM = "random"
    GRID = "grid"


class OutOfMemoryError(AutotuneError):
    """Raised by an objective whose plan did not fit when it was run."""


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
    """All trials in order, and whether the space was tried out before the budget was."""

    records: tuple[TrialRecord, ...]
    evaluations: int
    exhausted: bool

    @property
    def best(self) -> TrialRecord | None:
        """The fastest feasible trial; the one that needs less VRAM among equals; None when none is feasible."""
        feasible = [record for record in self.records if record.feasible]
        return min(feasible, key=_rank, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySettings:
    """How to search.

    Attributes:
        trials: budget, seeds included.
        sampler: which sampler decides.
        seed: of the sampler; the same seed gives the same trials.
        storage: Optuna storage URL to keep and resume the study in; None for memory only.
        key: what the study is about (model, workload, device, engine, cap); trials under another key never mix.
    """

    trials: int
    sampler: SamplerName = SamplerName.TPE
    seed: int = 0
    storage: str | None = None
    key: str = ""

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise InputError(f"--trials is {self.trials}: a study needs at least one trial")


def run_study(
    space: StudySpace,
    objective: Objective,
    cap_bytes: int,
    settings: StudySettings,
    *,
    seeds: Iterable[tuple[str, Plan]] = (),
    progress: Callable[[int, int], None] | None = None,
) -> StudyResult:
    """Try plans until the budget is used up or every plan of the space has been tried.

    Args:
        seeds: plans tried first, each with a name for its origin.
        progress: called with trials done and budget after each trial.

    Raises:
        InputError: a seed lies outside the space, the grid is too large, or the storage cannot be opened.
    """
    study = _open_study(space, settings, cap_bytes)
    sweep = _Sweep(space, objective, cap_bytes, study)
    for origin, plan in seeds:
        if len(sweep.records) < settings.trials and not sweep.exhausted:
            sweep.try_seed(origin, plan)
    while len(sweep.records) < settings.trials and not sweep.exhausted:
        sweep.try_sampled()
        if progress is not None:
            progress(len(sweep.records), settings.trials)
    return StudyResult(records=tuple(sweep.records), evaluations=sweep.evaluations, exhausted=sweep.exhausted)


class _Sweep:
    """Runs trials one by one and keeps what they scored."""

    def __init__(self, space: StudySpace, objective: Objective, cap_bytes: int, study: optuna.Study) -> None:
        self.records: list[TrialRecord] = []
        self.evaluations = 0
        self._space = space
        self._objective = objective
        self._cap_bytes = cap_bytes
        self._study = study
        self._known: dict[Plan, tuple[Score | None, str | None]] = {}

    @property
    def exhausted(self) -> bool:
        return len(self._known) >= self._space.size

    def try_seed(self, origin: str, plan: Plan) -> None:
        folded = self._space.fold(plan)
        params = self._space.to_params(folded)
        record, values, violation = self._run(folded, origin)
        self._study.add_trial(
            create_trial(
                params=params,
                distributions=self._space.distributions(params),
                value=values,
                constraints={"vram_gib": violation},
            )
        )
        self.records.append(record)

    def try_sampled(self) -> None:
        trial = self._study.ask()
        plan = self._space.suggest(trial)
        record, value, violation = self._run(plan, "sampled")
        trial.set_constraint("vram_gib", violation)
        self._study.tell(trial, value, state=TrialState.COMPLETE)
        self.records.append(record)

    def _run(self, plan: Plan, origin: str) -> tuple[TrialRecord, float, float]:
        """Evaluate ``plan`` unless it is known; returns its record, the value and the violation for the sampler."""
        repeated = plan in self._known
        if not repeated:
            self.evaluations += 1
            self._known[plan] = self._evaluate(plan)
        score, failure = self._known[plan]
        violation = _FAILED_VIOLATION_GIB if score is None else (score.charged_bytes - self._cap_bytes) / GIB
        record = TrialRecord(
            number=len(self.records),
            plan=plan,
            score=score,
            feasible=violation <= 0,
            origin=origin,
            repeated=repeated,
            failure=failure,
        )
        return record, score.latency_s if score is not None else self._worst_latency_s(), violation

    def _evaluate(self, plan: Plan) -> tuple[Score | None, str | None]:
        try:
            score = self._objective(plan)
        except OutOfMemoryError as error:
            return None, f"out of memory: {error}"
        except Exception as error:  # a trial is an outer edge: one that breaks must not end the sweep
            return None, f"{type(error).__name__}: {error}"
        if not (math.isfinite(score.latency_s) and score.latency_s >= 0 and score.charged_bytes >= 0):
            return None, f"scored {score.latency_s} s and {score.charged_bytes} bytes, which are no measurements"
        return score, None

    def _worst_latency_s(self) -> float:
        known = [score.latency_s for score, _ in self._known.values() if score is not None]
        return max(known, default=0.0)


def _rank(record: TrialRecord) -> tuple[float, int, int]:
    score = record.score
    if score is None:
        return (math.inf, 0, record.number)
    return (score.latency_s, score.charged_bytes, record.number)


def _open_study(space: StudySpace, settings: StudySettings, cap_bytes: int) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # The storage key holds everything that a score depends on, so that a resumed study never mixes two questions.
    key = json.dumps([settings.key, space.describe(), cap_bytes])
    name = f"layerstream-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            return optuna.create_study(
                study_name=name,
                storage=settings.storage,
                sampler=_make_sampler(space, settings),
                load_if_exists=True,
                direction="minimize",
            )
        except AutotuneError:
            raise
        except Exception as error:  # the storage layers below raise many unrelated types
            raise InputError(
                f"cannot open the study storage {settings.storage!r}: {error}; give a URL such as sqlite:///study.db"
            ) from error


def _make_sampler(space: StudySpace, settings: StudySettings) -> BaseSampler:
    match settings.sampler:
        case SamplerName.TPE:
            return TPESampler(seed=settings.seed, multivariate=True)
        case SamplerName.NSGA2:
            return NSGAIISampler(seed=settings.seed)
        case SamplerName.RANDOM:
            return RandomSampler(seed=settings.seed)
        case SamplerName.GRID:
            points = space.grid_size
            if points > _LARGEST_GRID:
                raise InputError(
                    f"the grid has {points:,} points, more than {_LARGEST_GRID:,}: use another --sampler, or lower "
                    "--max-prefetch"
                )
            return GridSampler(space.grid(), seed=settings.seed)
