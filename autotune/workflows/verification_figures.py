"""Checks of what requests did under a plan: passes, times, peaks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.memory_model import WORKSPACE_BYTES
from autotune.observed.perf_dump import PerfDump
from autotune.observed.run_observation import compute_step_s
from autotune.observed.server_log import LoggedRequest, ServerLog
from autotune.observed.stage_components import is_denoising, list_denoisers
from autotune.observed.verdict import Aspect, Check, Outcome
from runtime.plan_document import PlanDocument
from runtime.prediction import PassPrediction, Prediction
from runtime.units import format_gib, format_percent, format_seconds

TIME_TOLERANCE_RATIO = 0.30
"""What predictions of times may be off where the plan carries no uncertainty of its own."""
PEAK_TOLERANCE_RATIO = 0.05

_CALIBRATE = "fit the rates to this run (`autotune calibrate`) and plan again"
_SIDE_MULTIPLE = 16
"""The server logs sides rounded up to this (``schedule_batch.py``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a plan predicts of the figures that a server writes down.

    Attributes:
        steps: denoising steps of a request, as the server counts them; None for a model that denoises nothing.
        step_s: one steady step.
        allocated_bytes: the most that torch's tensors occupy from the first request on, workspaces included.
        reserved_bytes: the same as torch's allocator holds.
    """

    steps: int | None
    step_s: float | None
    allocated_bytes: int
    reserved_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tolerance:
    """How far a time may be below and above its prediction, as shares of that, and why."""

    below_ratio: float
    above_ratio: float
    text: str


def derive_expected(document: PlanDocument) -> Expected:
    """The plan's predictions in the server's terms."""
    prediction, denoisers = document.prediction, list_denoisers(use.component for use in document.prediction.uses)
    main = [
        max(use.passes, key=lambda part: part.total_s)
        for use in prediction.uses
        if use.component in denoisers and use.passes
    ]
    steps, step_s = _derive_steps(main, int(document.workload["steps"]))
    phases = [phase for phase in prediction.phases if phase.phase != "load"]
    # What is expected besides tensors and the allocator's rounding: context and library workspaces.
    overhead_bytes = min(phase.expected_bytes - phase.live_bytes for phase in prediction.phases)
    own_bytes = max(overhead_bytes - WORKSPACE_BYTES, 0)
    return Expected(
        steps=steps,
        step_s=step_s,
        allocated_bytes=max(phase.live_bytes for phase in phases or prediction.phases) + WORKSPACE_BYTES,
        reserved_bytes=max(phase.expected_bytes for phase in phases or prediction.phases) - own_bytes,
    )


def _derive_steps(main: list[PassPrediction], sigma_points: int) -> tuple[int | None, float | None]:
    """Steps and seconds of a steady one; where several components denoise, a step is their mean."""
    passes = sum(part.count for part in main)
    if not passes:
        return None, None
    forwards = max(1, round(passes / sigma_points))
    per_pass_s = main[0].steady_s if len(main) == 1 else sum(part.total_s for part in main) / passes
    return max(1, passes // forwards), per_pass_s * forwards


def check_passes(document: PlanDocument, log: ServerLog | None, dump: PerfDump | None) -> Iterator[Check]:
    """Size of the request, and its denoising steps."""
    request = None if log is None else log.last_request
    yield _check_size(document, request)
    expected = derive_expected(document).steps
    observed = len(dump.steps_s) if dump is not None and dump.steps_s else (request.steps if request else None)
    if expected is not None:
        yield Check(
            aspect=Aspect.PASSES,
            subject="denoising",
            expected=f"{expected} steps",
            observed="nothing was written about steps" if observed is None else f"{observed} steps",
            outcome=_compare(observed == expected if observed is not None else None),
            remedy="The request was not the one that was planned for: plan for it (--steps), or send the planned one",
        )


def _check_size(document: PlanDocument, request: LoggedRequest | None) -> Check:
    wanted = [int(document.workload[name]) for name in ("width", "height", "frames")]
    wanted[:2] = [-(-side // _SIDE_MULTIPLE) * _SIDE_MULTIPLE for side in wanted[:2]]
    found = [None] * 3 if request is None else [request.width, request.height, request.frames]
    known = all(value is not None for value in found)
    return Check(
        aspect=Aspect.PASSES,
        subject="the request",
        expected=_describe_size(wanted),
        observed=_describe_size(found) if known else "no request's size was logged",
        outcome=_compare(found == wanted if known else None),
        remedy="The request was not the one that was planned for: plan for it (--width, --height, --frames)",
    )


def _describe_size(values: list[int] | list[int | None] | list[None]) -> str:
    width, height, frames = values
    return f"{width}x{height}, {frames} frame{'' if frames == 1 else 's'}"


def check_times(document: PlanDocument, log: ServerLog | None, dump: PerfDump | None) -> Iterator[Check]:
    """A steady denoising step, and the whole request."""
    request = None if log is None else log.last_request
    expected, tolerance = derive_expected(document), _find_tolerance(document.prediction)
    step_s = None if dump is None else compute_step_s(dump)[0]
    if step_s is None and request is not None:
        step_s = request.mean_step_s or _share_of_stage(request, expected.steps)
    if expected.step_s:
        yield _check_time(Aspect.STEP_TIME, "denoising", expected.step_s, step_s, tolerance)
    total_s = dump.total_s if dump is not None and dump.total_s is not None else (request.total_s if request else None)
    yield _check_time(Aspect.REQUEST_TIME, "a later request", document.prediction.latency_s, total_s, tolerance)


def _share_of_stage(request: LoggedRequest, steps: int | None) -> float | None:
    stage_s = sum(seconds for name, seconds in request.stages.items() if is_denoising(name))
    count = request.steps or steps
    return stage_s / count if stage_s and count else None


def _find_tolerance(prediction: Prediction) -> _Tolerance:
    """That of a later request, for its steps too: most of what is uncertain is common to both."""
    low_s, high_s, latency_s = prediction.latency_low_s, prediction.latency_high_s, prediction.latency_s
    if low_s is None or high_s is None or not latency_s:
        text = f"{format_percent(TIME_TOLERANCE_RATIO)}, because the plan states no uncertainty"
        return _Tolerance(below_ratio=TIME_TOLERANCE_RATIO, above_ratio=TIME_TOLERANCE_RATIO, text=text)
    below, above = 1 - low_s / latency_s, high_s / latency_s - 1
    text = f"-{format_percent(below)} to +{format_percent(above)}, the plan's own interval"
    return _Tolerance(below_ratio=below, above_ratio=above, text=text)


def _check_time(
    aspect: Aspect, subject: str, expected_s: float, observed_s: float | None, tolerance: _Tolerance
) -> Check:
    off = None if observed_s is None else observed_s / expected_s - 1
    close = None if off is None else -tolerance.below_ratio <= off <= tolerance.above_ratio
    return Check(
        aspect=aspect,
        subject=subject,
        expected=format_seconds(expected_s),
        observed="nothing was written about it" if observed_s is None else _describe_time(observed_s, expected_s),
        outcome=_compare(close),
        tolerance=tolerance.text,
        remedy=f"Where placements and pins are as planned, the device or its links are of another speed: {_CALIBRATE}",
    )


def _describe_time(observed_s: float, expected_s: float) -> str:
    return f"{format_seconds(observed_s)} ({observed_s / expected_s - 1:+.0%})"


def check_peaks(document: PlanDocument, log: ServerLog | None, dump: PerfDump | None) -> Iterator[Check]:
    """Device memory as torch counts it, by tensors and by its allocator; and whether it ran out."""
    expected = derive_expected(document)
    point = None if dump is None else dump.request_peak
    request = None if log is None else log.last_request
    reserved = point.peak_reserved_bytes if point else None
    if reserved is None and request is not None:
        reserved = request.peak_reserved_bytes
    yield _check_peak("tensors", expected.allocated_bytes, point.peak_allocated_bytes if point else None)
    yield _check_peak("torch's allocator", expected.reserved_bytes, reserved)
    if log is not None and log.ran_out:
        yield Check(
            aspect=Aspect.PEAK,
            subject="device memory",
            expected=f"at most {format_gib(document.prediction.peak.charged_bytes)}",
            observed="it ran out",
            outcome=Outcome.MISMATCH,
            remedy="Look for other processes on the card; else give the plan less (--vram-cap, --reserve)",
        )


def _check_peak(subject: str, expected_bytes: int, observed_bytes: int | None) -> Check:
    ratio = None if observed_bytes is None else observed_bytes / expected_bytes - 1
    if ratio is not None and ratio > PEAK_TOLERANCE_RATIO:
        remedy = f"The peak was predicted too low, which can end a run: raise --reserve, or {_CALIBRATE}"
    else:
        remedy = f"The peak was predicted too high: {_CALIBRATE}, and the cap may hold more layers"
    return Check(
        aspect=Aspect.PEAK,
        subject=subject,
        expected=format_gib(expected_bytes),
        observed="nothing was written about it"
        if observed_bytes is None
        else f"{format_gib(observed_bytes)} ({ratio:+.1%})",
        outcome=_compare(None if ratio is None else abs(ratio) <= PEAK_TOLERANCE_RATIO),
        tolerance=format_percent(PEAK_TOLERANCE_RATIO),
        remedy=remedy,
    )


def _compare(agrees: bool | None) -> Outcome:
    if agrees is None:
        return Outcome.NOT_OBSERVABLE
    return Outcome.CONFIRMED if agrees else Outcome.MISMATCH
