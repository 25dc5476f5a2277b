"""The Optuna sweep: what runs when trials are measured, and a check on the exact solver when they are predicted.

The library decides which plan to try next; this module decides everything else, because each of these went wrong for
somebody: every trial carries its constraint or fails (a trial without one counts as feasible), an out-of-memory trial
is complete and infeasible with a finite violation, a repeat is answered from memory, values that nobody suggested are
validated here, and the winner is read from our own records, never from the study's summary. A study kept in a storage
goes on where it stopped: what an earlier run scored is known and not evaluated again, and the budget of trials is in
addition. It is not the study that one long run would have been, because samplers keep their random state in memory
only.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat

import optuna
from optuna.trial import FixedTrial, FrozenTrial, TrialState, create_trial

from autotune.evaluate import Score
from autotune.study_records import StudyResult, TrialRecord, rank_record
from autotune.study_sampler import SamplerName, make_sampler
from autotune.study_space import StudySpace
from runtime.errors import AutotuneError, InputError
from runtime.plan import Plan
from runtime.units import GIB

# Trials that TPE spends on random plans by default, plus as many that it suggests.
_TRIALS_BEFORE_NEIGHBOURS = 20

# Plans up to this much slower than the best one are worth leaving from.
_NEAR_BEST_RATIO = 1.05

# Shown to the sampler for plans that could not be run at all: finite, and worse than any plan that merely needs more.
_FAILED_VIOLATION_GIB = 1e3

# The samplers' random generators take 32 bits.
MAX_SEED = 2**32 - 1

Objective = Callable[[Plan], Score]


class OutOfMemoryError(AutotuneError):
    """Raised by an objective whose plan did not fit when it was run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySettings:
    """How to search.

    Attributes:
        trials: budget of this run, seeds and repeats included.
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
        if not 0 <= self.seed <= MAX_SEED:
            raise InputError(f"--seed is {self.seed}: give a whole number from 0 to {MAX_SEED}")


def check_storage(storage: str | None) -> None:
    """Open ``storage`` once, so that a wrong URL is told before any work is done.

    Raises:
        InputError: it cannot be opened.
    """
    if storage is None:
        return
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        optuna.storages.get_storage(storage)
    except Exception as error:  # the storage layers below raise many unrelated types
        raise _bad_storage(storage, error) from error


def _bad_storage(storage: str | None, error: Exception) -> InputError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(f"cannot open the study storage {storage!r}: {reason}; give a URL such as sqlite:///study.db")


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
    seeded = (partial(sweep.try_plan, origin, plan) for origin, plan in seeds)
    steps: Iterator[Callable[[], None]] = chain(seeded, _later_steps(sweep, settings))
    while len(sweep.records) < settings.trials and not sweep.exhausted:
        next(steps)()
        if progress is not None:
            progress(len(sweep.records), settings.trials)
    return StudyResult(
        records=tuple(sweep.records),
        evaluations=sweep.evaluations,
        exhausted=sweep.exhausted,
        earlier=sweep.earlier,
    )


def _later_steps(sweep: _Sweep, settings: StudySettings) -> Iterator[Callable[[], None]]:
    """What follows the seeds: the sampler, and under TPE every second time a neighbour of the best plan so far.

    The neighbours are ours, because TPE models settings one by one and stays where two of them must change together: in
    300 trials without seeds its best plan for Qwen-Image was up to a fifth slower than the optimum.
    """
    if settings.sampler is not SamplerName.TPE:
        yield from repeat(sweep.try_sampled)
    yield from repeat(sweep.try_sampled, _TRIALS_BEFORE_NEIGHBOURS)
    rng = random.Random(settings.seed)
    while True:
        yield partial(sweep.try_neighbour, rng)
        yield sweep.try_sampled


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
        self.earlier = self._recall()

    @property
    def exhausted(self) -> bool:
        return len(self._known) >= self._space.size

    def try_neighbour(self, rng: random.Random) -> None:
        """Try a plan near one of the best feasible ones, or ask the sampler when there is none."""
        front = self._near_best()
        plan = self._space.draw_neighbour(rng.choice(front), rng, self._known.__contains__) if front else None
        if plan is None:
            self.try_sampled()
        else:
            self.try_plan("neighbour of the best", plan)

    def _near_best(self) -> list[Plan]:
        """Feasible plans little slower than the best one, each smaller than every faster one.

        A smaller plan leaves room in which one more resident layer of another component is feasible.
        """
        feasible = sorted((record for record in (*self.earlier, *self.records) if record.feasible), key=rank_record)
        front: list[Plan] = []
        smallest = math.inf
        for record in feasible:
            score = record.score
            if score is None or score.latency_s > _NEAR_BEST_RATIO * rank_record(feasible[0])[0]:
                break
            if score.charged_bytes < smallest:
                smallest = score.charged_bytes
                front.append(record.plan)
        return front

    def try_plan(self, origin: str, plan: Plan) -> None:
        """Try a plan that the sampler did not suggest."""
        folded = self._space.fold(plan)
        params = self._space.to_params(folded)
        record, value, violation = self._run(folded, origin)
        self.records.append(record)
        if record.repeated:
            return  # the study has it
        self._study.add_trial(
            create_trial(
                params=params,
                distributions=self._space.distributions(params),
                value=value,
                constraints={"vram_gib": violation},
                user_attrs=_note(record),
            )
        )

    def try_sampled(self) -> None:
        trial = self._study.ask()
        plan = self._space.suggest(trial)
        record, value, violation = self._run(plan, "sampled")
        trial.set_constraint("vram_gib", violation)
        for name, noted in _note(record).items():
            trial.set_user_attr(name, noted)
        self._study.tell(trial, value, state=TrialState.COMPLETE)
        self.records.append(record)

    def _run(self, plan: Plan, origin: str) -> tuple[TrialRecord, float, float]:
        """Evaluate ``plan`` unless it is known; returns its record, the value and the violation for the sampler."""
        repeated = plan in self._known
        if not repeated:
            self.evaluations += 1
            self._known[plan] = self._evaluate(plan)
        score, _ = self._known[plan]
        violation = _FAILED_VIOLATION_GIB if score is None else self._violation_bytes(score) / GIB
        record = self._record(plan, number=len(self.records), origin=origin, repeated=repeated)
        return record, score.latency_s if score is not None else self._worst_latency_s(), violation

    def _record(self, plan: Plan, *, number: int, origin: str, repeated: bool) -> TrialRecord:
        score, failure = self._known[plan]
        return TrialRecord(
            number=number,
            plan=plan,
            score=score,
            feasible=score is not None and self._violation_bytes(score) <= 0,
            origin=origin,
            repeated=repeated,
            failure=failure,
        )

    def _violation_bytes(self, score: Score) -> int:
        """Device or host memory that is missing; not positive when there is enough of both."""
        return max(
            score.charged_bytes - self._cap_bytes, score.host_short_bytes or score.charged_bytes - self._cap_bytes
        )

    def _recall(self) -> tuple[TrialRecord, ...]:
        """Learn what earlier runs in the same storage scored."""
        records: list[TrialRecord] = []
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            outcome = _read_note(trial)
            plan = self._space.suggest(FixedTrial(trial.params))
            if outcome is None or plan in self._known:
                continue
            self._known[plan] = outcome
            origin = str(trial.user_attrs["origin"])
            records.append(self._record(plan, number=len(records), origin=origin, repeated=False))
        return tuple(records)

    def _evaluate(self, plan: Plan) -> tuple[Score | None, str | None]:
        try:
            score = self._objective(plan)
            is_measurement = all(math.isfinite(x) and x >= 0 for x in (score.latency_s, score.charged_bytes))
        except OutOfMemoryError as error:
            return None, f"out of memory: {error}"
        except Exception as error:  # a trial is an outer edge: one that breaks must not end the sweep
            return None, f"{type(error).__name__}: {error}"
        if not is_measurement:
            return None, f"scored {score.latency_s} s and {score.charged_bytes} bytes, which are no measurements"
        return score, None

    def _worst_latency_s(self) -> float:
        known = [score.latency_s for score, _ in self._known.values() if score is not None]
        return max(known, default=0.0)


def _note(record: TrialRecord) -> dict[str, str | int]:
    """What a later run needs to know about a trial besides its value."""
    notes: dict[str, str | int] = {"origin": record.origin}
    if record.score is not None:
        notes["charged_bytes"] = record.score.charged_bytes
        notes["host_short_bytes"] = record.score.host_short_bytes
    if record.failure is not None:
        notes["failure"] = record.failure
    return notes


def _read_note(trial: FrozenTrial) -> tuple[Score | None, str | None] | None:
    """The outcome of a finished trial; None when somebody else has written it."""
    notes = trial.user_attrs
    if "charged_bytes" in notes and trial.value is not None:
        score = Score(
            latency_s=trial.value,
            charged_bytes=notes["charged_bytes"],
            host_short_bytes=notes.get("host_short_bytes", 0),
        )
        return score, None
    return (None, notes["failure"]) if "failure" in notes else None


def _open_study(space: StudySpace, settings: StudySettings, cap_bytes: int) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = make_sampler(settings.sampler, space, settings.seed)
    # The storage key holds everything that a score depends on, so that a resumed study never mixes two questions.
    key = json.dumps([settings.key, space.describe(), cap_bytes])
    name = f"layerstream-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    try:
        study = optuna.create_study(
            study_name=name, storage=settings.storage, sampler=sampler, load_if_exists=True, direction="minimize"
        )
    except Exception as error:  # the storage layers below raise many unrelated types
        raise _bad_storage(settings.storage, error) from error
    if trials := len(study.get_trials(deepcopy=False)):
        # The same seed again would suggest the same plans again.
        study.sampler = make_sampler(settings.sampler, space, (settings.seed + trials) % (MAX_SEED + 1))
    return study
