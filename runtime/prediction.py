"""What is predicted for a plan: times use by use, device bytes phase by phase, and where layers wait on the host."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runtime.document_checks import check_bytes, check_times
from runtime.errors import PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPrediction:
    """Passes of one pass group of a use: how many, the first, the steady one, all together."""

    count: int
    first_s: float
    steady_s: float
    total_s: float

    def __post_init__(self) -> None:
        check_times("passes", first_s=self.first_s, steady_s=self.steady_s, total_s=self.total_s)
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
        check_times(self.component, **times)


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
            check_bytes(f"{self.phase}: {name}", getattr(self, name))

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
            check_bytes(f"{self.component}.{self.stack}: {name}", getattr(self, name))

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
        check_bytes("disk reads", self.disk_read_bytes)
        check_bytes("the peak's standard deviation", self.peak_sd_bytes or 0)
        for name in ("latency_sd_s", "latency_low_s", "latency_high_s"):
            check_times("a later request", **{name: getattr(self, name) or 0.0})
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
            check_bytes(f"host copy of {component}", size_bytes)

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
