"""How large the errors of compared figures are, kind by kind. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from autotune.fidelity.comparison import ComparedFigure, Kind
from autotune.fidelity.reasons import TOLERATED_PEAK_RATIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Sizes of errors, as shares of what was observed; None where nothing was compared.

    Attributes:
        count: figures.
        median_ratio, worst_ratio: of their sizes.
        worst_run: where the largest is.
    """

    count: int
    median_ratio: float | None = None
    worst_ratio: float | None = None
    worst_run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSummary:
    """The figures of one kind.

    Attributes:
        kind: of the figures.
        predicted: errors before calibrating.
        calibrated: errors after it, of the figures that other runs say something about.
        within: figures that lie within the interval of what is known before any run.
    """

    kind: Kind
    predicted: Errors
    calibrated: Errors
    within: int

    @property
    def within_ratio(self) -> float | None:
        """Share of the figures within their interval."""
        return self.within / self.predicted.count if self.predicted.count else None


def summarize_kind(figures: Sequence[ComparedFigure], kind: Kind) -> KindSummary:
    """The errors of the figures of ``kind``."""
    own = [figure for figure in figures if figure.kind is kind]
    return KindSummary(
        kind=kind,
        predicted=_summarize(own, lambda figure: figure.error_ratio),
        calibrated=_summarize(own, lambda figure: figure.calibrated_error_ratio),
        within=sum(figure.is_within for figure in own),
    )


def _summarize(figures: Sequence[ComparedFigure], error: Callable[[ComparedFigure], float | None]) -> Errors:
    sizes = [(abs(found), figure.run) for figure in figures if (found := error(figure)) is not None]
    if not sizes:
        return Errors(count=0)
    worst, run = max(sizes)
    return Errors(count=len(sizes), median_ratio=median(size for size, _ in sizes), worst_ratio=worst, worst_run=run)


def list_under_predicted(figures: Sequence[ComparedFigure]) -> tuple[ComparedFigure, ...]:
    """Peaks that are predicted too low by more than is tolerated: an error class of its own, because it ends runs."""
    return tuple(
        figure for figure in figures if figure.kind is Kind.PEAK and figure.error_ratio < -TOLERATED_PEAK_RATIO
    )
