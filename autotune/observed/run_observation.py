"""Turns what the server wrote about a request into an observation; a log also says where components were. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autotune.observed.observation import (
    Base,
    Observation,
    ObservedLatency,
    ObservedPeak,
    PeakKind,
    Scope,
    Setup,
)
from autotune.observed.perf_dump import MemoryCheckpoint, PerfDump, StageTime
from autotune.observed.server_log import LoggedRequest, ServerLog
from autotune.observed.stage_components import is_denoising, list_denoisers, sum_uses

# Steps that leave out a tenth of their stage were not timed by the device: the host ran ahead and waited later.
LEAST_STEP_COVERAGE = 0.9

GENERATED = "cli_generate"
"""What `sglang generate` tags its dumps with."""

UNSYNCHRONISED = (
    "the server does not wait for the device at the ends of stages and steps unless "
    "SGLANG_DIFFUSION_SYNC_STAGE_PROFILING=1 is set: some work may be counted in the stage after its own"
)
FIRST_REQUEST = (
    "`sglang generate` makes one request, the first after load unless it was told to warm up: its first use of every "
    "component is dearer than in a later request"
)
MOVED_DOWN = (
    "components that are moved whole go back to the host inside their stage, so that uses can hold part of that return"
)


def observe_dump(
    dump: PerfDump,
    setup: Setup,
    *,
    name: str,
    components: Sequence[str],
    settings: tuple[str, ...] = (),
    base: Base = Base.STREAMED,
) -> Observation:
    """One dumped request as an observation.

    Args:
        dump: what the server wrote.
        setup: model, device and request, which a dump does not say.
        name: what to call it.
        components: of the model, by the server's names (``CatalogEntry.configs`` has them).
        settings: ``component.knob=value`` of the run; a dump does not say these either.
        base: where everything else was.

    Raises:
        InputError: nothing in the dump is a latency or a peak.
    """
    step_s, assumed = compute_step_s(dump)
    return Observation(
        name=name,
        where=dump.where,
        setup=setup,
        settings=settings,
        base=base,
        latencies=_list_latencies(components, dump.stages, step_s, dump.total_s),
        peak=_find_peak(dump.request_peak),
        assumed=assumed,
        caveats=_list_caveats(components, settings, base, is_first=dump.tag == GENERATED),
    )


def observe_log(
    log: ServerLog,
    setup: Setup,
    *,
    name: str,
    components: Sequence[str],
    settings: tuple[str, ...] = (),
    base: Base = Base.STREAMED,
) -> Observation:
    """The last request that a log tells of as an observation, placed as the log says and by ``settings`` besides.

    Its step is the mean of all, its peak what torch's allocator held.

    Raises:
        InputError: the log has neither a latency nor a peak nor the end of device memory.
    """
    request = log.last_request or LoggedRequest()
    stages = tuple(StageTime(name=stage, seconds=seconds) for stage, seconds in request.stages.items() if seconds)
    placed = (*list_settings(log), *settings)
    reserved = request.peak_reserved_bytes
    return Observation(
        name=name,
        where=log.where,
        setup=setup,
        settings=placed,
        base=base,
        latencies=_list_latencies(components, stages, request.mean_step_s, request.total_s),
        peak=None if reserved is None else ObservedPeak(size_bytes=reserved, kind=PeakKind.RESERVED),
        ran_out=log.ran_out,
        caveats=_list_caveats(components, placed, base, is_first=False),
    )


def list_settings(log: ServerLog) -> tuple[str, ...]:
    """Where a log says that components were, as ``component.knob=value``; knobs that it leaves out are left out."""
    found: list[str] = []
    for item in log.streamed:
        knobs: dict[str, object] = {"mode": "layerwise-offload", "prefetch": max(item.prefetch, default=None)}
        knobs["resident"] = item.resident_per_stack
        if item.resident:
            knobs["policy"] = item.policies[0] if item.policies else None
            knobs["lifetime"] = item.lifetimes[0] if item.lifetimes else None
        found += [f"{item.component}.{knob}={value}" for knob, value in knobs.items() if value is not None]
    for loaded in log.loaded:
        mode = log.find_whole_mode(loaded.component)
        if mode is not None:
            found.append(f"{loaded.component}.mode={mode}")
    return tuple(found)


def _list_latencies(
    components: Sequence[str], stages: Sequence[StageTime], step_s: float | None, total_s: float | None
) -> tuple[ObservedLatency, ...]:
    latencies = [
        ObservedLatency(seconds=seconds, scope=Scope.USE, component="+".join(names))
        for names, seconds in sum_uses(stages, components).items()
    ]
    denoisers = "+".join(list_denoisers(components))
    if step_s is not None and denoisers:
        latencies.append(ObservedLatency(seconds=step_s, scope=Scope.STEP, component=denoisers))
    if total_s is not None:
        latencies.append(ObservedLatency(seconds=total_s, scope=Scope.REQUEST))
    return tuple(latencies)


def _list_caveats(components: Sequence[str], settings: Sequence[str], base: Base, *, is_first: bool) -> tuple[str, ...]:
    moves = base is not Base.RESIDENT and not _moves_nothing(settings, components)
    return (UNSYNCHRONISED, *((FIRST_REQUEST,) if is_first else ()), *((MOVED_DOWN,) if moves else ()))


def compute_step_s(dump: PerfDump) -> tuple[float | None, tuple[str, ...]]:
    """Seconds of a steady denoising step, and what had to be assumed for it.

    The median of the steps, which a slower first one does not change. Where the steps leave out much of their stage,
    the device was not waited for in them: then the stage is divided by the number of steps.
    """
    if not dump.steps_s:
        return None, ()
    stage_s = sum(stage.seconds for stage in dump.stages if is_denoising(stage.name))
    covered_s = sum(dump.steps_s)
    if stage_s and covered_s < LEAST_STEP_COVERAGE * stage_s:
        assumed = (
            f"the {len(dump.steps_s)} steps last {covered_s:.2f} s of the {stage_s:.2f} s of their stage, so the host "
            "ran ahead of the device in them: a step is taken as an equal share of the stage"
        )
        return stage_s / len(dump.steps_s), (assumed,)
    return statistics.median(dump.steps_s), ()


def _find_peak(point: MemoryCheckpoint | None) -> ObservedPeak | None:
    """What tensors occupied, which no allocator's habits are in; what was reserved where that alone was noted."""
    if point is None:
        return None
    if point.peak_allocated_bytes is not None:
        return ObservedPeak(size_bytes=point.peak_allocated_bytes, kind=PeakKind.ALLOCATED)
    if point.peak_reserved_bytes is not None:
        return ObservedPeak(size_bytes=point.peak_reserved_bytes, kind=PeakKind.RESERVED)
    return None


def _moves_nothing(settings: Sequence[str], components: Sequence[str]) -> bool:
    """Whether the settings name a mode that moves nothing whole for every component."""
    modes = dict(setting.split("=", 1) for setting in settings if ".mode=" in setting)
    return all(modes.get(f"{name}.mode") in ("resident", "layerwise-offload") for name in components)
