"""What an emulated execution leaves out or does otherwise than the server, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from autotune.workflows.pace import Pace
from autotune.workflows.run_settings import Clock
from runtime.devices.protocol import Label
from runtime.engines.host_rules import PlanHosting
from runtime.interference import Interference
from runtime.intervals import overlap_s
from runtime.measurement import RequestMeasurement
from runtime.plan_document import PlanDocument
from runtime.residency import Mode
from runtime.units import format_gib, format_percent, format_seconds


def describe_emulation(clock: Clock, byte_scale: int, time_scale: float) -> str:
    """What stands for the model and the device, and where times are from."""
    text = (
        "emulated: stand-ins of which each byte counts as "
        f"{byte_scale:,}, link rates and compute times of the profile, activations held for as long as their use lasts"
    )
    if clock == "virtual":
        return f"{text}; on a virtual clock, which leaves out the host's own work"
    return f"{text}; on the real clock, {time_scale:.3g} wall seconds per emulated second"


def describe_interference(clock: Clock, interference: Interference) -> str:
    """Whether copies and compute slow each other down on the device, as in the prediction."""
    if interference.is_none:
        return "copies and compute do not slow each other down: by how much they do was not measured, or is nothing"
    slowdowns = (
        f"compute beside copies takes {format_percent(interference.compute_slowdown_ratio)} longer, copies beside "
        f"compute {format_percent(interference.copy_slowdown_ratio)}"
    )
    if clock == "virtual":
        return f"{slowdowns}, as in the prediction"
    return f"{slowdowns} in the prediction; not on the real clock, where neither slows the other"


def explain_differences(document: PlanDocument, hosting: PlanHosting) -> Iterator[str]:
    """What the executor does otherwise than the server that the prediction is about."""
    copied = sum(stack.mapped_copied_bytes for component in hosting.components for stack in component.stacks)
    if copied:
        yield (
            f"{format_gib(copied)} of the mapped layers are made by the server at load and are in no file: the "
            "prediction copies them from pageable memory, the executor ships whole layers"
        )
    for component in document.model.components:
        moved = document.plan.placement(component.name).mode is Mode.COMPONENT_OFFLOAD
        if moved and component.cast_bytes > component.run_bytes:
            yield (
                f"{component.name} is moved as a whole: the server casts it on the device while it moves up, which "
                f"takes {format_gib(component.cast_bytes)} for a moment; the executor moves it as it runs"
            )


def describe_host_work(request: RequestMeasurement | None, time_scale: float, pace: Pace) -> tuple[str, ...]:
    """What this machine added to ``request``, which the real clock counts and the prediction does not.

    Between the layers of a pass the host works; inside of a layer it sleeps, and wakes up late.
    """
    runs = request.runs if request is not None else ()
    if request is None or not runs:
        return ()
    waiting = [(stall.start_s, stall.end_s) for stall in request.stalls]
    gaps = [(one.end_s, other.wanted_s) for one, other in pairwise(runs) if one.pass_index == other.pass_index]
    between_s = sum(end - start - overlap_s((start, end), waiting) for start, end in gaps)
    planned_s = sum(pace.layer_s(Label(run.component, run.stack, run.layer)) for run in runs)
    late_s = sum(run.end_s - run.start_s for run in runs) - planned_s
    wall_us = (between_s + late_s) * time_scale / len(runs) * 1e6
    return (
        f"of a request {format_seconds(between_s)} are the host's own work between layers and {format_seconds(late_s)} "
        f"late wake-ups in them, {format_percent((between_s + late_s) / request.latency_s)} of it in all "
        f"({wall_us:,.0f} wall microseconds a layer): a larger --time-scale makes that share smaller",
    )
