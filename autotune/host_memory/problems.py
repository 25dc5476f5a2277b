"""What of a reading a user should know before memory is pinned, each with what can be done about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.host_memory.limits import MemoryLimit
from runtime.units import format_gib

if TYPE_CHECKING:
    from autotune.host_memory.reading import HostReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something of this machine that gets in the way, and the remedy."""

    what: str
    remedy: str

    def describe(self) -> str:
        """Both in one sentence."""
        return f"{self.what}; {self.remedy}"


# FreeToken #233 met 0.75 to 1 GiB in all with 62.8 GiB of memory; WSL #8447 and nvidia-container-toolkit #226 agree.
_WSL = Problem(
    what="this is WSL: Windows refuses pins far below the free memory, at about 1 GiB in all on some machines",
    remedy="plan with --no-pin-cpu-memory unless larger pins have been tried",
)
_HIDDEN_LIMITS = Problem(
    what="this process is in a cgroup namespace of its own that shows no limit: one above it, set by the container "
    "runtime or the cluster, cannot be seen",
    remedy="look up the container's memory limit there and give it with --host-memory",
)


def find_host_problems(reading: HostReading) -> Iterator[Problem]:
    """The problems of ``reading``, the worst first."""
    available_bytes, server_bytes = reading.available_bytes, reading.server_available_bytes
    binding = reading.binding
    if reading.unknown:
        yield _report_unknown(reading)
    elif available_bytes == 0:
        yield _report_nothing_left(binding)
    if reading.is_wsl:
        yield _WSL
    if reading.unknown or available_bytes == 0:
        return
    if reading.namespaces.has_own_cgroups and binding is None:
        yield _HIDDEN_LIMITS
    if binding is not None and binding.throttles and reading.headroom_bytes == available_bytes:
        yield _report_throttling(binding)
    if available_bytes is not None and server_bytes is not None and server_bytes > available_bytes:
        yield Problem(
            what=f"the server takes {format_gib(server_bytes)} of host memory for available, but only "
            f"{format_gib(available_bytes)} are: it may pin more than it can have",
            remedy="start it with --no-pin-cpu-memory if its pins do not fit, or raise the limit",
        )


def _report_unknown(reading: HostReading) -> Problem:
    files, server_bytes = "; ".join(reading.unknown), reading.server_available_bytes
    what = f"{files}: memory may be limited further than is known, so nothing should be pinned"
    if server_bytes is not None:
        what += f"; the server passes over such files and takes {format_gib(server_bytes)} for available"
    return Problem(what=what, remedy="make the files readable, or give what may be used with --host-memory")


def _report_nothing_left(binding: MemoryLimit | None) -> Problem:
    cause = "the system has no memory available"
    if binding is not None and binding.headroom_bytes == 0:
        used, limit = format_gib(binding.usage_bytes), format_gib(binding.limit_bytes)
        cause = f"nothing is left under {binding.file} of {binding.directory} ({used} of {limit} in use)"
    return Problem(
        what=f"{cause}: nothing can be pinned, all weights wait in pageable or mapped memory",
        remedy="end other programs, or raise the limit",
    )


def _report_throttling(binding: MemoryLimit) -> Problem:
    return Problem(
        what=f"memory.high of {binding.directory} binds at {format_gib(binding.limit_bytes)}: above it the kernel does "
        "not kill, it throttles every allocation, and pinned memory cannot be reclaimed",
        remedy=f"keep pins below the headroom of {format_gib(binding.headroom_bytes)}, or raise memory.high",
    )
