"""Compared figures, and observed toy runs whose figures are known."""

from dataclasses import replace

from builders import build_plan, kept, streamed
from calibration_builders import build_ground, build_observation

from autotune.fidelity.case import Case
from autotune.fidelity.comparison import ComparedFigure, Kind
from autotune.observed.observation import ObservedLatency, ObservedPeak, PeakKind, Scope
from runtime.plan import Placement
from runtime.residency import Mode

MOVED = Placement(component="transformer", mode=Mode.COMPONENT_OFFLOAD)


def build_figure(run="run", **changes):
    """A latency of 10 s of the transformer that is predicted as 12 s."""
    default = ComparedFigure(
        run=run,
        where=f"toy.csv, {run}",
        family="toy, card",
        kind=Kind.LATENCY,
        what="use of transformer",
        components=("transformer",),
        tp_size=1,
        observed=10.0,
        predicted=12.0,
        low=9.0,
        high=15.0,
    )
    return replace(default, **changes)


def place(transformer):
    """A plan of the toy model in which only the transformer's placement differs."""
    return build_plan(streamed("text_encoder"), transformer, kept("vae"))


def build_case(name="run", transformer=None, *, ground=None, seconds=1.0, peak=None, scope=Scope.USE, **changes):
    """A toy run with one timed use of its transformer, everything streamed unless ``transformer`` says otherwise."""
    ground = ground or build_ground()
    component = "" if scope is Scope.REQUEST else "transformer"
    latency = ObservedLatency(seconds=seconds, scope=scope, component=component)
    observation = build_observation(ground, name, latencies=(latency,), peak=peak)
    return Case(replace(observation, **changes), place(transformer or streamed("transformer")), ground)


def peak_of(size_bytes, kind=PeakKind.RESERVED):
    """A counted peak."""
    return ObservedPeak(size_bytes=size_bytes, kind=kind)
