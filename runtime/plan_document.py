"""``plan.json``: a plan with its predictions, what they rest on, and the command that made it.

The document stands alone: it can be explained, exported and run without the program that made it. Its layout is
versioned, and unknown versions are refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runtime.documents import DocumentKind, encode_document, replace_file
from runtime.errors import PlanError, UnsupportedError
from runtime.model_spec import ModelSpec, RequestSpec
from runtime.plan import Plan
from runtime.units import MAX_BYTES

FORMAT = "layerstream-plan"
VERSION = 1


def _check_bytes(name: str, size_bytes: int) -> None:
    if not 0 <= size_bytes <= 1024 * MAX_BYTES:
        raise PlanError(f"{name} is {size_bytes} bytes, which nothing takes")


def _check_times(owner: str, **times_s: float) -> None:
    for name, time_s in times_s.items():
        if not (math.isfinite(time_s) and time_s >= 0):
            raise PlanError(f"{owner}: {name} is {time_s}; a time is finite and not negative")


def is_tie(difference_s: float, difference_sd_s: float) -> bool:
    """Whether nobody can say which of two plans is faster: they differ by at most one standard deviation of that."""
    return abs(difference_s) <= difference_sd_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure that a prediction rests on: its value, the unit, and where it comes from."""

    value: float
    unit: str
    source: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0):
            raise PlanError(f"a figure in {self.unit} is {self.value}: it is finite and not negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSummary:
    """The device that was planned for.

    Attributes:
        name: preset name.
        title: what people call it.
        origin: how it was chosen, one sentence.
        memory_bytes, usable_vram_bytes: what the card has, and what one process can use of it.
        figures: every rate and constant that entered the prediction.
        measured: names of those figures that were measured, here or on a device of the same kind.
    """

    name: str
    title: str
    origin: str
    memory_bytes: int
    usable_vram_bytes: int
    figures: dict[str, Figure]
    measured: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if strange := sorted(set(self.measured) - set(self.figures)):
            raise PlanError(f"{self.name}: {', '.join(strange)} cannot be measured figures: there are none")
        if not 0 < self.usable_vram_bytes <= self.memory_bytes <= MAX_BYTES:
            raise PlanError(
                f"{self.name}: usable VRAM is {self.usable_vram_bytes} of {self.memory_bytes} bytes; it must be "
                "positive and at most all"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSummary:
    """The host memory that was planned with, and how it was chosen.

    Attributes:
        memory_bytes: all of it.
        origin: how it was chosen, one sentence.
        available_bytes: what the server can commit before it has loaded weights.
        pins: whether it may pin memory.
        page_cache_bytes: what the page cache keeps of mapped weights, where it was given.
        warnings: what the user should know about this memory.
    """

    memory_bytes: int
    origin: str
    available_bytes: int = 0
    pins: bool = True
    page_cache_bytes: int | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "available_bytes", "page_cache_bytes"):
            _check_bytes(f"host {name}", getattr(self, name) or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapSummary:
    """The VRAM cap: what was asked for (None when nothing was), what was planned with, and why."""

    asked_bytes: int | None
    effective_bytes: int
    reason: str

    def __post_init__(self) -> None:
        _check_bytes("cap", self.effective_bytes)
        _check_bytes("cap that was asked for", self.asked_bytes or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPrediction:
    """Passes of one pass group of a use: how many, the first, the steady one, all together."""

    count: int
    first_s: float
    steady_s: float
    total_s: float

    def __post_init__(self) -> None:
        _check_times("passes", first_s=self.first_s, steady_s=self.steady_s, total_s=self.total_s)
        if self.count < 1:
            raise PlanError(f"{self.count} passes are none")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsePrediction:
    """One use on the time line of a later request.

    ``fill_s`` is what its first layer waited for, ``compute_s`` its compute, ``bound_s`` the proven least that it takes
    under the plan, whatever the schedule.
    """

    component: str
    start_s: float
    end_s: float
    fill_s: float
    compute_s: float
    bound_s: float
    passes: tuple[PassPrediction, ...]

    def __post_init__(self) -> None:
        times = {name: getattr(self, name) for name in ("start_s", "end_s", "fill_s", "compute_s", "bound_s")}
        _check_times(self.component, **times)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePrediction:
    """The most device bytes in one phase of the pipeline's life.

    Attributes:
        phase: ``load``, ``first request: transformer``, ``later request: idle`` and so on.
        live_bytes: what tensors occupy.
        charged_bytes: what counts against the cap (allocator, context, workspaces and what is kept free included).
        streamed_bytes: the part of ``live_bytes`` that is streamed layers, their residents and moved components.
        standing_bytes: the part that is weights which never leave the device.
        activation_bytes: the part that is activations and decoded frames.
        kept_free_bytes: the part of ``charged_bytes`` that nothing is expected to occupy: the reserve, or the margin of
            the peak's quantile; 0 in documents that do not tell it apart.
    """

    phase: str
    live_bytes: int
    charged_bytes: int
    streamed_bytes: int
    standing_bytes: int
    activation_bytes: int
    kept_free_bytes: int = 0

    def __post_init__(self) -> None:
        parts = ("live_bytes", "streamed_bytes", "standing_bytes", "activation_bytes", "kept_free_bytes")
        for name in ("charged_bytes", *parts):
            _check_bytes(f"{self.phase}: {name}", getattr(self, name))

    @property
    def expected_bytes(self) -> int:
        """What the process is expected to take of the card."""
        return self.charged_bytes - self.kept_free_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPrediction:
    """Where the layers of one streamed stack wait on the host.

    Attributes:
        component, stack: names.
        layers: of the stack.
        pinned, pageable, mapped: layers that wait there; permanent residents wait nowhere.
        pinned_bytes, pageable_bytes, mapped_bytes: of these; ``mapped_bytes`` is what is read from the file.
        spendable_bytes: what could be pinned when the stack was hosted.
    """

    component: str
    stack: str
    layers: int
    pinned: int
    pageable: int
    mapped: int
    pinned_bytes: int
    pageable_bytes: int
    mapped_bytes: int
    spendable_bytes: int

    def __post_init__(self) -> None:
        if not (min(self.pinned, self.pageable, self.mapped) >= 0 and self.hosted <= self.layers):
            raise PlanError(f"{self.component}.{self.stack} has more layers on the host than it has layers")
        for name in ("pinned_bytes", "pageable_bytes", "mapped_bytes", "spendable_bytes"):
            _check_bytes(f"{self.component}.{self.stack}: {name}", getattr(self, name))

    @property
    def hosted(self) -> int:
        """Layers that have a host copy or a mapping."""
        return self.pinned + self.pageable + self.mapped


def is_estimate(source: str) -> bool:
    """Whether ``source``, the provenance of a prediction, says that nothing of it was measured."""
    return source.startswith("estimated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is predicted for the plan.

    Attributes:
        source: provenance of all figures here (``estimated`` from datasheet rates, ``measured``, ``calibrated``).
        latency_s: a later request; ``first_latency_s`` is the first one after load.
        compute_s: compute of a request, which no placement can save.
        uses: a later request, use by use.
        phases: device bytes, phase by phase.
        host_bytes: host memory per component that cannot be dropped.
        hosting: where these wait, stack by stack; none for components that do not stream.
        disk_read_bytes: what a later request reads from disk.
        latency_sd_s: standard deviation of ``latency_s``, repeated runs included; None where it is not known.
        latency_low_s, latency_high_s: seconds between which nine cases in ten lie.
        latency_cause: what most of this spread comes from, and how well that is known.
        peak_sd_bytes: standard deviation of the expected bytes of ``peak``; None where it is not known.
        peak_cause: as ``latency_cause``.
        peak_quantile: share of the cases in which no phase takes more than it is charged; None where only a reserve was
            kept free.
    """

    source: str
    latency_s: float
    first_latency_s: float
    compute_s: float
    uses: tuple[UsePrediction, ...]
    phases: tuple[PhasePrediction, ...]
    host_bytes: dict[str, int]
    hosting: tuple[HostPrediction, ...] = ()
    disk_read_bytes: int = 0
    latency_sd_s: float | None = None
    latency_low_s: float | None = None
    latency_high_s: float | None = None
    latency_cause: str = ""
    peak_sd_bytes: int | None = None
    peak_cause: str = ""
    peak_quantile: float | None = None

    def __post_init__(self) -> None:
        _check_bytes("disk reads", self.disk_read_bytes)
        _check_bytes("the peak's standard deviation", self.peak_sd_bytes or 0)
        for name in ("latency_sd_s", "latency_low_s", "latency_high_s"):
            _check_times("a later request", **{name: getattr(self, name) or 0.0})
        if not (self.latency_low_s or 0.0) <= self.latency_s <= (self.latency_high_s or self.latency_s):
            raise PlanError(
                f"latency_s is {self.latency_s}, not between {self.latency_low_s} and {self.latency_high_s}, between "
                "which it is said to lie"
            )
        if self.peak_quantile is not None and not 0 < self.peak_quantile < 1:
            raise PlanError(f"peak_quantile is {self.peak_quantile}: a share between 0 and 1")
        if not self.phases:
            raise PlanError("a prediction needs at least one phase")
        for name in ("latency_s", "first_latency_s", "compute_s"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise PlanError(f"{name} is {getattr(self, name)}: a time is finite and not negative")
        for component, size_bytes in self.host_bytes.items():
            _check_bytes(f"host copy of {component}", size_bytes)

    @property
    def peak(self) -> PhasePrediction:
        """The phase that is charged most."""
        return max(self.phases, key=lambda phase: phase.charged_bytes)

    @property
    def total_host_bytes(self) -> int:
        """Host copies of all components together."""
        return sum(self.host_bytes.values())

    def peak_of(self, component: str) -> PhasePrediction:
        """The phase that is charged most among those in which ``component`` is in use; load if it never is."""
        own = [phase for phase in self.phases if phase.phase.endswith(f": {component}")]
        return max(own or [self.phases[0]], key=lambda phase: phase.charged_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Another plan, or a bound, that the plan is compared with; placements are None for a bound.

    Attributes:
        difference_s: by how much it is slower than the plan; None for the plan itself, and where the spread is unknown.
        difference_sd_s: standard deviation of that, in which errors that both share cancel; repeated runs included.
    """

    name: str
    meaning: str
    latency_s: float
    charged_bytes: int
    fits: bool
    placements: dict[str, str] | None
    difference_s: float | None = None
    difference_sd_s: float | None = None

    def __post_init__(self) -> None:
        _check_times(self.name, latency_s=self.latency_s, difference_sd_s=self.difference_sd_s or 0.0)
        _check_bytes(self.name, self.charged_bytes)
        if not math.isfinite(self.difference_s or 0.0):
            raise PlanError(f"{self.name}: difference_s is {self.difference_s}; a difference of times is finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What a change outside the plan would give: best latency now and after it.

    ``difference_sd_s`` is the standard deviation of their difference, None where it is not known.
    """

    change: str
    now_s: float
    then_s: float
    difference_sd_s: float | None = None

    def __post_init__(self) -> None:
        _check_times(self.change, now_s=self.now_s, then_s=self.then_s, difference_sd_s=self.difference_sd_s or 0.0)

    @property
    def gain_ratio(self) -> float:
        """Share of the latency that the change saves; negative when it costs."""
        return 1 - self.then_s / self.now_s if self.now_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningGain:
    """How much the best placement beats everything streamed in some setting: where tuning pays.

    ``difference_sd_s`` is the standard deviation of their difference, None where it is not known.
    """

    setting: str
    streamed_s: float
    best_s: float
    difference_sd_s: float | None = None

    def __post_init__(self) -> None:
        _check_times(
            self.setting,
            streamed_s=self.streamed_s,
            best_s=self.best_s,
            difference_sd_s=self.difference_sd_s or 0.0,
        )

    @property
    def gain_ratio(self) -> float:
        """Share of the streamed latency that the best placement saves."""
        return 1 - self.best_s / self.streamed_s if self.streamed_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A switch outside the search, and what it would give.

    Attributes:
        switch: what to type, or what it is where this program has no option for it.
        same_output: whether the output stays the same, bit for bit.
        now_s, then_s: fastest plan without and with it, found with the same effort; None for what is not modelled.
        charged_bytes: what the plan with it would be charged; None for what is not modelled.
        flags: tokens that the server's command line needs for it.
        note: what it is, one sentence.
    """

    switch: str
    same_output: bool
    now_s: float | None = None
    then_s: float | None = None
    charged_bytes: int | None = None
    flags: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if not self.switch:
            raise PlanError("an advice names its switch")
        figures = (self.now_s, self.then_s, self.charged_bytes)
        if figures == (None, None, None):
            return
        if None in figures:
            raise PlanError(f"{self.switch}: times and bytes are known together or not at all")
        for time_s in (self.now_s, self.then_s):
            if time_s is None or not (math.isfinite(time_s) and time_s >= 0):
                raise PlanError(f"{self.switch}: {time_s} s is no time, which is finite and not negative")
        _check_bytes(self.switch, self.charged_bytes or 0)

    @property
    def gain_ratio(self) -> float | None:
        """Share of the latency that the switch saves, negative when it costs; None for what is not modelled."""
        if self.now_s is None or self.then_s is None:
            return None
        return 1 - self.then_s / self.now_s if self.now_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """Everything about one plan.

    Attributes:
        created: ISO 8601 time with offset.
        program: name and version of what wrote it.
        command: the exact command.
        model, request, workload, device, host, cap: what was planned for.
        plan, prediction: the decision and what it is expected to do.
        findings: conclusions, the most important first.
        comparisons, what_ifs, tuning_gains: what the findings rest on.
        assumptions: what was assumed; not_modelled: what the figures leave out.
        profile_id: digest of the facts that the prediction used.
        variant: in which of its catalog's other ways the model runs; empty for as released.
        advice: switches outside the search, with what each would give.
        tp_size: ranks of tensor parallelism; model, cap and prediction are of one of them, ``host`` is of all.
    """

    format: Literal["layerstream-plan"] = "layerstream-plan"
    version: Literal[1] = 1
    created: str
    program: str
    command: str
    workload: dict[str, int | str]
    device: DeviceSummary
    host: HostSummary
    cap: CapSummary
    plan: Plan
    prediction: Prediction
    findings: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    what_ifs: tuple[WhatIf, ...]
    tuning_gains: tuple[TuningGain, ...]
    assumptions: tuple[str, ...]
    not_modelled: tuple[str, ...]
    profile_id: str
    model: ModelSpec
    request: RequestSpec
    variant: str = ""
    advice: tuple[Advice, ...] = ()
    tp_size: int = 1

    def __post_init__(self) -> None:
        if self.tp_size < 1:
            raise PlanError(f"tp_size is {self.tp_size}: at least one rank runs a plan")
        self.plan.check_fits_model(self.model)
        self.request.check_fits_model(self.model)
        counts = ("width", "height", "frames", "steps", "prompt_tokens", "batch")
        bad = [name for name in counts if not isinstance(self.workload.get(name), int) or int(self.workload[name]) < 1]
        if bad or not isinstance(self.workload.get("recipe"), str):
            raise PlanError(f"the workload lacks {', '.join(bad or ['recipe'])}")
        if not re.fullmatch(r"[a-z]+(@[0-9.]+)?", self.plan.engine):
            raise PlanError(f"{self.plan.engine!r} is no engine's name")


PLAN_KIND = DocumentKind(
    noun="plan",
    format=FORMAT,
    version=VERSION,
    holds=PlanDocument,
    error=PlanError,
    remedy="make the plan again with autotune search",
)


def check_one_card(document: PlanDocument) -> None:
    """Refuse to execute a plan of several cards.

    Raises:
        UnsupportedError: it is one.
    """
    if document.tp_size > 1:
        raise UnsupportedError(
            f"the plan is for {document.tp_size} GPUs in tensor parallel (--tp-size), and plans are executed on one: "
            "export it to a server (autotune export), or plan without --tp-size"
        )


def load_plan(path: str | Path) -> PlanDocument:
    """Read ``plan.json``.

    Raises:
        PlanError: the file cannot be read, is not a plan, or is of a version that this program does not know.
    """
    return PLAN_KIND.load(path)


def save_plan(document: PlanDocument, path: str | Path) -> None:
    """Write ``document``; an existing file is replaced whole or not at all.

    Raises:
        PlanError: the file cannot be written.
    """
    try:
        replace_file(path, encode_document(document))
    except OSError as error:
        raise PlanError(f"cannot write the plan {path}: {error.strerror or error}") from error
