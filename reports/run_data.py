"""Everything that pictures, tables and pages of one run are made from: one record, so that all of them agree.

Who collects it (``autotune.workflows.run_collection``) reads the files of a run folder and replays its plan; who
renders it computes no figure of its own beyond units, differences and shares of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from runtime.measurement_document import MeasurementDocument
from runtime.plan_document import PlanDocument
from runtime.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One corner of the trade-off curve: the least latency for an amount of device memory (``pareto.csv``)."""

    charged_bytes: int
    latency_s: float
    fits: bool
    placements: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPoint:
    """The best plan on a host with less or more memory, under the run's own VRAM cap (``host.csv``).

    Attributes:
        host_bytes: memory of the host.
        latency_s: of the best plan; None where nothing fits.
        charged_bytes: device memory of that plan; None where nothing fits.
        disk_read_bytes: what it reads from disk in a later request.
        is_own: whether it is the run's own host.
    """

    host_bytes: int
    latency_s: float | None
    charged_bytes: int | None
    disk_read_bytes: int
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """One trial of the Optuna study (``trials.csv``); None where it failed."""

    run: str
    number: int
    origin: str
    feasible: bool
    latency_s: float | None
    charged_bytes: int | None
    failure: str
    placements: Mapping[str, str]


class Owner(StrEnum):
    """What device memory is charged for."""

    STANDING = "non-layer weights and resident components"
    STREAMED = "streamed layers"
    ACTIVATIONS = "activations and frames"
    OVERHEAD = "context, workspaces, allocator"
    RESERVE = "reserve"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPhase:
    """Device memory in one phase of the life at its peak, by owner; parts sum to what is charged.

    Attributes:
        phase: its name, as in the plan's prediction.
        seconds: how long it lasts; 0 for phases that take no time of a request.
        by_component: streamed layers and moved components, component by component, at that peak.
        parts: bytes of every owner; ``STREAMED`` is the sum of ``by_component``.
    """

    phase: str
    seconds: float
    by_component: Mapping[str, int]
    parts: Mapping[Owner, int]

    @property
    def charged_bytes(self) -> int:
        """All of it."""
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class PassWindow:
    """One pass of the component that takes most of a request, on the timeline.

    Attributes:
        title: ``first pass`` or ``steady pass``.
        component: whose pass.
        start_s, end_s: on the timeline.
    """

    title: str
    component: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerStall:
    """Time for which compute waited for one layer in a later request, repeated passes counted as often as they run.

    What the first layer of a pass waits for, the end of all copies of its stack, counts as that layer's. ``stack`` and
    ``layer`` are None for waits for a whole component: its moves, and its copies at the end of a use.
    """

    component: str
    stack: str | None
    layer: int | None
    stall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something that a run folder does not give.

    Attributes:
        file: the file's name.
        problem: what is wrong with it or missing, one sentence.
        lost: which parts of a report that leaves out.
    """

    file: str
    problem: str
    lost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """One run folder; parts that are not there are empty or None, and named in ``gaps``.

    Attributes:
        name: what the run is called in pictures and tables: its folder.
        plan: decision and predictions.
        serve_script: what starts the server with the plan (``serve.sh``); empty where the folder has none.
        curve, host_curve, trials: as their records say.
        timeline: a later request under the plan.
        windows: a first and a steady pass on it.
        memory: the life of the pipeline, phase by phase.
        stalls: by layer; only layers that were waited for.
        measurement: what an execution of the plan took.
        gaps: what could not be read.
    """

    name: str
    plan: PlanDocument | None = None
    serve_script: str = ""
    curve: tuple[CurvePoint, ...] = ()
    host_curve: tuple[HostPoint, ...] = ()
    trials: tuple[TrialRow, ...] = ()
    timeline: Timeline | None = None
    windows: tuple[PassWindow, ...] = ()
    memory: tuple[MemoryPhase, ...] = ()
    stalls: tuple[LayerStall, ...] = ()
    measurement: MeasurementDocument | None = None
    gaps: tuple[Gap, ...] = ()
