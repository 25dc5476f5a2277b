"""The figures that several runs observed, and what is predicted of them, in one order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.fidelity.case import Case
from autotune.fidelity.surrogate import Vector
from autotune.observed.observation import Observation, ObservedPeak

PredictFigures = Callable[[Sequence[Case], Mapping[str, float]], Vector]

_BAD_WEIGHT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One observed figure.

    Attributes:
        run: name of the observation.
        what: the figure in words.
        unit: ``s`` or ``bytes``.
        observed: the figure.
    """

    run: str
    what: str
    unit: str
    observed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual(Figure):
    """One observed figure beside what is predicted of it.

    Attributes:
        before, after: predicted before and after the fit.
        weight: probability that it is not an outlier.
    """

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


def list_times(cases: Sequence[Case]) -> tuple[Figure, ...]:
    """All latencies, run by run."""
    return tuple(
        Figure(
            run=case.observation.name,
            what=f"{latency.scope} of {latency.component}" if latency.component else str(latency.scope),
            unit="s",
            observed=latency.seconds,
        )
        for case in cases
        for latency in case.observation.latencies
    )


def predict_times_s(cases: Sequence[Case], factors: Mapping[str, float]) -> Vector:
    """Seconds of all latencies under ``factors``, in the order of ``list_times``."""
    timed = [case for case in cases if case.observation.latencies]
    grounds = {id(case.ground): case.ground for case in timed}
    evaluators = {key: ground.build_evaluator(factors) for key, ground in grounds.items()}
    found = [seconds for case in timed for seconds in case.predict_latencies_s(evaluators[id(case.ground)])]
    return np.asarray(found, dtype=np.float64)


def list_peaks(cases: Sequence[Case]) -> tuple[Figure, ...]:
    """All peaks, run by run; what a run had when it ran out of memory is none."""
    peaks = [(case, _peak_of(case.observation)) for case in cases]
    return tuple(
        Figure(run=case.observation.name, what=f"peak ({peak.kind})", unit="bytes", observed=float(peak.size_bytes))
        for case, peak in peaks
        if peak is not None
    )


def predict_peaks_bytes(cases: Sequence[Case], factors: Mapping[str, float]) -> Vector:
    """Bytes of all peaks under ``factors``, in the order of ``list_peaks``."""
    found = [case.predict_peak_bytes(factors) for case in cases if _peak_of(case.observation) is not None]
    return np.asarray(found, dtype=np.float64)


def merge_repeats(cases: Sequence[Case], *, is_memory: bool) -> tuple[tuple[Case, ...], NDArray[np.intp]]:
    """Cases that predict each figure of ``cases`` once, and which of their figures each of them is.

    Repeats of one configuration have the same prediction: ten thousand of them cost one replay.
    """
    kept: list[Case] = []
    firsts: dict[Hashable, int] = {}
    which: list[int] = []
    count = 0
    for case in cases:
        peak = _peak_of(case.observation)
        timed = tuple((latency.scope, latency.component) for latency in case.observation.latencies)
        found: tuple[Hashable, ...] = (((peak.kind, peak.component),) if peak else ()) if is_memory else timed
        if not found:
            continue
        key = (id(case.ground), case.plan, found)
        if key not in firsts:
            firsts[key] = count
            count += len(found)
            kept.append(case)
        which.extend(range(firsts[key], firsts[key] + len(found)))
    return tuple(kept), np.asarray(which, dtype=np.intp)


def _peak_of(run: Observation) -> ObservedPeak | None:
    return None if run.ran_out else run.peak
