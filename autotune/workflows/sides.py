"""Runs, plans, profiles and measurements as sides of a comparison: every figure of theirs under one name. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from autotune.measurements.model_profile import FORMAT as MODEL_PROFILE_FORMAT
from autotune.measurements.node_profile import FORMAT as NODE_PROFILE_FORMAT
from autotune.profile import FORMAT as PROFILE_FORMAT
from autotune.profile import Profile, load_profile
from autotune.workflows.run_collection import collect_run
from reports.comparison import Entry, Side, Value
from reports.run_data import Gap
from reports.uses import list_use_rows
from runtime.documents import read_format
from runtime.errors import InputError
from runtime.files import as_text
from runtime.measurement_document import FORMAT as MEASUREMENT_FORMAT
from runtime.measurement_document import MeasurementDocument, load_measurement
from runtime.plan_document import FORMAT as PLAN_FORMAT
from runtime.plan_document import PlanDocument, load_plan
from runtime.prediction import Prediction
from runtime.target_summary import DeviceSummary


def read_side(path: Path, name: str) -> tuple[Side, tuple[Gap, ...]]:
    """What is at ``path``: a run folder, or a document by what it says it is; and what could not be read of it.

    Raises:
        InputError: there is nothing to compare, or it cannot be read.
    """
    if path.is_dir():
        run = collect_run(path)
        plan, measurement = run.plan, run.measurement
        entries = [*(_plan_entries(plan) if plan else ()), *(_measured_entries(measurement) if measurement else ())]
        if not entries:
            raise InputError(
                f"{as_text(path)} has neither plan nor measurement: {run.gaps[0].file} {run.gaps[0].problem}"
            )
        placements = _placements_of(plan) if plan else dict(measurement.placements) if measurement else {}
        return _build(name, "run", placements, entries), run.gaps
    form = read_format(path)
    if form == PLAN_FORMAT:
        document = load_plan(path)
        return _build(name, "plan", _placements_of(document), _plan_entries(document)), ()
    if form == PROFILE_FORMAT:
        return _build(name, "profile", {}, _profile_entries(load_profile(path))), ()
    if form == MEASUREMENT_FORMAT:
        measured = load_measurement(path)
        return _build(name, "measurement", measured.placements, _measured_entries(measured)), ()
    if form in (MODEL_PROFILE_FORMAT, NODE_PROFILE_FORMAT):
        raise InputError(f"{as_text(path)} is a measured profile: compare two with autotune profile diff")
    if not path.exists():
        raise InputError(f"{as_text(path)} is not there: {_WHAT}")
    said = "it says no format" if form is None else f"its format is {form!r}"
    raise InputError(f"{as_text(path)} is nothing that can be compared ({said}): {_WHAT}")


_WHAT = "name run folders, plan.json, profile.json or measurement.json"


def _build(name: str, kind: str, placements: Mapping[str, str], entries: Iterator[Entry] | list[Entry]) -> Side:
    """A side; of two entries of one name, as where a run's plan and measurement both say it, the first one counts."""
    unique: dict[str, Entry] = {}
    for entry in entries:
        unique.setdefault(entry.name, entry)
    return Side(name=name, kind=kind, placements=placements, entries=tuple(unique.values()))


def _placements_of(document: PlanDocument) -> dict[str, str]:
    return {placement.component: placement.describe() for placement in document.plan.placements}


def _plan_entries(document: PlanDocument) -> Iterator[Entry]:
    yield from _prediction_entries(document.prediction)
    for item in document.comparisons:
        yield Entry(name=f"{item.name}: request", value=item.latency_s, unit="s")
        yield Entry(name=f"{item.name}: VRAM charged", value=item.charged_bytes, unit="bytes")
    yield from _request_entries(document.model.name, document.variant, document.workload)
    yield Entry(name="GPUs", value=document.tp_size)
    yield Entry(name="engine", value=document.plan.engine)
    yield Entry(name="device", value=document.device.title)
    yield Entry(name="VRAM cap", value=document.cap.effective_bytes, unit="bytes")
    yield Entry(name="host memory", value=document.host.memory_bytes, unit="bytes")
    yield Entry(name="host memory for weights", value=document.host.available_bytes, unit="bytes")
    yield Entry(name="pins", value="yes" if document.host.pins else "no")
    yield from _device_entries(document.device)
    yield Entry(name="profile", value=document.profile_id)
    yield Entry(name="made by", value=document.program)


def _prediction_entries(prediction: Prediction) -> Iterator[Entry]:
    yield Entry(name="later request", value=prediction.latency_s, unit="s")
    yield Entry(name="first request", value=prediction.first_latency_s, unit="s")
    yield Entry(name="compute", value=prediction.compute_s, unit="s")
    yield Entry(name="VRAM charged", value=prediction.peak.charged_bytes, unit="bytes")
    yield Entry(name="VRAM expected", value=prediction.peak.expected_bytes, unit="bytes")
    yield Entry(name="host memory held", value=prediction.total_host_bytes, unit="bytes")
    yield Entry(name="read from disk", value=prediction.disk_read_bytes, unit="bytes")
    for position, use in enumerate(prediction.uses):
        earlier = sum(other.component == use.component for other in prediction.uses[:position])
        name = f"{use.component} ({earlier + 1})" if earlier else use.component
        yield Entry(name=f"{name}: time", value=use.end_s - use.start_s, unit="s")
        yield Entry(name=f"{name}: fill", value=use.fill_s, unit="s")
        for number, part in enumerate(use.passes, start=1):
            group = f" of group {number}" if len(use.passes) > 1 else ""
            yield Entry(name=f"{name}: steady pass{group}", value=part.steady_s, unit="s")
    for item in prediction.hosting:
        for tier in ("pinned", "pageable", "mapped"):
            yield Entry(name=f"{item.component}.{item.stack}: {tier} layers", value=getattr(item, tier))
    yield Entry(name="figures", value=prediction.source)


def _request_entries(model: str, variant: str, workload: Mapping[str, Value]) -> Iterator[Entry]:
    yield Entry(name="model", value=model)
    yield Entry(name="variant", value=variant or "as released")
    for name, value in workload.items():
        yield Entry(name=name.replace("_", " "), value=value)


def _device_entries(device: DeviceSummary) -> Iterator[Entry]:
    for name, figure in device.figures.items():
        yield Entry(name=name, value=figure.value, unit=figure.unit)


def _profile_entries(profile: Profile) -> Iterator[Entry]:
    facts = profile.facts
    workload = {name: value if isinstance(value, int) else str(value) for name, value in asdict(facts.workload).items()}
    yield from _request_entries(facts.model.name, facts.variant, workload)
    yield Entry(name="GPUs", value=facts.tp_size)
    yield Entry(name="device", value=profile.device.title)
    yield from _device_entries(profile.device)
    for component in facts.model.components:
        yield Entry(name=f"{component.name}: weights as run", value=component.run_bytes, unit="bytes")
        yield Entry(name=f"{component.name}: layers", value=sum(len(stack.layers) for stack in component.stacks))
    for use, work in zip(facts.request.uses, facts.work, strict=True):
        yield Entry(name=f"{use.title}: activations", value=work.activation_bytes, unit="bytes")
        yield Entry(name=f"{use.title}: passes", value=sum(group.passes for group in use.groups))
    yield Entry(name="output frames", value=facts.output_frames_bytes, unit="bytes")
    yield Entry(name="facts from", value=facts.source)
    yield Entry(name="profile", value=profile.digest)


def _measured_entries(measurement: MeasurementDocument) -> Iterator[Entry]:
    how = "emulated" if measurement.is_emulated else "measured"
    for row in list_use_rows(measurement):
        name = f"{how} {row.name}" + (", all uses" if row.scope == "component" else "")
        figures = (("p50", row.p50_s, "s"), ("p95", row.p95_s, "s"), ("first", row.first_s, "s"))
        waits = (("fill", row.fill_p50_s, "s"), ("stalls", row.stall_p50_s, "s"), ("peak", row.peak_bytes, "bytes"))
        for part, value, unit in (*figures, *waits):
            if value is not None:
                yield Entry(name=f"{name}: {part}", value=value, unit=unit)
    yield from _request_entries(measurement.model, measurement.variant, measurement.workload)
    yield Entry(name="engine", value=measurement.engine)
    yield Entry(name=f"{how} on", value=measurement.device_title)
    yield Entry(name="clock", value=measurement.clock)
    yield Entry(name="pinned", value=measurement.host.pinned_bytes, unit="bytes")
    yield Entry(name="misses", value=measurement.misses)
    yield Entry(name="requests that count", value=measurement.repeats)
    yield Entry(name="profile", value=measurement.profile_id)
