"""``measurement.json``: what executing a plan measured, beside what was predicted for it.

The document stands alone and says how it was measured. Its layout is versioned, and unknown versions are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runtime.documents import DocumentKind, encode_document, replace_file
from runtime.errors import InputError
from runtime.time_spread import Spread, check_times
from runtime.units import MAX_BYTES

FORMAT = "layerstream-measurement"
VERSION = 1
FILE_NAME = "measurement.json"


def _check_bytes(owner: str, *sizes: int) -> None:
    for size_bytes in sizes:
        if not 0 <= size_bytes <= 1024 * MAX_BYTES:
            raise InputError(f"{owner}: {size_bytes} bytes are more, or less, than anything takes")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPasses:
    """Passes of one pass group of a use: how many, and the steady one; None where too few were made to settle.

    ``group`` is its position in the request's use, -1 for traversals that the request does not name.
    """

    group: int
    count: int
    steady: Spread | None

    def __post_init__(self) -> None:
        if self.count < 1 or self.group < -1:
            raise InputError(f"{self.count} passes of group {self.group}: groups are counted from 0, passes from 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUse:
    """One use of the later requests that count.

    Attributes:
        component, title: as in the plan.
        first_s: the same use in the first request after load.
        time, fill, stall: of the whole use; before its first layer, and other waits of compute for copies.
        hidden, exposed: copies while compute did not wait for any, and while it did.
        passes: one per pass group.
        copied_bytes: moved in the use, by kind of copy.
        binding: what bound it: ``compute``, ``link``, ``read``, ``host`` or ``none``.
    """

    component: str
    title: str
    first_s: float
    time: Spread
    fill: Spread
    stall: Spread
    hidden: Spread
    exposed: Spread
    passes: tuple[MeasuredPasses, ...]
    copied_bytes: dict[str, int]
    binding: Literal["compute", "link", "read", "host", "none"]

    def __post_init__(self) -> None:
        check_times(self.title, self.first_s)
        _check_bytes(self.title, *self.copied_bytes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredComponent:
    """All uses of one component in a request, together: their time, and how many they are."""

    component: str
    uses: int
    time: Spread

    def __post_init__(self) -> None:
        if self.uses < 1:
            raise InputError(f"{self.component}: {self.uses} uses are none")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPhase:
    """Device bytes at the peaks of one phase, over all requests that had it; names as in a plan's prediction.

    ``reserved_bytes`` is what the allocator held at the most; None where there is none to ask.
    """

    phase: str
    weight_bytes: int
    activation_bytes: int
    total_bytes: int
    reserved_bytes: int | None

    def __post_init__(self) -> None:
        sizes = (self.weight_bytes, self.activation_bytes, self.total_bytes, self.reserved_bytes or 0)
        _check_bytes(self.phase, *sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredHost:
    """Host memory of everything that was attached; see ``runtime.host_store.HostUse``."""

    pinned_bytes: int
    pageable_bytes: int
    mapped_bytes: int
    courier_bytes: int
    requested_pin_bytes: int
    refused_pins: tuple[str, ...]
    peak_attach_bytes: int
    pinning: str

    def __post_init__(self) -> None:
        sizes = (self.pinned_bytes, self.pageable_bytes, self.mapped_bytes, self.courier_bytes)
        _check_bytes("host memory", *sizes, self.requested_pin_bytes, self.peak_attach_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One quantity, predicted and measured; ``ratio`` is measured over predicted, None where nothing was predicted."""

    quantity: str
    unit: Literal["s", "bytes"]
    predicted: float
    measured: float
    ratio: float | None

    def __post_init__(self) -> None:
        check_times(self.quantity, self.predicted, self.measured, self.ratio or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementDocument:
    """Everything about one execution of a plan.

    Attributes:
        created: ISO 8601 time with offset.
        program, command: what measured, and the exact command.
        model, variant, workload, profile_id, engine, placements: of the plan.
        device, device_title: name and title of what executed.
        is_emulated: whether all times are those of an emulated device.
        clock: where times are from: ``device`` events, or the ``real`` or ``virtual`` clock of an emulated device.
        byte_scale: as how many bytes each real byte counted.
        time_scale: wall seconds per second of this document on a ``real`` clock; else None.
        software: versions by package.
        seed: of weights and inputs.
        warmup: requests that did not count, the first one after load among them; repeats: those that did.
        latency: of the later requests that count; first_latency_s: of the first one.
        uses: in order.
        components: the same added up, in the order of their first use; none in documents that do not tell.
        phases: in the order of life.
        host: host memory.
        misses: the most layers that one request loaded out of the planned order.
        comparisons: predicted and measured.
        notes: what tells this apart from a served request, one sentence each.
    """

    format: Literal["layerstream-measurement"] = "layerstream-measurement"
    version: Literal[1] = 1
    created: str
    program: str
    command: str
    model: str
    variant: str
    workload: dict[str, int | str]
    profile_id: str
    engine: str
    placements: dict[str, str]
    device: str
    device_title: str
    is_emulated: bool
    clock: Literal["device", "real", "virtual"]
    byte_scale: int
    time_scale: float | None
    software: dict[str, str]
    seed: int
    warmup: int
    repeats: int
    latency: Spread
    first_latency_s: float
    uses: tuple[MeasuredUse, ...]
    phases: tuple[MeasuredPhase, ...]
    host: MeasuredHost
    misses: int
    comparisons: tuple[Compared, ...]
    notes: tuple[str, ...]
    components: tuple[MeasuredComponent, ...] = ()

    def __post_init__(self) -> None:
        check_times("first request", self.first_latency_s, self.time_scale or 0.0)
        counts = {"byte_scale": self.byte_scale, "warmup": self.warmup, "repeats": self.repeats}
        counts |= {name: value for name, value in self.workload.items() if isinstance(value, int)}
        counts |= {"seed + 1": self.seed + 1, "misses + 1": self.misses + 1}
        for name, count in counts.items():
            if count < 1:
                raise InputError(f"{name} is {count}: it is at least 1")
        if self.latency.count != self.repeats:
            raise InputError(f"the latency is that of {self.latency.count} requests, of {self.repeats} that count")


MEASUREMENT_KIND = DocumentKind(
    noun="measurement",
    format=FORMAT,
    version=VERSION,
    holds=MeasurementDocument,
    error=InputError,
    remedy="measure again with autotune run",
)


def load_measurement(path: str | Path) -> MeasurementDocument:
    """Read ``measurement.json``.

    Raises:
        InputError: the file cannot be read, is no measurement, or is of a version that this program does not know.
    """
    return MEASUREMENT_KIND.load(path)


def save_measurement(document: MeasurementDocument, folder: Path) -> Path:
    """Write ``document`` into ``folder``, which is made if need be; an existing file is replaced whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    path = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, encode_document(document))
    except OSError as error:
        raise InputError(f"cannot write the measurement {path}: {error.strerror or error}") from error
    return path
