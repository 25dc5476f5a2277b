"""What a calibration says about placements that nobody ran: latency and peak with bounds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.fidelity.calibration import Calibration
from autotune.fidelity.case import Case, Ground
from autotune.fidelity.passes import find_denoisers
from autotune.observed.observation import Observation, ObservedLatency, ObservedPeak, PeakKind, Scope
from runtime.model_spec import ComponentSpec
from runtime.plan import Placement, Plan
from runtime.residency import Mode

FORECAST_RATIO = 0.9
"""Share of the draws that lies within the bounds of a forecast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What is predicted, and between which bounds ``FORECAST_RATIO`` of what the runs allow lies."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One placement of the component that denoises.

    Attributes:
        component: its name.
        resident: resident layers of each of its stacks.
        is_everything: whether the component is resident as a whole.
        use_s: its uses in a later request.
        peak_bytes: device memory that the driver counts.
    """

    component: str
    resident: int
    is_everything: bool
    use_s: Range
    peak_bytes: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasts:
    """Forecasts for a row of placements, and the compute of the component, which none of them can save."""

    placements: tuple[Forecast, ...]
    floor_s: Range


def forecast_residents(case: Case, calibration: Calibration) -> Forecasts:
    """Forecasts for five numbers of resident layers in the set-up of ``case``, all else as it was there."""
    ground = case.ground
    component = _find_main(ground)
    counts = sorted({round(component.max_layers * share / 4) for share in range(4)})
    plans = [(count, False, _place(case.plan, component, count)) for count in counts]
    kept = Placement(component=component.name, mode=Mode.RESIDENT)
    plans.append((component.max_layers, True, case.plan.with_placement(kept)))
    cases = [_observe(case.observation, component.name, plan, ground) for _, _, plan in plans]
    drawn = [_predict(cases, factors, ground) for factors in (calibration.values, *calibration.draws)]
    placements = tuple(
        Forecast(
            component=component.name,
            resident=count,
            is_everything=is_everything,
            use_s=_range([times[index] for times, _, _ in drawn]),
            peak_bytes=_range([peaks[index] for _, peaks, _ in drawn]),
        )
        for index, (count, is_everything, _) in enumerate(plans)
    )
    return Forecasts(placements=placements, floor_s=_range([floor for _, _, floor in drawn]))


def _find_main(ground: Ground) -> ComponentSpec:
    names = find_denoisers(ground.facts)
    return max((ground.facts.model.component(name) for name in names), key=lambda part: part.run_bytes)


def _place(plan: Plan, component: ComponentSpec, resident: int) -> Plan:
    return plan.with_placement(Placement(component=component.name, mode=Mode.LAYERWISE_OFFLOAD, resident=resident))


def _observe(observation: Observation, component: str, plan: Plan, ground: Ground) -> Case:
    latency = ObservedLatency(seconds=1.0, scope=Scope.USE, component=component)
    peak = ObservedPeak(size_bytes=1, kind=PeakKind.DRIVER)
    return Case(replace(observation, latencies=(latency,), peak=peak), plan, ground)


def _predict(
    cases: Sequence[Case], factors: dict[str, float], ground: Ground
) -> tuple[list[float], list[float], float]:
    evaluator = ground.build_evaluator(factors)
    times = [case.predict_latencies_s(evaluator)[0] for case in cases]
    peaks = [float(case.predict_peak_bytes(factors) or 0) for case in cases]
    name = cases[0].components[0]
    uses = enumerate(ground.facts.request.uses)
    floor_s = sum(evaluator.cost_model.use_compute_s(index) for index, use in uses if use.component == name)
    return times, peaks, floor_s


def _range(values: Sequence[float]) -> Range:
    """The first value, with the bounds of the others."""
    tail = (1 - FORECAST_RATIO) / 2
    low, high = np.quantile(values[1:], [tail, 1 - tail])
    return Range(middle=values[0], low=min(float(low), values[0]), high=max(float(high), values[0]))
