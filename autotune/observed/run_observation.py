"""Turns what the server wrote about a request into an observation. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autotune.catalog.registry import find_model
from autotune.observed.observation import (
    Base,
    Observation,
    ObservedLatency,
    ObservedPeak,
    PeakKind,
    Scope,
    Setup,
)
from autotune.observed.perf_dump import MemoryCheckpoint, PerfDump
from autotune.observed.stage_components import is_denoising, list_denoisers, sum_uses

# Steps that leave out a tenth of their stage were not timed by the device: the host ran ahead and waited later.
LEAST_STEP_COVERAGE = 0.9

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
    settings: tuple[str, ...] = (),
    base: Base = Base.STREAMED,
    peak_kind: PeakKind = PeakKind.ALLOCATED,
) -> Observation:
    """One dumped request as an observation.

    Args:
        dump: what the server wrote.
        setup: model, device and request, which a dump does not say.
        name: what to call it.
        settings: ``component.knob=value`` of the run; a dump does not say these either.
        base: where everything else was.
        peak_kind: ``ALLOCATED`` or ``RESERVED``, of which a dump has both.

    Raises:
        InputError: an unknown model, or nothing in the dump is a latency or a peak of the wanted kind.
    """
    components = tuple(find_model(setup.model).configs)
    step, assumed = compute_step_s(dump)
    denoisers = "+".join(list_denoisers(components))
    latencies = [
        ObservedLatency(seconds=seconds, scope=Scope.USE, component="+".join(names))
        for names, seconds in sum_uses(dump.stages, components).items()
    ]
    if step is not None and denoisers:
        latencies.append(ObservedLatency(seconds=step, scope=Scope.STEP, component=denoisers))
    if dump.total_s is not None:
        latencies.append(ObservedLatency(seconds=dump.total_s, scope=Scope.REQUEST))
    caveats = [UNSYNCHRONISED]
    if dump.tag == "cli_generate":
        caveats.append(FIRST_REQUEST)
    if base is not Base.RESIDENT and not _all_streamed(settings, components):
        caveats.append(MOVED_DOWN)
    return Observation(
        name=name,
        where=dump.where,
        setup=setup,
        settings=settings,
        base=base,
        latencies=tuple(latencies),
        peak=_find_peak(dump.request_peak, peak_kind),
        assumed=assumed,
        caveats=tuple(caveats),
    )


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


def _find_peak(point: MemoryCheckpoint | None, kind: PeakKind) -> ObservedPeak | None:
    if point is None:
        return None
    size = point.peak_allocated_bytes if kind is PeakKind.ALLOCATED else point.peak_reserved_bytes
    return None if size is None else ObservedPeak(size_bytes=size, kind=kind)


def _all_streamed(settings: Sequence[str], components: Sequence[str]) -> bool:
    """Whether the settings name a mode that moves nothing whole for every component."""
    modes = dict(setting.split("=", 1) for setting in settings if ".mode=" in setting)
    return all(modes.get(f"{name}.mode") in ("resident", "layerwise-offload") for name in components)
