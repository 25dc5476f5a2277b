"""What one observed run was and what was measured of it, in this program's words. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from autotune.workload import Workload
from runtime.errors import InputError
from runtime.units import MAX_BYTES

_LONGEST_S = 1e7  # four months

REQUEST_NOT_SHOWN = "the source does not show the request"
"""How the assumption begins that is made of such a run."""


class PeakKind(StrEnum):
    """Who counted the device memory of a run, and so what is in it."""

    ALLOCATED = "allocated"
    """What tensors occupy (torch's ``max_memory_allocated``)."""
    RESERVED = "reserved"
    """What torch's allocator held (``max_memory_reserved``)."""
    DRIVER = "driver"
    """What the driver counted on the card (``nvidia-smi``), contexts included."""
    ACTIVATIONS = "activations"
    """What torch had allocated while one component ran alone: activations, and its weights.

    Public figures of a decoder grow with its pixels from 0.24 GiB on (PM302, PM304, PM306), which is its weights."""
    UNSTATED = "unstated"
    """Nobody said; compared as ``RESERVED``, which is what servers report."""


class Scope(StrEnum):
    """The part of a request that a latency is of."""

    REQUEST = "request"
    """From the start to the end of a later request."""
    USE = "use"
    """One component's work in a request, without the return of weights to the host after it."""
    STEP = "step"
    """One denoising step: as many passes of the component as the model makes in one."""
    MOVE_DOWN = "move down"
    """The return of a component's weights to the host."""


class Base(StrEnum):
    """The placement of what the settings of a run do not name."""

    STREAMED = "streamed"
    """Everything with layers streams with the server's default knobs; what it keeps resident by default stays so."""
    SERVER_DEFAULT = "server default"
    """What the server chooses by itself on that card."""
    RESIDENT = "resident"
    """Every component resident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLatency:
    """Seconds that part of a run took.

    Attributes:
        seconds: what was observed; the middle where a range was.
        scope: the part.
        component: whose use, step or move it is; empty for a request. ``a+b`` sums the uses of several.
    """

    seconds: float
    scope: Scope
    component: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and 0 < self.seconds <= _LONGEST_S):
            raise InputError(f"a latency is {self.seconds} s: it must be positive and at most {_LONGEST_S:g} s")
        if (self.scope is Scope.REQUEST) == bool(self.component):
            raise InputError(f"a latency of a {self.scope} names {self.component or 'no component'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPeak:
    """The most device memory of a run; ``component`` is set for ``PeakKind.ACTIVATIONS`` alone."""

    size_bytes: int
    kind: PeakKind
    component: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.size_bytes <= MAX_BYTES:
            raise InputError(f"a peak is {self.size_bytes} bytes: it must be positive and at most 2^60")
        if (self.kind is PeakKind.ACTIVATIONS) != bool(self.component):
            raise InputError(f"a peak of {self.kind} names {self.component or 'no component'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Where and how a run was made, apart from its placements; runs of one set-up differ only in these.

    Attributes:
        model: name of a catalog model.
        variant: one of its variants; empty for as released.
        device: name of a preset.
        workload: the request.
        forwards_per_step: forwards of the denoiser in one step where it differs from the model's own; None where not.
        host_bytes: memory of the host; None where ample or unknown.
        pins: whether the server could pin memory.
        tp_size: ranks of tensor parallelism.
        server: name and version of what ran, or its date, as far as stated.
    """

    model: str
    variant: str = ""
    device: str
    workload: Workload
    forwards_per_step: int | None = None
    host_bytes: int | None = None
    pins: bool = True
    tp_size: int = 1
    server: str = ""

    def __post_init__(self) -> None:
        if self.tp_size < 1:
            raise InputError(f"tp_size is {self.tp_size}: at least one rank runs")
        if self.forwards_per_step is not None and not 1 <= self.forwards_per_step <= 4:
            raise InputError(f"forwards_per_step is {self.forwards_per_step}: it lies between 1 and 4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One observed run.

    Attributes:
        name: what people call it, such as its row's id.
        where: file and line or row that it was read from.
        setup: what it shares with runs that differ only in placements.
        settings: ``component.knob=value``, as typed behind ``--set``; they change the plan of ``base``.
        base: where everything else was.
        latencies: what was timed; none where nothing was.
        peak: device memory; None where it was not observed.
        ran_out: whether it ran out of device memory; ``peak`` is then what it had when it did.
        cap_bytes: what the allocator was allowed where that is less than the card gives; None for all of it.
        assumed: what the source did not say and was taken from elsewhere, one sentence each.
        caveats: why it may differ from what the simulated engine does (an older server, a sampled peak), one each.
    """

    name: str
    where: str
    setup: Setup
    settings: tuple[str, ...] = ()
    base: Base = Base.STREAMED
    latencies: tuple[ObservedLatency, ...] = ()
    peak: ObservedPeak | None = None
    ran_out: bool = False
    cap_bytes: int | None = None
    assumed: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.latencies and self.peak is None and not self.ran_out:
            raise InputError(f"{self.name}: neither a latency nor a peak was observed")


class Reason(StrEnum):
    """Why a row cannot be compared with a prediction; each kind is counted apart."""

    UNREADABLE = "unreadable"
    NO_FIGURE = "no figure"
    NO_WORKLOAD = "no workload"
    UNKNOWN_DEVICE = "unknown device"
    UNKNOWN_MODEL = "unknown model"
    OTHER_ENGINE = "another engine"
    SEVERAL_GPUS = "several GPUs"
    QUANTISED = "quantised"
    NOT_EXPRESSIBLE = "not expressible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A row that cannot be compared, and why, in a sentence that says what would help."""

    name: str
    where: str
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRuns:
    """Everything that one or more sources hold: what can be compared and what cannot."""

    observations: tuple[Observation, ...] = ()
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: ObservedRuns) -> ObservedRuns:
        return ObservedRuns(
            observations=self.observations + other.observations,
            refused=self.refused + other.refused,
            notes=self.notes + other.notes,
        )
