"""Fits the factors of a set-up to observed runs of it: what they determine, how well, and which run is off. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.fidelity.case import Case
from autotune.fidelity.conditioning import condition
from autotune.fidelity.estimation import Estimate, estimate_factors
from autotune.fidelity.figures import (
    Figure,
    PredictFigures,
    Residual,
    list_peaks,
    list_times,
    merge_repeats,
    predict_peaks_bytes,
    predict_times_s,
)
from autotune.fidelity.posterior import Problem
from autotune.fidelity.surrogate import Matrix, Vector
from autotune.uncertainty import Uncertainty, is_added_time, is_logarithmic, is_memory_factor
from runtime.errors import InputError

CONFIDENCE = 0.98
"""With which all stated intervals of one calibration hold together."""

DETERMINED_RATIO = 0.5
"""A factor is determined by the runs when they leave at most this share of what was uncertain before."""

SENSITIVE_RATIO = 1e-4
"""A factor that changes no figure by more than this share, one standard deviation up, is not in the runs at all."""

DRAWS = 64
"""How many joint draws a calibration keeps."""

PEAK_NOISE = 0.005
"""Repeats of one configuration have the same peak within 0.06 % (23,376 and 23,362 MiB, PM026 to PM029); counters that
sample miss a little more."""

_NOISE_STRENGTH = 4.0
_LEAST_NOISE, _MOST_NOISE = 0.005, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedFactor:
    """One factor after the fit, in its own unit (``autotune.uncertainty``).

    Attributes:
        name: of the factor.
        value: the mean of what the runs allow; 0 is what was predicted with before.
        sd, sd_before: its standard deviation after and before.
        low, high: its interval; all intervals hold together with ``CONFIDENCE``.
        is_determined: whether the runs determine it; else it stays near what was predicted with.
    """

    name: str
    value: float
    sd: float
    sd_before: float
    low: float
    high: float
    is_determined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What observed runs say about the figures of one set-up.

    Attributes:
        factors: all that were fitted, those of times first.
        values: every factor's value; one that the runs say nothing about follows those that it shares something with.
        draws: factors as the runs allow them, each as probable as the others; for forecasts with bounds.
        residuals: every observed figure.
        uncertainty: of all factors, those that the runs say nothing about included.
        noise_ratio: standard deviation of the observed times around the fitted ones.
    """

    factors: tuple[FittedFactor, ...]
    values: dict[str, float]
    draws: tuple[dict[str, float], ...]
    residuals: tuple[Residual, ...]
    uncertainty: Uncertainty
    noise_ratio: float


def calibrate(cases: Sequence[Case], prior: Uncertainty) -> Calibration:
    """Fit the factors of ``prior`` to ``cases``.

    Raises:
        InputError: the cases hold no figure that can be fitted.
    """
    figures = (list_times(cases), list_peaks(cases))
    if not any(figures):
        raise InputError(
            "the runs hold neither a latency nor a peak: nothing can be fitted; what a run had when it ran out of "
            "memory is no peak"
        )
    times = _fit(cases, prior, figures[0], is_memory=False)
    peaks = _fit(cases, prior, figures[1], is_memory=True)
    parts = [part for part in (times, peaks) if part is not None]
    noise_ratio = times.estimate.noise if times is not None else prior.repeat_ratio
    factors = tuple(factor for part in parts for factor in _describe(part, CONFIDENCE ** (1 / len(parts))))
    values, uncertainty = _join(prior, parts, factors, noise_ratio)
    return Calibration(
        factors=factors,
        values=values,
        draws=_draw(values, parts),
        residuals=_list_residuals(cases, parts),
        uncertainty=uncertainty,
        noise_ratio=noise_ratio,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The fit of the factors of times, or of memory, to all figures of that kind."""

    names: tuple[str, ...]
    figures: tuple[Figure, ...]
    before: Vector
    prior: Matrix
    estimate: Estimate


def _fit(cases: Sequence[Case], prior: Uncertainty, figures: tuple[Figure, ...], *, is_memory: bool) -> _Part | None:
    """Fit the factors of one kind that change any of ``figures``; None where nothing of that kind was observed."""
    predict = predict_peaks_bytes if is_memory else predict_times_s
    candidates = [name for name in prior.names if is_memory_factor(name) is is_memory]
    distinct, which = merge_repeats(cases, is_memory=is_memory)
    before = predict(distinct, {})
    names = [name for name in candidates if _moves(distinct, predict, before, name, prior.sd_of(name))]
    if not names:
        return None
    indices = [prior.names.index(name) for name in names]
    covariance = np.asarray(prior.covariance, dtype=np.float64)[np.ix_(indices, indices)]
    is_logarithm = np.asarray([float(is_logarithmic(name)) for name in names])
    observed = np.asarray([figure.observed for figure in figures], dtype=np.float64)
    problem = Problem(
        predict=lambda natural: predict(distinct, _to_factors(names, natural, is_logarithm)),
        observed=observed,
        which=which,
        is_relative=not is_memory,
        scales=observed,
        prior=covariance,
        is_logarithm=is_logarithm,
        is_positive=np.asarray([float(is_added_time(name)) for name in names]),
        noise=PEAK_NOISE if is_memory else prior.repeat_ratio,
        noise_strength=_NOISE_STRENGTH,
        least_noise=_LEAST_NOISE,
    )
    return _Part(
        names=tuple(names),
        figures=figures,
        before=before[which],
        prior=covariance,
        estimate=estimate_factors(problem),
    )


def _to_factors(names: Sequence[str], natural: Vector, is_logarithm: Vector) -> dict[str, float]:
    """Factors from what predictions are linear in."""
    values = np.where(is_logarithm > 0, np.log(np.maximum(natural, 1e-12)), natural)
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _moves(cases: Sequence[Case], predict: PredictFigures, base: Vector, name: str, sd: float) -> bool:
    change = np.abs(predict(cases, {name: sd}) - base)
    return bool(np.any(change > SENSITIVE_RATIO * base))


def _describe(part: _Part, confidence: float) -> tuple[FittedFactor, ...]:
    lows, highs = part.estimate.intervals(confidence)
    sds, sds_before = np.sqrt(np.diag(part.estimate.covariance)), np.sqrt(np.diag(part.prior))
    return tuple(
        FittedFactor(
            name=name,
            value=float(part.estimate.factors[index]),
            sd=float(sds[index]),
            sd_before=float(sds_before[index]),
            low=max(float(lows[index]), 0.0) if is_added_time(name) else float(lows[index]),
            high=float(highs[index]),
            is_determined=bool(sds[index] <= DETERMINED_RATIO * sds_before[index]),
        )
        for index, name in enumerate(part.names)
    )


def _list_residuals(cases: Sequence[Case], parts: Sequence[_Part]) -> tuple[Residual, ...]:
    """All fitted figures, run by run."""
    found = [
        Residual(
            run=figure.run,
            what=figure.what,
            unit=figure.unit,
            observed=figure.observed,
            before=float(part.before[index]),
            after=float(part.estimate.predicted[index]),
            weight=float(part.estimate.weights[index]),
        )
        for part in parts
        for index, figure in enumerate(part.figures)
    ]
    order = {case.observation.name: index for index, case in enumerate(cases)}
    return tuple(sorted(found, key=lambda item: order[item.run]))


def _join(
    prior: Uncertainty, parts: Sequence[_Part], factors: Sequence[FittedFactor], noise_ratio: float
) -> tuple[dict[str, float], Uncertainty]:
    """Values and uncertainty of all factors after the fit."""
    values, covariance = np.zeros(len(prior.names)), np.asarray(prior.covariance, dtype=np.float64)
    for part in parts:
        fitted = [prior.names.index(name) for name in part.names]
        values, covariance = condition(values, covariance, fitted, part.estimate.factors, part.estimate.covariance)
    uncertainty = Uncertainty(
        names=prior.names,
        covariance=tuple(tuple(float(value) for value in row) for row in covariance),
        repeat_ratio=min(noise_ratio, _MOST_NOISE),
        sources=prior.sources | {factor.name: "calibrated" for factor in factors if factor.is_determined},
    )
    return {name: float(value) for name, value in zip(prior.names, values, strict=True)}, uncertainty


def _draw(values: Mapping[str, float], parts: Sequence[_Part]) -> tuple[dict[str, float], ...]:
    """Evenly spaced samples of every part, joined; what no run says anything about stays at its value."""
    draws = []
    for index in range(DRAWS):
        draw = dict(values)
        for part in parts:
            samples = part.estimate.samples
            sample = samples[(index * len(samples)) // DRAWS]
            draw |= {name: float(value) for name, value in zip(part.names, sample, strict=True)}
        draws.append(draw)
    return tuple(draws)
