"""Predictions beside what was observed, as tables and sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.fidelity.comparison import ComparedFigure, ExhaustedRun, Kind
from autotune.fidelity.groups import Difference, Group, Verdict
from autotune.fidelity.reasons import TOLERATED_PEAK_RATIO
from autotune.fidelity.spread import INTERVAL_RATIO
from autotune.fidelity.summary import Errors, KindSummary
from autotune.observed.observation import Reason, Refused
from reports.tables import Table
from runtime.units import format_gib, format_percent, format_seconds, format_signed

_PLURALS = {Kind.LATENCY: "Latencies", Kind.PEAK: "Peaks"}

Scopes = Sequence[tuple[str, int, Sequence[KindSummary]]]
"""What ran, how many runs were compared, and the errors of their figures."""


def summary_table(scopes: Scopes) -> Table:
    """Errors of every kind of figure, of runs on one card and of ranks."""
    rows = [
        (
            f"{item.kind}, {scope}",
            str(item.predicted.count),
            _ratio(item.predicted.median_ratio),
            _worst(item.predicted),
            str(item.calibrated.count),
            _ratio(item.calibrated.median_ratio),
            _worst(item.calibrated),
            _ratio(item.within_ratio),
        )
        for scope, _, summaries in scopes
        for item in summaries
        if item.predicted.count
    ]
    columns = ("figures", "n", "median", "worst", "n then", "median then", "worst then", "in interval")
    return Table(
        title="Size of errors before and (then) after calibrating on other runs of the model and card; share within "
        f"the {100 * INTERVAL_RATIO:.0f} % interval of what is known before",
        columns=columns,
        rows=tuple(rows),
        numeric=frozenset({"n", "median", "n then", "median then", "in interval"}),
        foldable=frozenset({"figures", "worst", "worst then"}),
    )


def figure_table(figures: Sequence[ComparedFigure]) -> Table:
    """Every compared figure."""
    rows = [
        (
            figure.run,
            figure.family,
            figure.what,
            format_figure(figure.kind, figure.observed),
            format_figure(figure.kind, figure.predicted),
            _signed(figure.error_ratio),
            _signed(figure.calibrated_error_ratio),
        )
        for figure in figures
    ]
    return Table(
        title="Every figure",
        columns=("run", "model and card", "figure", "measured", "predicted", "error", "calibrated"),
        rows=tuple(rows),
        numeric=frozenset({"measured", "predicted", "error", "calibrated"}),
        foldable=frozenset({"run", "model and card", "figure"}),
    )


def group_tables(group: Group) -> tuple[Table, ...]:
    """What calibrating on some runs of a set-up says of its others, and of the differences between them."""
    fitted = " and ".join(f"{name} ({group.placements[name]})" for name in group.fitted_on)
    figures = Table(
        title=f"{group.title}. Calibrated on {fitted}",
        columns=("run", "placement", "figure", "measured", "predicted then", "error"),
        rows=tuple(
            (
                figure.run,
                group.placements[figure.run],
                figure.what,
                format_figure(figure.kind, figure.observed),
                format_figure(figure.kind, figure.calibrated or 0.0),
                _signed(figure.calibrated_error_ratio),
            )
            for figure in group.figures
        ),
        numeric=frozenset({"measured", "predicted then", "error"}),
        foldable=frozenset({"placement", "figure"}),
    )
    if not group.differences:
        return (figures,)
    return figures, _difference_table(group.differences)


def _difference_table(differences: Sequence[Difference]) -> Table:
    return Table(
        title="",
        columns=("run", "against", "measured", "before", "calibrated", "verdict"),
        rows=tuple(
            (
                item.run,
                item.other,
                _signed(item.observed_s / item.other_s),
                _signed(item.predicted_s / item.other_s),
                _signed(item.calibrated_s / item.other_s),
                str(item.verdict),
            )
            for item in differences
        ),
        numeric=frozenset({"measured", "before", "calibrated"}),
    )


def exhausted_table(runs: Sequence[ExhaustedRun]) -> Table:
    """Runs that ran out of device memory."""
    return Table(
        title="Ran out of device memory",
        columns=("run", "had", "predicted", "predicted to run out"),
        rows=tuple(
            (
                item.run,
                format_gib(item.had_bytes),
                format_gib(item.predicted_bytes),
                "yes" if item.is_confirmed else "no",
            )
            for item in runs
        ),
        numeric=frozenset({"had", "predicted"}),
    )


def refusal_tables(refused: Sequence[Refused], counts: Mapping[Reason, int]) -> tuple[Table, ...]:
    """What could not be compared: how often for which reason, then run by run."""
    if not refused:
        return ()
    order = list(counts)
    ranked = sorted(refused, key=lambda row: order.index(row.reason))
    return (
        Table(
            title="Not compared",
            columns=("reason", "runs"),
            rows=tuple((str(reason), str(count)) for reason, count in counts.items()),
            numeric=frozenset({"runs"}),
        ),
        Table(
            title="Not compared, run by run",
            columns=("run", "reason", "why"),
            rows=tuple((row.name, str(row.reason), row.text) for row in ranked),
            foldable=frozenset({"run", "why"}),
        ),
    )


def describe_result(scopes: Scopes, under: Sequence[ComparedFigure], refused: int) -> list[str]:
    """What the comparison comes to."""
    single, ranks = (count for _, count, _ in scopes)
    sentences = [
        f"Compared: {single} runs on one card"
        + (f" and {ranks} of several ranks" if ranks else "")
        + f"; {refused} cannot be compared"
    ]
    for scope, _, summaries in scopes:
        for item in summaries:
            if item.predicted.median_ratio is None:
                continue
            then = item.calibrated
            after = (
                f", after calibrating half of {then.count} by at most {_ratio(then.median_ratio)}" if then.count else ""
            )
            sentences.append(
                f"{_PLURALS[item.kind]}, {scope}: half of {item.predicted.count} are off by at most "
                f"{_ratio(item.predicted.median_ratio)}{after}"
            )
    if under:
        names = ", ".join(f"{figure.run} ({_signed(figure.error_ratio)})" for figure in under)
        sentences.append(f"Peaks predicted more than {100 * TOLERATED_PEAK_RATIO:.0f} % too low: {names}")
    return sentences


def list_misses(figures: Sequence[ComparedFigure], groups: Sequence[Group], runs: Sequence[ExhaustedRun]) -> list[str]:
    """Every figure, difference and shortage that is off by more than is tolerated, under its reasons."""
    found: dict[str, list[str]] = {}

    def note(what: str, reasons: Sequence[str]) -> None:
        found.setdefault("; ".join(reasons) or "no reason is known", []).append(what)

    for figure in figures:
        if figure.reasons:
            note(f"{figure.run} {figure.what} {_signed(figure.error_ratio)}", figure.reasons)
    for group in groups:
        for item in group.differences:
            if item.verdict is not Verdict.RIGHT:
                note(f"{item.run} against {item.other}: {item.verdict}", item.reasons)
    for run in runs:
        if not run.is_confirmed:
            note(f"{run.run}: not predicted to run out of memory", run.reasons)
    return [f"{', '.join(names)}: {reasons}" for reasons, names in found.items()]


def format_figure(kind: Kind, value: float) -> str:
    """A figure with its unit."""
    return format_seconds(value) if kind is Kind.LATENCY else format_gib(value)


def _worst(errors: Errors) -> str:
    return "" if errors.worst_ratio is None else f"{_ratio(errors.worst_ratio)} ({errors.worst_run})"


def _ratio(value: float | None) -> str:
    return "" if value is None else format_percent(value)


def _signed(ratio: float | None) -> str:
    return "" if ratio is None else format_signed(ratio)
