"""What the recorded files hold, line by line: typed, checked when a line is read.

The files and their fields are described in the README of the recordings; ``tests/data`` has copies.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from autotune.conformance.difference import RecordedAction
from autotune.server_default import PerformanceMode
from runtime.plan import Placement
from runtime.residency import Lifetime, Mode, Policy

# Recorded stacks have at most some hundred layers. A damaged count must not make the check run for hours.
_MOST_LAYERS = 10_000
_MOST_PASSES = 10_000
# No card comes near; a damaged figure must not overflow.
_MOST_DEVICE_GIB = 1_000_000

LayerCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MOST_LAYERS)]
StackLength: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=_MOST_LAYERS)]
PassCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=_MOST_PASSES)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Bytes: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
LiveLayers: TypeAlias = dict[str, list[int]]


class Knobs(msgspec.Struct, frozen=True, kw_only=True):
    """The four knobs of a layerwise component."""

    prefetch: StackLength
    resident: LayerCount
    policy: Policy
    lifetime: Lifetime

    def place(self, component: str) -> Placement:
        """``component`` streamed under these knobs."""
        return Placement(
            component=component,
            mode=Mode.LAYERWISE_OFFLOAD,
            prefetch=self.prefetch,
            resident=self.resident,
            policy=self.policy,
            lifetime=self.lifetime,
        )


class ScheduleRecord(Knobs, frozen=True, kw_only=True):
    """One component's layerwise manager: load, two passes, the end of the use, and a pass of the next request."""

    stacks: Annotated[list[StackLength], msgspec.Meta(min_length=1, max_length=26)]
    setup: list[RecordedAction]
    setup_live: LiveLayers
    passes: tuple[list[RecordedAction], list[RecordedAction]]
    live_after_passes: LiveLayers
    finish: list[RecordedAction]
    live_after_finish: LiveLayers
    next_request_first_pass: list[RecordedAction]


class TimedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of a timing case."""

    weight_bytes: Bytes
    compute_s: Seconds


class TimingRecord(Knobs, frozen=True, kw_only=True):
    """The same manager with layers of real sizes, timed on one copy engine and one compute engine."""

    stacks: Annotated[list[Annotated[list[TimedLayer], msgspec.Meta(min_length=1)]], msgspec.Meta(min_length=1)]
    link_bytes_per_s: Annotated[float, msgspec.Meta(gt=0)]
    first_pass_after_load_s: Seconds
    second_pass_s: Seconds
    steady_pass_s: Seconds
    peak_live_bytes: Bytes


class RecordedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a lifecycle case."""

    actions: list[RecordedAction]
    live_idle: LiveLayers


class LifecycleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Load and two whole requests of a pipeline."""

    sizes: dict[str, dict[str, StackLength]]
    knobs: dict[str, Knobs]
    explicit: bool
    transformer_passes: PassCount
    video_vae_passes: PassCount
    live_after_load: LiveLayers
    requests: tuple[RecordedRequest, RecordedRequest]


class FlagComponent(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's option parser made of one component."""

    mode: str | None
    prefetch_value: float
    resident_value: float
    policy: str
    lifetime: str
    counts: dict[int, tuple[int, int]]


class FlagRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One command line, and either what was made of it or how it was refused."""

    argv: list[str]
    components: dict[str, FlagComponent] = {}
    error: str | None = None

    def __post_init__(self) -> None:
        if bool(self.components) == (self.error is not None):
            raise ValueError("a flag case has either `components` or an `error`")


class HostingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One stack, a reading of host memory, and where its layers were put: P pinned, A pageable, M mapped."""

    layer_bytes: Annotated[list[Bytes], msgspec.Meta(min_length=1, max_length=_MOST_LAYERS)]
    mapped_bytes: list[Bytes]
    resident: LayerCount
    policy: Policy
    pin_cpu_memory: bool
    available_for_pins_bytes: Bytes
    available_now_bytes: Bytes
    spendable_pin_bytes: Bytes
    hosting: str
    pinned_bytes: Bytes

    def __post_init__(self) -> None:
        if len(self.mapped_bytes) != len(self.layer_bytes):
            raise ValueError("`mapped_bytes` has not as many layers as `layer_bytes`")


class DefaultComponent(msgspec.Struct, frozen=True, kw_only=True):
    """How the server keeps one component by default; only a streamed one has knobs."""

    mode: str
    prefetch_value: float | None = None
    resident_value: float | None = None
    policy: str | None = None
    lifetime: str | None = None


class DefaultsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A model by its parameter counts, a card, a performance mode, and what the server chose."""

    model: str
    component_parameters: Annotated[dict[str, Bytes], msgspec.Meta(min_length=1)]
    device_total_gib: Annotated[float, msgspec.Meta(ge=0, le=_MOST_DEVICE_GIB)]
    device_free_gib: Annotated[float, msgspec.Meta(ge=0, le=_MOST_DEVICE_GIB)]
    performance_mode: PerformanceMode
    components: dict[str, DefaultComponent]
