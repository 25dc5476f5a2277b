"""Which run would determine what the observed runs leave open: the expected gain of one more, run by run. Pure.

A run adds J' J / sigma^2 to the information about the factors, J being the change of its figures with each factor. That
is known before it is made, so the run that narrows a factor most can be named (Chaloner and Verdinelli, 1995).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.fidelity.calibration import DETERMINED_RATIO, PEAK_NOISE, Calibration, FittedFactor
from autotune.fidelity.case import Case, Ground
from autotune.fidelity.passes import find_denoisers
from autotune.fidelity.surrogate import Matrix, Vector
from autotune.model_facts import ModelFacts
from autotune.observed.observation import ObservedLatency, ObservedPeak, PeakKind, Scope
from autotune.uncertainty import is_memory_factor
from runtime.plan import Placement, Plan
from runtime.residency import Mode

_FEWER_STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """The run that would narrow one factor most.

    Attributes:
        factor: what the runs so far do not determine.
        run: the run in words; empty when none of those looked at would determine it.
        like: the observed run that it is like in all else.
        sd, sd_then: the factor's standard deviation now, and after that run.
    """

    factor: str
    run: str
    like: str
    sd: float
    sd_then: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    text: str
    case: Case


def suggest_runs(cases: Sequence[Case], calibration: Calibration) -> tuple[NextRun, ...]:
    """For every factor that ``cases`` left open, the run that would determine it."""
    open_factors = [factor for factor in calibration.factors if not factor.is_determined]
    if not open_factors:
        return ()
    candidates = list(_list_candidates(cases[0]))
    found = {
        kind: [_information(item.case, calibration, is_memory=kind) for item in candidates] for kind in (False, True)
    }
    covariance = np.asarray(calibration.uncertainty.covariance, dtype=np.float64)
    return tuple(
        _choose(factor, candidates, found[is_memory_factor(factor.name)], covariance, calibration)
        for factor in open_factors
    )


def _choose(
    factor: FittedFactor,
    candidates: Sequence[_Candidate],
    information: Sequence[Matrix],
    covariance: Matrix,
    calibration: Calibration,
) -> NextRun:
    index = calibration.uncertainty.names.index(factor.name)
    # Factors that are exact have no inverse; a variance far below all others stands in.
    jitter = np.diag(1e-12 * np.diag(covariance) + 1e-30)
    inverse = np.linalg.inv(covariance + jitter)
    sds = [float(np.sqrt(np.linalg.inv(inverse + added)[index, index])) for added in information]
    best = int(np.argmin(sds))
    helps = sds[best] <= DETERMINED_RATIO * factor.sd_before
    return NextRun(
        factor=factor.name,
        run=candidates[best].text if helps else "",
        like=candidates[best].case.observation.name,
        sd=factor.sd,
        sd_then=sds[best] if helps else factor.sd,
    )


def _information(case: Case, calibration: Calibration, *, is_memory: bool) -> Matrix:
    """J' J / sigma^2 of one more run, in the order of all factors."""
    names = calibration.uncertainty.names
    sds = np.asarray([max(calibration.uncertainty.sd_of(name), 1e-12) for name in names])
    values = np.asarray([calibration.values[name] for name in names])
    here = _predict(case, names, values, is_memory=is_memory)
    # Over steps as wide as the factor is uncertain: predictions have kinks where another lane binds.
    steps = 0.5 * sds
    moved = [_predict(case, names, values + step, is_memory=is_memory) - here for step in np.diag(steps)]
    jacobian = np.stack(moved, axis=1) / steps
    keep = np.asarray([is_memory_factor(name) is is_memory for name in names])
    jacobian = np.where(keep[None, :], jacobian, 0.0)
    noise = PEAK_NOISE if is_memory else max(calibration.noise_ratio, 1e-3)
    return np.asarray(jacobian.T @ jacobian / noise**2, dtype=np.float64)


def _predict(case: Case, names: Sequence[str], vector: Vector, *, is_memory: bool) -> Vector:
    factors = dict(zip(names, vector, strict=True))
    if is_memory:
        return np.log([float(case.predict_peak_bytes(factors) or 1)])
    return np.log(np.maximum(case.predict_latencies_s(case.ground.build_evaluator(factors)), 1e-9))


def _list_candidates(case: Case) -> Iterator[_Candidate]:
    """Runs that a user could make: another placement of one component, or fewer steps, beside the first run's rest."""
    ground, plan = case.ground, case.plan
    for component in ground.facts.model.components:
        now = plan.placement(component.name)
        if component.max_layers:
            for resident in sorted({0, component.max_layers // 2}):
                other = Placement(component=component.name, mode=Mode.LAYERWISE_OFFLOAD, resident=resident)
                if other != now:
                    text = f"{component.name}.resident={resident}"
                    yield _Candidate(text=text, case=_observe(plan.with_placement(other), case, ground))
        if now.mode is not Mode.RESIDENT:
            kept = Placement(component=component.name, mode=Mode.RESIDENT)
            other_case = _observe(plan.with_placement(kept), case, ground)
            yield _Candidate(text=f"{component.name}.mode=resident", case=other_case)
    steps = ground.facts.workload.steps // _FEWER_STEPS
    if steps:
        shorter = replace(ground, facts=_shorten(ground.facts))
        yield _Candidate(
            text=f"{steps} steps instead of {ground.facts.workload.steps}", case=_observe(plan, case, shorter)
        )


def _shorten(facts: ModelFacts) -> ModelFacts:
    """The same request in a quarter of its steps."""
    names = find_denoisers(facts)
    uses = tuple(
        replace(use, groups=tuple(replace(group, passes=max(1, group.passes // _FEWER_STEPS)) for group in use.groups))
        if use.component in names
        else use
        for use in facts.request.uses
    )
    workload = replace(facts.workload, steps=max(1, facts.workload.steps // _FEWER_STEPS))
    return replace(facts, request=replace(facts.request, uses=uses), workload=workload)


def _observe(plan: Plan, case: Case, ground: Ground) -> Case:
    """A run like ``case`` of which everything is noted that a server's own dump says: request, uses, reserved peak."""
    used = dict.fromkeys(use.component for use in ground.facts.request.uses if use.groups)
    latencies = (
        ObservedLatency(seconds=1.0, scope=Scope.REQUEST),
        *(ObservedLatency(seconds=1.0, scope=Scope.USE, component=name) for name in used),
    )
    peak = ObservedPeak(size_bytes=1, kind=PeakKind.RESERVED)
    return Case(replace(case.observation, latencies=latencies, peak=peak, ran_out=False), plan, ground)
