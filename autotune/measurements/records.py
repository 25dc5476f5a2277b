"""What was measured, one record per measurement, as the journal and the profiles keep it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeVar

from autotune.measurements.timing import Timing
from runtime.errors import ProfileError
from runtime.units import MAX_BYTES

Outcome = Literal["measured", "out_of_memory", "failed", "skipped"]

AROUND = "(around)"
"""Name of what a component's run computes in no layer and in no part that holds weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How the device ran when something had been timed; None where it does not say.

    Attributes:
        sm_clock_mhz, memory_clock_mhz, temperature_c: of a card.
        throttle_reasons: why it ran below its clock, as the driver names them; empty where it did not.
    """

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    throttle_reasons: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceRecord:
    """One piece of a component that was run by itself: a layer, a part outside the stacks, or what is around both.

    Attributes:
        key: identifies what was run: class, weights and input shapes; not where or when.
        component: the server's name.
        name: the first place where the piece occurs (``blocks[0]``, ``time_embedder``, ``(around)``).
        class_name: of the module.
        inputs: shapes and dtypes of the tensors it was called with (``bfloat16[1, 4096, 3072]``).
        weight_bytes: of its parameters and buffers, as they were on the device.
        outcome: ``out_of_memory`` and ``failed`` are facts, with their reason in ``note``; ``skipped`` was not tried.
        timing: one call; None unless it was measured.
        rise_bytes: the most that a call allocates beyond its inputs and weights, results included.
        flops, moved_bytes: operations and bytes of one call as counted on the meta device, to judge the time by.
        note: why it was not measured, or what limits the figure.
        conditions: of the device afterwards.
        disturbances: why the timing may be off, one sentence each.
        measured_at: when, ISO 8601 in UTC.
    """

    key: str
    component: str
    name: str
    class_name: str
    inputs: tuple[str, ...]
    weight_bytes: int
    outcome: Outcome
    timing: Timing | None = None
    rise_bytes: int | None = None
    flops: float = 0.0
    moved_bytes: float = 0.0
    note: str = ""
    conditions: Conditions = Conditions()
    disturbances: tuple[str, ...] = ()
    measured_at: str = ""

    def __post_init__(self) -> None:
        if (self.outcome == "measured") != (self.timing is not None):
            raise ProfileError(f"{self.component} {self.name} is {self.outcome}: it has a timing if it was measured")
        for name in ("weight_bytes", "rise_bytes"):
            _check_bytes(f"{self.component} {self.name}: {name}", getattr(self, name))


LinkKind = Literal["pinned_h2d", "pageable_h2d", "d2h", "duplex_h2d", "duplex_d2h", "page_cache_read", "disk_read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord:
    """Copies of one size over one link.

    Attributes:
        kind: host to device from pinned or pageable memory, to pinned host memory, either while the other is busy too
            (``duplex``), or a read of a mapped file into pinned memory from the page cache or from disk.
        size_bytes: of one copy.
        timing: of one copy.
        is_layer_size: whether some layer of the model has this size; else it belongs to the sweep.
        note: what limits the figure.
        conditions, disturbances, measured_at: as of ``PieceRecord``.
    """

    kind: LinkKind
    size_bytes: int
    timing: Timing
    is_layer_size: bool = False
    note: str = ""
    conditions: Conditions = Conditions()
    disturbances: tuple[str, ...] = ()
    measured_at: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.size_bytes <= MAX_BYTES:
            raise ProfileError(
                f"a {self.kind} of {self.size_bytes} bytes is none: a copy moves between 1 byte and 2^60"
            )

    @property
    def bytes_per_s(self) -> float:
        """Rate of one copy; infinite where it takes no time."""
        return self.size_bytes / self.timing.median_s if self.timing.median_s else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class InterferenceRecord:
    """What compute and host-to-device copies do to each other, each beside itself alone.

    Attributes:
        load: what computed (``H3 transformer blocks[0]``), and what was copied.
        compute_alone, compute_under_copies: one run of the load, without and with copies on their way all the time.
        copy_alone, copy_under_compute: one copy, without and with compute running all the time.
        conditions, disturbances, measured_at: as of ``PieceRecord``.
    """

    load: str
    compute_alone: Timing
    compute_under_copies: Timing
    copy_alone: Timing
    copy_under_compute: Timing
    conditions: Conditions = Conditions()
    disturbances: tuple[str, ...] = ()
    measured_at: str = ""

    @property
    def compute_slowdown_ratio(self) -> float:
        """How much longer compute takes while copies run, as a share; never negative."""
        return _slowdown_ratio(self.compute_alone, self.compute_under_copies)

    @property
    def copy_slowdown_ratio(self) -> float:
        """How much longer a copy takes while compute runs, as a share; never negative."""
        return _slowdown_ratio(self.copy_alone, self.copy_under_compute)


Record = PieceRecord | LinkRecord | InterferenceRecord
Held = TypeVar("Held", PieceRecord, LinkRecord, InterferenceRecord)
"""One kind of record, for those who keep all kinds."""


def _slowdown_ratio(alone: Timing, loaded: Timing) -> float:
    return max(0.0, loaded.median_s / alone.median_s - 1.0) if alone.median_s else 0.0


def _check_bytes(name: str, size_bytes: int | None) -> None:
    if size_bytes is not None and not 0 <= size_bytes <= MAX_BYTES:
        raise ProfileError(f"{name} is {size_bytes}: bytes lie between 0 and 2^60")
