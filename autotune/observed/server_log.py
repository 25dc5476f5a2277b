"""What the log of one start of SGLang-diffusion says. Pure records; ``read_server_log`` fills them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.errors import InputError
from runtime.residency import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPins:
    """Where the layers of one streamed stack wait on the host; ``layers`` leaves out permanent residents."""

    component: str
    stack: str
    layers: int
    pinned: int
    pageable: int
    mapped: int
    pinned_gib: float | None = None
    spendable_gib: float | None = None

    def __post_init__(self) -> None:
        if min(self.pinned, self.pageable, self.mapped) < 0 or self.pinned + self.pageable + self.mapped != self.layers:
            raise InputError(
                f"{self.component}.{self.stack}: {self.pinned} + {self.pageable} + {self.mapped} layers are not "
                f"{self.layers}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedComponent:
    """One component that was set up to stream.

    Attributes:
        component: the server's name for it; its class's where an old server logs no other.
        layers, resident: of all its stacks together; None where the server does not log them.
        prefetch: the different prefetch sizes of its stacks, ascending.
        stacks: stack -> its layers, where they were logged.
        policies, lifetimes: of its stacks; empty where the server does not log them.
    """

    component: str
    layers: int | None = None
    resident: int | None = None
    prefetch: tuple[int, ...] = ()
    stacks: Mapping[str, int] = field(default_factory=dict)
    policies: tuple[str, ...] = ()
    lifetimes: tuple[str, ...] = ()

    @property
    def resident_per_stack(self) -> int | None:
        """The count that was asked for of each stack, held to the longest; None where the log does not tell."""
        lengths = list(self.stacks.values()) or ([self.layers] if self.layers else [])
        if self.resident is None or not lengths:
            return None
        counts = range(max(lengths) + 1)
        return next((count for count in counts if sum(min(count, n) for n in lengths) == self.resident), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedComponent:
    """Where one component's weights were once it was loaded, before layers were set up to stream."""

    component: str
    on_device: bool
    on_host: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """One request that was no warm-up; fields are None where nothing was logged.

    Attributes:
        width, height, frames, steps: as asked for; ``steps`` are the server's, and sides are rounded up to 16.
        stages: name -> seconds.
        mean_step_s: of all denoising steps.
        total_s: from the request's arrival to its output.
        peak_reserved_bytes: of torch's allocator.
        ran_out: whether it ran out of device memory.
    """

    width: int | None = None
    height: int | None = None
    frames: int | None = None
    steps: int | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    mean_step_s: float | None = None
    total_s: float | None = None
    peak_reserved_bytes: int | None = None
    ran_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLog:
    """One start of the server, and its requests.

    Attributes:
        where: the file.
        version: release, where something in the log names it.
        oldest, newest: releases whose wording the lines have, as ``(major, minor, patch)``; None where nothing tells.
        model: as the server was started with.
        arguments: other arguments of the start, as logged.
        streamed: components that were set up to stream.
        pins: stacks of which not every layer is pinned, and those of shared memory.
        permanent: ``component.stack`` -> layers placed at load for good.
        loaded: components as they were loaded.
        is_ready: whether the server got as far as taking requests, or took one.
        requests: in their order.
        ran_out: whether device memory ran out at any time.
        notes: what the reader should know, such as other starts in the file.
        faults: lines that could not be understood although they look like known ones.
    """

    where: str
    version: str = ""
    oldest: tuple[int, int, int] | None = None
    newest: tuple[int, int, int] | None = None
    model: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)
    streamed: tuple[StreamedComponent, ...] = ()
    pins: tuple[StackPins, ...] = ()
    permanent: Mapping[str, int] = field(default_factory=dict)
    loaded: tuple[LoadedComponent, ...] = ()
    is_ready: bool = False
    requests: tuple[LoggedRequest, ...] = ()
    ran_out: bool = False
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    def find_streamed(self, component: str) -> StreamedComponent | None:
        """``component`` as it was set up to stream; None where the log does not say that it was."""
        return next((item for item in self.streamed if item.component == component), None)

    def find_whole_mode(self, component: str) -> Mode | None:
        """How a component that does not stream is placed, by where it was loaded; None where that does not tell.

        Weights that wait on the host may still be set up to stream, unless the server got past that.
        """
        loaded = next((item for item in self.loaded if item.component == component), None)
        if loaded is None or loaded.on_device == loaded.on_host or self.find_streamed(component) is not None:
            return None
        if loaded.on_device:
            return Mode.RESIDENT
        return Mode.COMPONENT_OFFLOAD if self.is_ready else None

    @property
    def logs_pins(self) -> bool:
        """Whether a streamed stack without a line about its pins has every layer pinned: since 0.5.19."""
        return self.oldest is not None and self.oldest >= (0, 5, 19)

    @property
    def last_request(self) -> LoggedRequest | None:
        """The last request that finished, else the last one; None without any."""
        done = [request for request in self.requests if request.total_s is not None]
        return next(reversed(done or self.requests), None)
