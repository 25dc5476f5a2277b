"""A record of one run folder with something in every part: what pictures, tables and pages are made from."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

from builders import ToyComponent, build_plan, build_stack, moved, streamed
from execution_builders import build_run

from autotune.workflows.emulated_execution import execute_emulated
from autotune.workflows.measurement_record import build_measurement
from autotune.workflows.run_settings import Emulation, Rounds
from reports.run_data import (
    CurvePoint,
    HostPoint,
    LayerStall,
    MemoryPhase,
    Owner,
    PassWindow,
    RunData,
    TrialRow,
)
from runtime.plan_document import Comparison, TuningGain, WhatIf
from runtime.timeline import Lane, LiveBytes, Repeats, Span, Stall, Timeline
from runtime.units import GIB

PLACEMENTS = {"text_encoder": "component-offload", "transformer": "layerwise-offload P=1 r=1 leading forward"}
SCRIPT = "#!/usr/bin/env bash\n# toy on a toy card\nexec sglang serve --model-path toy\n"


def build_run_data(**changes):
    """A toy run of a text encoder that is moved and a transformer that streams three of its four layers."""
    return replace(
        RunData(
            name="toy-run",
            plan=build_document(),
            serve_script=SCRIPT,
            curve=_build_curve(),
            host_curve=_build_host_curve(),
            trials=_build_trials(),
            timeline=_build_timeline(),
            windows=(
                PassWindow(title="first pass", component="transformer", start_s=0.01, end_s=0.034),
                PassWindow(title="steady pass", component="transformer", start_s=0.034, end_s=0.052),
            ),
            memory=(
                _build_phase("load", 0.0, {"transformer": GIB}, 0),
                _build_phase("later request: text_encoder", 0.01, {"text_encoder": 2 * GIB, "transformer": GIB}, GIB),
                _build_phase("later request: transformer", 0.06, {"transformer": 3 * GIB}, 2 * GIB),
            ),
            stalls=(
                LayerStall(component="transformer", stack="blocks", layer=1, stall_s=0.012),
                LayerStall(component="transformer", stack="blocks", layer=3, stall_s=0.012),
            ),
            measurement=build_toy_measurement(),
        ),
        **changes,
    )


def build_document(**changes):
    """A plan document of the toy run with findings and everything that it is compared with."""
    document, _ = _plan_toy()
    latency_s = document.prediction.latency_s
    charged_bytes = document.prediction.peak.charged_bytes
    kept = {
        "findings": ("Tuning pays: one layer stays", "Of a request most is waiting for copies"),
        "comparisons": tuple(
            Comparison(
                name=name, meaning=f"{name}, in words", placements=None, fits=fits, latency_s=s, charged_bytes=size
            )
            for name, s, size, fits in (
                ("plan", latency_s, charged_bytes, True),
                ("optimum", latency_s * 0.998, charged_bytes + 1000, True),
                ("server default", latency_s * 1.3, charged_bytes - 2000, True),
                ("streamed", latency_s * 1.3, charged_bytes - 2000, True),
                ("everything resident", latency_s * 0.4, charged_bytes + 9000, False),
            )
        ),
        "what_ifs": (
            WhatIf(change="2 GiB more VRAM", now_s=latency_s, then_s=latency_s * 0.9),
            WhatIf(change="half the steps", now_s=latency_s, then_s=latency_s * 0.6),
        ),
        "tuning_gains": (TuningGain(setting="64x64 in 2 steps", streamed_s=latency_s, best_s=latency_s * 0.7),),
        "assumptions": ("the toy card keeps its clock",),
    }
    return replace(document, **(kept | changes))


@cache
def build_toy_measurement():
    """What three requests of the toy run take on an emulated card's virtual clock."""
    document, profile = _plan_toy()
    rounds = Rounds(warmup=1, repeats=3)
    execution = execute_emulated(document, profile, Emulation(clock="virtual"), rounds, seed=5)
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return build_measurement(document, execution, rounds, seed=5, command="autotune run plan.json", created=created)


@cache
def _plan_toy():
    components = {
        "text_encoder": ToyComponent(stacks={"layers": build_stack(2)}),
        "transformer": ToyComponent(stacks={"blocks": build_stack(4, passes=3)}, is_dit=True),
    }
    return build_run(components, build_plan(moved("text_encoder"), streamed(resident=1)))


def _build_curve():
    return tuple(
        CurvePoint(charged_bytes=size * GIB, latency_s=latency_s, fits=size <= 6, placements=PLACEMENTS)
        for size, latency_s in ((3, 0.11), (4, 0.09), (6, 0.085), (8, 0.06))
    )


def _build_host_curve():
    times_s = ((16, None), (32, 0.2), (64, 0.1), (128, 0.09))
    return tuple(
        HostPoint(
            host_bytes=size * GIB,
            latency_s=latency_s,
            charged_bytes=None if latency_s is None else 4 * GIB,
            disk_read_bytes=GIB if size == 32 else 0,
            is_own=size == 64,
        )
        for size, latency_s in times_s
    )


def _build_trials():
    times_s = (0.12, 0.09, None, 0.1)
    return tuple(
        TrialRow(
            run="this",
            number=number,
            origin="exact optimum" if number == 0 else "sampler",
            feasible=latency_s is not None,
            latency_s=latency_s,
            charged_bytes=None if latency_s is None else 4 * GIB,
            failure="" if latency_s is not None else "out of memory",
            placements=PLACEMENTS,
        )
        for number, latency_s in enumerate(times_s)
    )


def _build_phase(phase, seconds, by_component, activation_bytes):
    return MemoryPhase(
        phase=phase,
        seconds=seconds,
        by_component=by_component,
        parts={
            Owner.STANDING: GIB // 2,
            Owner.STREAMED: sum(by_component.values()),
            Owner.ACTIVATIONS: activation_bytes,
            Owner.OVERHEAD: GIB,
            Owner.RESERVE: GIB // 2,
        },
    )


def _build_timeline():
    """The encoder up and run; then a first pass of four layers, and a steady one that stands for two."""
    spans = [
        Span(lane=Lane.H2D, start_s=0.0, end_s=0.004, component="text_encoder"),
        Span(lane=Lane.COMPUTE, start_s=0.004, end_s=0.010, component="text_encoder"),
    ]
    stalls = [Stall(start_s=0.0, end_s=0.004, component="text_encoder")]
    for start_s, wait_s in ((0.010, 0.006), (0.034, 0.003)):
        at_s = start_s
        for layer in range(4):
            place = {"component": "transformer", "stack": "blocks", "layer": layer}
            waited_s = wait_s if layer in (1, 3) else 0.0
            if layer:
                spans.append(Span(lane=Lane.H2D, start_s=at_s, end_s=at_s + 0.003 + waited_s / 2, **place))
            if waited_s:
                stalls.append(Stall(start_s=at_s, end_s=at_s + waited_s, **place))
            spans.append(Span(lane=Lane.COMPUTE, start_s=at_s + waited_s, end_s=at_s + waited_s + 0.003, **place))
            at_s += waited_s + 0.003
    return Timeline(
        spans=tuple(spans),
        stalls=tuple(stalls),
        repeats=(Repeats(at_s=0.052, period_s=0.018, times=1),),
        live=(LiveBytes(at_s=0.0, by_component={"text_encoder": 2 * GIB}),),
    )
