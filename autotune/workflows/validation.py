"""Puts every observed run beside its prediction, and says how far both are apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.collector import paused_collector
from autotune.fidelity.calibration import calibrate
from autotune.fidelity.case import Case
from autotune.fidelity.comparison import (
    ComparedFigure,
    ExhaustedRun,
    Kind,
    compare_case,
    list_components,
    predict_figures,
)
from autotune.fidelity.folds import Fold, list_folds
from autotune.fidelity.groups import Difference, Group, Verdict, choose_fitted, describe_placement, find_groups
from autotune.fidelity.prior import derive_uncertainty, find_own_uncertainty
from autotune.fidelity.reasons import list_difference_reasons, list_exhaustion_reasons, list_reasons
from autotune.fidelity.summary import KindSummary, list_under_predicted, summarize_kind
from autotune.fidelity.unstated_request import doubt_request, is_request_assumed
from autotune.hardware import find_device
from autotune.observed.observation import ObservedRuns, Reason, Refused
from autotune.profile import Profile
from autotune.uncertainty import Uncertainty
from autotune.workflows.observed_runs import BuiltCases, LoadFacts, build_cases, is_of_device
from runtime.engines.registry import DEFAULT_ENGINE
from runtime.errors import InputError

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """All that was observed, beside what is predicted.

    Attributes:
        engine: whose behaviour is simulated.
        figures: every compared figure, in the order of the runs.
        groups: runs of one set-up, judged by their differences.
        exhausted: runs that ran out of device memory.
        refused: runs that cannot be compared.
        assumed: run -> what its source does not say.
        notes: about the sources.
    """

    engine: str
    figures: tuple[ComparedFigure, ...]
    groups: tuple[Group, ...]
    exhausted: tuple[ExhaustedRun, ...]
    refused: tuple[Refused, ...]
    assumed: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]

    def select(self, *, single: bool) -> tuple[ComparedFigure, ...]:
        """Figures of runs on one card, or of ranks that ran together."""
        return tuple(figure for figure in self.figures if (figure.tp_size == 1) is single)

    def count_runs(self, *, single: bool) -> int:
        """Runs that were compared, on one card or on several."""
        return len({(figure.where, figure.run) for figure in self.select(single=single)})

    def summarize(self, *, single: bool) -> tuple[KindSummary, ...]:
        """Errors of latencies and of peaks."""
        return tuple(summarize_kind(self.select(single=single), kind) for kind in Kind)

    @property
    def scopes(self) -> tuple[tuple[str, int, tuple[KindSummary, ...]], ...]:
        """One card, then several ranks: in words, how many runs were compared, and the errors of their figures."""
        names = {True: "one card", False: "each of several ranks"}
        return tuple(
            (name, self.count_runs(single=single), self.summarize(single=single)) for single, name in names.items()
        )

    @property
    def under_predicted(self) -> tuple[ComparedFigure, ...]:
        """Peaks that are predicted too low."""
        return list_under_predicted(self.figures)

    @property
    def refusals(self) -> dict[Reason, int]:
        """How many runs were refused for each reason, the most frequent first."""
        return dict(Counter(row.reason for row in self.refused).most_common())


def validate_runs(
    runs: ObservedRuns,
    load_facts: LoadFacts,
    *,
    profile: Profile | None = None,
    engine: str = DEFAULT_ENGINE,
    notify: Notify = lambda _: None,
) -> Validation:
    """Compare every run of ``runs`` that the program can express.

    Args:
        runs: what was observed.
        load_facts: reads a model; called once per set-up.
        profile: predicts runs of its device, see ``build_cases``.
        engine: whose behaviour is simulated.
        notify: told of each step.

    Raises:
        InputError: nothing can be compared, or no run is of the device of ``profile``.
    """
    if profile is not None and not any(is_of_device(profile, run.setup) for run in runs.observations):
        raise InputError(
            f"--profile is of {profile.facts.tp_size} x {profile.device.name}, and no run in the table is: give a "
            "profile of their card, or none"
        )
    notify("reading models")
    built = build_cases(runs.observations, load_facts, profile, engine)
    if not built.cases:
        why = "; ".join(f"{row.name}: {row.text}" for row in (*runs.refused, *built.refused)[:5])
        raise InputError(f"no run can be compared ({why or 'the table is empty'}): see the README's columns")
    with paused_collector():
        notify("predicting every run")
        compared = [_Compared(case, _find_prior(case, built, profile)) for case in built.cases]
        for number, fold in enumerate(folds := list_folds(built.cases), start=1):
            notify(f"calibrating without some runs, {number} of {len(folds)}")
            _predict_left_out(fold, compared)
        notify("looking at what differs between runs of one set-up")
        groups = tuple(_judge_group([_find(case, compared) for case in group]) for group in find_groups(built.cases))
    return Validation(
        engine=engine,
        figures=tuple(
            replace(figure, reasons=list_reasons(item.case, figure)) for item in compared for figure in item.figures
        ),
        groups=groups,
        exhausted=tuple(_judge_exhausted(case) for case in built.cases if case.observation.ran_out),
        refused=(*runs.refused, *built.refused),
        assumed={case.observation.name: case.observation.assumed for case in built.cases},
        notes=runs.notes,
    )


class _Compared:
    """One run, what is known of its factors, and its figures so far."""

    def __init__(self, case: Case, prior: Uncertainty) -> None:
        self.case = case
        self.prior = doubt_request(prior, [case.observation])
        self.figures = compare_case(case, self.prior)


def _find_prior(case: Case, built: BuiltCases, profile: Profile | None) -> Uncertainty:
    facts, device = case.ground.facts, built.devices[case.observation.setup.device]
    own = find_own_uncertainty(profile, facts, device.name)
    return own if own is not None else derive_uncertainty(facts, case.ground.rates, device)


def _find(case: Case, compared: Sequence[_Compared]) -> _Compared:
    return next(item for item in compared if item.case is case)


def _predict_left_out(fold: Fold, compared: Sequence[_Compared]) -> None:
    """Note what calibrating on the rest of the family predicts of the runs that were left out."""
    fitted = [_find(case, compared) for case in fold.fitted]
    left_out = [_find(case, compared) for case in fold.left_out]
    wanted = [figure for item in left_out for figure in item.figures]
    known = [figure for item in fitted for figure in item.figures]
    if not any(_says_something(known, figure) for figure in wanted):
        return
    factors = calibrate(fold.fitted, _choose_prior(fitted)).values
    names = tuple(case.observation.name for case in fold.fitted)
    for item in left_out:
        predicted = predict_figures(item.case, factors)
        item.figures = tuple(
            replace(figure, calibrated=value, fitted_on=names) if _says_something(known, figure) else figure
            for figure, value in zip(item.figures, predicted, strict=True)
        )


def _choose_prior(fitted: Sequence[_Compared]) -> Uncertainty:
    """The prior of one of the runs; of one whose request is assumed, if there is any."""
    return next((item.prior for item in fitted if is_request_assumed(item.case.observation)), fitted[0].prior)


def _says_something(known: Sequence[ComparedFigure], figure: ComparedFigure) -> bool:
    """Whether any of ``known`` is of the same kind and of a part that ``figure`` is of, too."""
    alike = [other for other in known if other.kind is figure.kind]
    components = list_components(alike)
    return bool(alike) and (not figure.components or "" in components or bool(components & set(figure.components)))


def _judge_group(group: Sequence[_Compared]) -> Group:
    """Calibrate on the group's ends and predict the others."""
    cases = [item.case for item in group]
    ends = choose_fitted(cases)
    fitted = [item for item in group if any(item.case is case for case in ends)]
    others = [item for item in group if not any(item.case is case for case in ends)]
    factors = calibrate(ends, _choose_prior(fitted)).values
    names = tuple(case.observation.name for case in ends)
    predictions = {id(item): predict_figures(item.case, factors) for item in group}
    figures = [
        replace(found, reasons=list_reasons(item.case, found))
        for item in others
        for figure, value in zip(item.figures, predictions[id(item)], strict=True)
        for found in [replace(figure, calibrated=value, fitted_on=names)]
    ]
    differences = [
        _compare_pair(item, other, predictions[id(item)][index], predictions[id(other)][index], index)
        for item in others
        for other in fitted
        for index, figure in enumerate(item.figures)
        if figure.kind is Kind.LATENCY
    ]
    setup, first = cases[0].observation.setup, group[0].figures
    title = f"{first[0].family}, {setup.workload.describe()}, {setup.server}: {', '.join(item.what for item in first)}"
    return Group(
        title=title,
        placements={case.observation.name: describe_placement(case, cases) for case in cases},
        fitted_on=names,
        figures=tuple(figures),
        differences=tuple(differences),
    )


def _compare_pair(
    item: _Compared, other: _Compared, calibrated_s: float, other_calibrated_s: float, index: int
) -> Difference:
    """How much longer ``item`` took than ``other`` in the latency at ``index``."""
    own, its = item.figures[index], other.figures[index]
    found = Difference(
        run=own.run,
        other=its.run,
        what=own.what,
        other_s=its.observed,
        observed_s=own.observed - its.observed,
        predicted_s=own.predicted - its.predicted,
        calibrated_s=calibrated_s - other_calibrated_s,
    )
    if found.verdict is Verdict.RIGHT:
        return found
    return replace(found, reasons=list_difference_reasons(item.case, other.case, own))


def _judge_exhausted(case: Case) -> ExhaustedRun:
    """Whether the run needs more than it had; an allocator's cap does not count the context of the process."""
    run = case.observation
    needed = case.ground.build_evaluator({}).charged_bytes(case.plan)
    if run.cap_bytes is not None:
        needed -= case.ground.context_bytes
    had = run.cap_bytes if run.cap_bytes is not None else find_device(run.setup.device).usable_vram_bytes
    found = ExhaustedRun(run=run.name, had_bytes=had, predicted_bytes=needed)
    return found if found.is_confirmed else replace(found, reasons=list_exhaustion_reasons(case))
