"""Observed figures beside what is predicted of them, before and after calibrating on other runs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

from autotune.fidelity.case import Case
from autotune.fidelity.spread import INTERVAL_RATIO, combine_slopes
from autotune.uncertainty import Uncertainty, is_added_time, is_memory_factor
from runtime.errors import InputError

_STEP = 0.5
_WIDEST = 50.0
"""Logarithm: added time can be uncertain by far more than a short use is predicted to take."""


class Kind(StrEnum):
    """What a figure measures."""

    LATENCY = "latency"
    PEAK = "peak"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One observed figure beside its prediction.

    Attributes:
        run, where: name of the observation, and where it stands.
        family: model and card, in words.
        kind: latency in seconds or peak in bytes.
        what: the part of the request, or who counted.
        components: that the figure is of; none for a whole request or process.
        tp_size: ranks that ran together; the figure is of one of them.
        observed, predicted: the figure, and what datasheets or the profile predict.
        low, high: where it lies with ``INTERVAL_RATIO`` by what is known of these; ``predicted`` where nothing is.
        calibrated: predicted after calibrating on runs of the same model and card without this one; None where no
            other run says anything about it.
        fitted_on: names of those runs.
        reasons: why it may be off, by general rules; none where it is not.
    """

    run: str
    where: str
    family: str
    kind: Kind
    what: str
    components: tuple[str, ...]
    tp_size: int
    observed: float
    predicted: float
    low: float
    high: float
    calibrated: float | None = None
    fitted_on: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("observed", "predicted", "low", "high"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{self.run}: {name} is {value}: a figure is finite and not negative")
        if not self.observed:
            raise InputError(f"{self.run}: nothing was observed of {self.what}")

    @property
    def error_ratio(self) -> float:
        """By how much the prediction is above what was observed, as a share of that."""
        return self.predicted / self.observed - 1

    @property
    def calibrated_error_ratio(self) -> float | None:
        """The same after calibrating."""
        return None if self.calibrated is None else self.calibrated / self.observed - 1

    @property
    def is_within(self) -> bool:
        """Whether what was observed lies within the interval."""
        return self.low <= self.observed <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class ExhaustedRun:
    """A run that ran out of device memory.

    Attributes:
        run: its name.
        had_bytes: what the card or the cap gave it.
        predicted_bytes: what it is predicted to need, besides blocks that the allocator would have given back.
        reasons: why the prediction may be off; none where it is confirmed.
    """

    run: str
    had_bytes: int
    predicted_bytes: int
    reasons: tuple[str, ...] = ()

    @property
    def is_confirmed(self) -> bool:
        """Whether the prediction exceeds what there was."""
        return self.predicted_bytes > self.had_bytes


def describe_family(case: Case) -> str:
    """Model, variant, card and ranks of a run."""
    setup = case.observation.setup
    variant = f" {setup.variant}" if setup.variant else ""
    ranks = f" x {setup.tp_size}" if setup.tp_size > 1 else ""
    return f"{setup.model}{variant}, {setup.device}{ranks}"


def compare_case(case: Case, uncertainty: Uncertainty) -> tuple[ComparedFigure, ...]:
    """Every observed figure of ``case`` beside its prediction; latencies in their order, then the peak.

    A run that ran out of memory has no figures: its peak is what it had.
    """
    run = case.observation
    if run.ran_out:
        return ()
    figures = [_compare(case, uncertainty, index) for index in range(len(run.latencies))]
    return tuple(figures) if run.peak is None else (*figures, _compare(case, uncertainty, None))


def predict_figures(case: Case, factors: dict[str, float]) -> tuple[float, ...]:
    """The figures of ``compare_case`` under ``factors``."""
    if case.observation.ran_out:
        return ()
    latencies = case.predict_latencies_s(case.ground.build_evaluator(factors))
    peak = case.predict_peak_bytes(factors)
    return latencies if peak is None else (*latencies, float(peak))


def _compare(case: Case, uncertainty: Uncertainty, index: int | None) -> ComparedFigure:
    """The latency at ``index``, or the peak."""
    run, setup = case.observation, case.observation.setup
    if index is None:
        assert run.peak is not None  # the caller asks for it
        kind, observed, component = Kind.PEAK, float(run.peak.size_bytes), run.peak.component
        what = f"peak of {component}" if component else f"peak ({run.peak.kind})"
    else:
        latency = run.latencies[index]
        kind, observed, component = Kind.LATENCY, latency.seconds, latency.component
        what = f"{latency.scope} of {component}" if component else str(latency.scope)
    predicted, low, high = _derive_interval(case, uncertainty, index)
    return ComparedFigure(
        run=run.name,
        where=run.where,
        family=describe_family(case),
        kind=kind,
        what=what,
        components=tuple(component.split("+")) if component else (),
        tp_size=setup.tp_size,
        observed=observed,
        predicted=predicted,
        low=low,
        high=high,
    )


def _derive_interval(case: Case, uncertainty: Uncertainty, index: int | None) -> tuple[float, float, float]:
    """The prediction, and a lognormal's interval around it by the delta method of ``autotune.fidelity.spread``."""
    predicted = _predict(case, {}, index)
    if not predicted:
        return 0.0, 0.0, 0.0
    slopes = tuple(_slope(case, uncertainty, name, index, predicted) for name in uncertainty.names)
    repeats = () if index is None else (predicted,)
    spread = combine_slopes(slopes, uncertainty, repeats=repeats)
    reach = math.exp(min(NormalDist().inv_cdf((1 + INTERVAL_RATIO) / 2) * spread.sd / predicted, _WIDEST))
    return predicted, predicted / reach, predicted * reach


def _slope(case: Case, uncertainty: Uncertainty, name: str, index: int | None, now: float) -> float:
    step = _STEP * uncertainty.sd_of(name)
    if not step or is_memory_factor(name) is not (index is None):
        return 0.0
    above = _predict(case, {name: step}, index)
    if is_added_time(name):
        return (above - now) / step
    return (above - _predict(case, {name: -step}, index)) / (2 * step)


def _predict(case: Case, factors: dict[str, float], index: int | None) -> float:
    if index is None:
        return float(max(case.predict_peak_bytes(factors) or 0, 0))
    return case.predict_latencies_s(case.ground.build_evaluator(factors))[index]


def list_components(figures: Sequence[ComparedFigure]) -> frozenset[str]:
    """Components that any of ``figures`` is of; an empty name stands for all of them."""
    return frozenset(name for figure in figures for name in (figure.components or ("",)))
