"""Fits the factors of a set-up to observed runs of it: what they determine, how well, and which run is off. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.fidelity.case import Case
from autotune.fidelity.estimation import Estimate, Problem, estimate_factors
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

_PEAK_NOISE_STRENGTH, _TIME_NOISE_STRENGTH = 20.0, 4.0
_LEAST_NOISE = 0.005
_BAD_WEIGHT = 0.5
_NEAR_LIMIT_RATIO = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One observed figure beside what is predicted of it.

    Attributes:
        run: name of the observation.
        what: the figure in words.
        unit: ``s`` or ``bytes``.
        observed, before, after: the figure, predicted before and after the fit.
        weight: probability that it is not an outlier.
    """

    run: str
    what: str
    unit: str
    observed: float
    before: float
    after: float
    weight: float

    @property
    def is_outlier(self) -> bool:
        """Whether the fit set it aside."""
        return self.weight < _BAD_WEIGHT

    @property
    def error_ratio(self) -> float:
        """By how much the fitted prediction is above what was observed, as a share of that."""
        return self.after / self.observed - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedFactor:
    """One factor after the fit, in its own unit (``autotune.uncertainty``).

    Attributes:
        name: of the factor.
        value: the most probable one; 0 is what was predicted with before.
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
        values: every factor's most probable value; one that the runs say nothing about follows those that it shares
            something with.
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
        InputError: the cases hold no figure.
    """
    if not any(case.observation.latencies or case.observation.peak for case in cases):
        raise InputError("the runs hold neither a latency nor a peak: nothing can be fitted")
    times = _fit(cases, prior, _predict_times, _observed_times(cases), is_memory=False)
    peaks = _fit(cases, prior, _predict_peaks, _observed_peaks(cases), is_memory=True)
    parts = [part for part in (times, peaks) if part is not None]
    residuals = _list_residuals(cases, times, peaks)
    values, uncertainty = _join(prior, parts, times.estimate.noise if times is not None else None)
    return Calibration(
        factors=tuple(factor for part in parts for factor in part.factors),
        values=values,
        draws=_draw(values, parts),
        residuals=residuals,
        uncertainty=uncertainty,
        noise_ratio=times.estimate.noise if times is not None else prior.repeat_ratio,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The fit of the factors of times, or of memory."""

    names: tuple[str, ...]
    factors: tuple[FittedFactor, ...]
    estimate: Estimate
    before: Vector


PredictCases = Callable[[Sequence[Case], Mapping[str, float]], Vector]


def _predict_times(cases: Sequence[Case], factors: Mapping[str, float]) -> Vector:
    """All observed latencies under ``factors``, in seconds."""
    timed = [case for case in cases if case.observation.latencies]
    grounds = {id(case.ground): case.ground for case in timed}
    evaluators = {key: ground.build_evaluator(factors) for key, ground in grounds.items()}
    found = [seconds for case in timed for seconds in case.predict_latencies_s(evaluators[id(case.ground)])]
    return np.asarray(found, dtype=np.float64)


def _observed_times(cases: Sequence[Case]) -> Vector:
    return np.asarray([latency.seconds for case in cases for latency in case.observation.latencies], dtype=np.float64)


def _predict_peaks(cases: Sequence[Case], factors: Mapping[str, float]) -> Vector:
    """Bytes of all observed peaks under ``factors``."""
    own = [case for case in cases if case.observation.peak is not None and not case.observation.ran_out]
    found = [case.predict_peak_bytes(factors) for case in own]
    return np.asarray([float(size or 0) for size in found], dtype=np.float64)


def _observed_peaks(cases: Sequence[Case]) -> Vector:
    return np.asarray(
        [
            float(case.observation.peak.size_bytes)
            for case in cases
            if case.observation.peak is not None and not case.observation.ran_out
        ],
        dtype=np.float64,
    )


def _fit(
    cases: Sequence[Case], prior: Uncertainty, predict: PredictCases, observed: Vector, *, is_memory: bool
) -> _Part | None:
    """Fit the factors of one kind that change any of ``observed``; None where nothing of that kind was observed."""
    if not len(observed):
        return None
    candidates = [name for name in prior.names if is_memory_factor(name) is is_memory]
    base = predict(cases, {})
    names = [name for name in candidates if _moves(cases, predict, base, name, prior.sd_of(name))]
    if not names:
        return None
    indices = [prior.names.index(name) for name in names]
    covariance = np.asarray(prior.covariance, dtype=np.float64)[np.ix_(indices, indices)]
    is_logarithm = np.asarray([float(is_logarithmic(name)) for name in names])
    problem = Problem(
        predict=lambda natural: predict(cases, _to_factors(names, natural, is_logarithm)),
        observed=observed,
        is_relative=not is_memory,
        scales=observed,
        prior=covariance,
        is_logarithm=is_logarithm,
        is_positive=np.asarray([float(is_added_time(name)) for name in names]),
        noise=PEAK_NOISE if is_memory else prior.repeat_ratio,
        noise_strength=_PEAK_NOISE_STRENGTH if is_memory else _TIME_NOISE_STRENGTH,
        least_noise=_LEAST_NOISE,
    )
    estimate = estimate_factors(problem)
    return _Part(names=tuple(names), factors=_describe(names, covariance, estimate), estimate=estimate, before=base)


def _to_factors(names: Sequence[str], natural: Vector, is_logarithm: Vector) -> dict[str, float]:
    """Factors from what predictions are linear in."""
    values = np.where(is_logarithm > 0, np.log(np.maximum(natural, 1e-12)), natural)
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _moves(cases: Sequence[Case], predict: PredictCases, base: Vector, name: str, sd: float) -> bool:
    return bool(np.max(np.abs(predict(cases, {name: sd}) - base) / base, initial=0.0) > SENSITIVE_RATIO)


def _describe(names: Sequence[str], prior: Matrix, estimate: Estimate) -> tuple[FittedFactor, ...]:
    lows, highs = estimate.intervals(CONFIDENCE)
    sds, sds_before = np.sqrt(np.diag(estimate.covariance)), np.sqrt(np.diag(prior))
    return tuple(
        FittedFactor(
            name=name,
            value=float(estimate.factors[index]),
            sd=float(sds[index]),
            sd_before=float(sds_before[index]),
            low=_reach_limit(name, float(lows[index]), float(sds[index])),
            high=float(highs[index]),
            is_determined=bool(sds[index] <= DETERMINED_RATIO * sds_before[index]),
        )
        for index, name in enumerate(names)
    )


def _reach_limit(name: str, low: float, sd: float) -> float:
    """The lower end of an interval; nothing, for added seconds whose samples crowd against nothing."""
    return 0.0 if is_added_time(name) and low < _NEAR_LIMIT_RATIO * sd else low


def _list_residuals(cases: Sequence[Case], times: _Part | None, peaks: _Part | None) -> tuple[Residual, ...]:
    found: list[Residual] = []
    time_index = peak_index = 0
    for case in cases:
        for latency in case.observation.latencies:
            if times is not None:
                what = f"{latency.scope} of {latency.component}" if latency.component else str(latency.scope)
                found.append(_residual(case, what, "s", latency.seconds, times, time_index))
            time_index += 1
        peak = case.observation.peak
        if peak is not None and not case.observation.ran_out:
            if peaks is not None:
                found.append(_residual(case, f"peak ({peak.kind})", "bytes", peak.size_bytes, peaks, peak_index))
            peak_index += 1
    return tuple(found)


def _residual(case: Case, what: str, unit: str, observed: float, part: _Part, index: int) -> Residual:
    return Residual(
        run=case.observation.name,
        what=what,
        unit=unit,
        observed=float(observed),
        before=float(part.before[index]),
        after=float(part.estimate.predicted[index]),
        weight=float(part.estimate.weights[index]),
    )


def _join(prior: Uncertainty, parts: Sequence[_Part], noise: float | None) -> tuple[dict[str, float], Uncertainty]:
    """Values and covariance of all factors after the fit.

    Factors that the runs say nothing about are updated by what they share with fitted ones: the conditional normal
    distribution, with S_uf S_ff^-1 carried over to the fitted values and covariance.
    """
    covariance = np.asarray(prior.covariance, dtype=np.float64)
    values = np.zeros(len(prior.names))
    sources = dict(prior.sources)
    for part in parts:
        fitted = [prior.names.index(name) for name in part.names]
        others = [index for index in range(len(prior.names)) if index not in fitted]
        gain = covariance[np.ix_(others, fitted)] @ np.linalg.inv(covariance[np.ix_(fitted, fitted)])
        values[fitted] = part.estimate.factors
        values[others] += gain @ part.estimate.factors
        shrunk = covariance[np.ix_(fitted, fitted)] - part.estimate.covariance
        updated = covariance.copy()
        updated[np.ix_(others, others)] -= gain @ shrunk @ gain.T
        updated[np.ix_(others, fitted)] = gain @ part.estimate.covariance
        updated[np.ix_(fitted, others)] = updated[np.ix_(others, fitted)].T
        updated[np.ix_(fitted, fitted)] = part.estimate.covariance
        covariance = updated
        sources |= {factor.name: "calibrated" for factor in part.factors if factor.is_determined}
    uncertainty = Uncertainty(
        names=prior.names,
        covariance=tuple(tuple(float(value) for value in row) for row in covariance),
        repeat_ratio=min(noise if noise is not None else prior.repeat_ratio, 0.5),
        sources=sources,
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
