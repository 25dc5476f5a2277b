"""Puts what was executed into the measurement document, with the prediction beside it."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Literal

from autotune.telemetry.software import find_versions
from autotune.workflows.document import program_version
from autotune.workflows.execution import Execution
from autotune.workflows.run_settings import Rounds
from runtime.measurement import RequestMeasurement, UseMeasurement
from runtime.measurement_document import (
    Compared,
    MeasuredComponent,
    MeasuredHost,
    MeasuredPasses,
    MeasuredPhase,
    MeasuredUse,
    MeasurementDocument,
)
from runtime.plan_document import PlanDocument
from runtime.report_data import ReportData
from runtime.time_spread import Spread


def build_measurement(
    document: PlanDocument, execution: Execution, rounds: Rounds, *, seed: int, command: str, created: datetime
) -> MeasurementDocument:
    """The measurement of the plan in ``document``."""
    report = execution.report
    first, counted = report.requests[0], report.requests[rounds.warmup :]
    same_uses = zip(*(request.uses for request in (first, *counted)), strict=False)
    uses = tuple(_measure_use(of_first, others) for of_first, *others in same_uses)
    latency = Spread.over([request.latency_s for request in counted])
    return MeasurementDocument(
        created=created.isoformat(timespec="seconds"),
        program=program_version(),
        command=command,
        model=document.model.name,
        variant=document.variant,
        workload=document.workload,
        profile_id=document.profile_id,
        engine=report.engine,
        placements=report.placements,
        device=report.device,
        device_title=execution.device,
        is_emulated=report.is_emulated,
        clock=execution.clock,
        byte_scale=execution.byte_scale,
        time_scale=execution.time_scale,
        software=list_software(),
        seed=seed,
        warmup=rounds.warmup,
        repeats=rounds.repeats,
        latency=latency,
        first_latency_s=first.latency_s,
        uses=uses,
        phases=tuple(
            MeasuredPhase(
                phase=name,
                weight_bytes=phase.peak_weight_bytes,
                activation_bytes=phase.peak_activation_bytes,
                total_bytes=phase.peak_total_bytes,
                reserved_bytes=phase.reserved_bytes,
            )
            for name, phase in report.peak_phases().items()
        ),
        host=MeasuredHost(**{name: getattr(report.host, name) for name in MeasuredHost.__dataclass_fields__}),
        misses=max(request.misses for request in report.requests),
        comparisons=tuple(_compare(document, report, first, latency, uses)),
        notes=execution.notes,
        components=tuple(_add_up(counted)),
    )


def list_software() -> dict[str, str]:
    """Versions of what takes part in an execution, as far as it is installed."""
    return {"python": platform.python_version(), "system": platform.platform(terse=True), **find_versions()}


def _add_up(requests: Sequence[RequestMeasurement]) -> Iterator[MeasuredComponent]:
    """Every component's uses of each of ``requests`` together."""
    counts = Counter(use.component for use in requests[-1].uses)
    for component, count in counts.items():
        totals = [sum(use.total_s for use in request.uses if use.component == component) for request in requests]
        yield MeasuredComponent(component=component, uses=count, time=Spread.over(totals))


def _measure_use(first: UseMeasurement, uses: Sequence[UseMeasurement]) -> MeasuredUse:
    """One use from the same use of every request that counts; what does not vary in time is that of the last one."""

    def over(read: Callable[[UseMeasurement], float]) -> Spread:
        return Spread.over([read(use) for use in uses])

    last = uses[-1]
    return MeasuredUse(
        component=last.component,
        title=last.title,
        first_s=first.total_s,
        time=over(lambda use: use.total_s),
        fill=over(lambda use: use.fill_s),
        stall=over(lambda use: use.stall_s),
        hidden=over(lambda use: max(0.0, use.hidden_s)),
        exposed=over(lambda use: use.exposed_s),
        passes=tuple(_measure_passes(group, uses) for group in sorted({one.group for one in last.passes})),
        copied_bytes=last.copied_bytes,
        binding=last.binding.value,
    )


def _measure_passes(group: int, uses: Sequence[UseMeasurement]) -> MeasuredPasses:
    steady = [time_s for use in uses if (time_s := use.steady_pass_s(group)) is not None]
    count = sum(one.group == group for one in uses[-1].passes)
    return MeasuredPasses(group=group, count=count, steady=Spread.over(steady) if steady else None)


def _compare(
    document: PlanDocument,
    report: ReportData,
    first: RequestMeasurement,
    latency: Spread,
    uses: Sequence[MeasuredUse],
) -> Iterator[Compared]:
    prediction = document.prediction
    yield _ratio("later request", prediction.latency_s, latency.median_s)
    yield _ratio("first request", prediction.first_latency_s, first.latency_s)
    for expected, use in zip(prediction.uses, uses, strict=False):
        if expected.component != use.component:
            break  # a use that the request does not name, from here on nothing can be put beside each other
        yield _ratio(use.title, expected.end_s - expected.start_s, use.time.median_s)
        for passes in use.passes:
            if passes.steady is not None and 0 <= passes.group < len(expected.passes):
                name = f"steady pass of {use.title}" + (f", group {passes.group + 1}" if len(use.passes) > 1 else "")
                yield _ratio(name, expected.passes[passes.group].steady_s, passes.steady.median_s)
    weights = max(phase.streamed_bytes + phase.standing_bytes for phase in prediction.phases)
    yield _ratio("peak weights", weights, max(phase.peak_weight_bytes for phase in report.phases), unit="bytes")
    live = max(phase.live_bytes for phase in prediction.phases)
    yield _ratio("peak of weights and activations", live, max(p.peak_total_bytes for p in report.phases), unit="bytes")


def _ratio(quantity: str, predicted: float, measured: float, unit: Literal["s", "bytes"] = "s") -> Compared:
    ratio = measured / predicted if predicted > 0 else None
    return Compared(quantity=quantity, unit=unit, predicted=predicted, measured=measured, ratio=ratio)
