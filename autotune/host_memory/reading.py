"""Puts the system's figure and every cgroup limit together into one reading of host memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autotune.host_memory.cgroups import find_chains
from autotune.host_memory.limits import MemoryLimit, read_limits
from autotune.host_memory.memlock import MemlockLimit, read_memlock
from autotune.host_memory.namespaces import Namespaces, read_namespaces
from autotune.host_memory.problems import Problem, find_host_problems
from autotune.host_memory.server_view import derive_server_available
from autotune.host_memory.tree import ControlFiles, parse_number, read_regular_file
from runtime.units import format_gib

_MEMINFO = PurePosixPath("/proc/meminfo")
_OS_RELEASE = PurePosixPath("/proc/sys/kernel/osrelease")
_BYTES_PER_KB = 1024
_HIDDEN_LIMITS_NOTE = "this process has a cgroup namespace of its own: limits above its root cannot be seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """How much memory this machine may still give. No figure is negative; None is unknown.

    Attributes:
        total_bytes: memory of the machine, as the system reports it.
        os_available_bytes: what the system reports as available, blind to every cgroup.
        binding: the limit with the least headroom; None when there is no limit, or none that can be read.
        strict_headroom_bytes: the least of limit - usage over all limits; None as above.
        headroom_bytes: the least of limit - (usage - inactive_file): inactive page cache counts as free, by the
            working-set rule of the container tools. None as above.
        available_bytes: the smallest of the figures that are known: the system's and ``headroom_bytes``.
        server_available_bytes: what the server takes for available by its own, different rule. Predict its placements
            from this figure.
        namespaces: which parts of the machine this process cannot see.
        memlock: the kernel's limit on locked memory.
        is_wsl: whether this is Linux inside Windows; None where the system does not tell.
        has_cgroups: whether a cgroup hierarchy that can limit memory was found.
        sources: where the figures come from, in sentences.
        unknown: files that are there and could not be read or understood, with the reason.
    """

    total_bytes: int | None
    os_available_bytes: int | None
    binding: MemoryLimit | None
    strict_headroom_bytes: int | None
    headroom_bytes: int | None
    available_bytes: int | None
    server_available_bytes: int | None
    namespaces: Namespaces
    memlock: MemlockLimit
    is_wsl: bool | None
    has_cgroups: bool
    sources: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def limit_bytes(self) -> int | None:
        """The binding limit; None is unlimited when ``unknown`` is empty, else unknown."""
        return None if self.binding is None else self.binding.limit_bytes

    @property
    def safe_available_bytes(self) -> int:
        """The figure to plan against: what is available; 0 while a file that may hold a tighter limit is unknown."""
        return 0 if self.unknown or self.available_bytes is None else self.available_bytes

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know before memory is pinned, in sentences."""
        return tuple(problem.describe() for problem in self.problems)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The same, with each remedy apart."""
        return tuple(find_host_problems(self))


def read_host_memory(
    root: Path = Path("/"),
    *,
    os_available_bytes: int | None = None,
    read: Callable[[str], bytes] = read_regular_file,
) -> HostReading:
    """Read the memory of the machine whose file system starts at ``root``. Never fails: what is missing is unknown.

    Args:
        root: "/" for this machine, any other directory for a copy of the control files.
        os_available_bytes: what the system reports as available, used where there is no /proc/meminfo.
        read: reads one file; raises OSError as the system does.
    """
    files = ControlFiles(str(root).rstrip("/"), read)
    total_bytes, meminfo_bytes = _read_meminfo(files)
    available_bytes = os_available_bytes if meminfo_bytes is None else meminfo_bytes
    chains = find_chains(files)
    limits = [
        limit
        for chain in chains
        for directory in chain.directories
        for limit in read_limits(files, chain.version, directory)
    ]
    binding = min(limits, key=lambda limit: (limit.headroom_bytes, limit.strict_headroom_bytes), default=None)
    headroom_bytes = None if binding is None else binding.headroom_bytes
    known = [figure for figure in (available_bytes, headroom_bytes) if figure is not None]
    # What the server cannot read is no limit to it, so its own look must not add to what is unknown to us.
    unknown = files.unknown
    namespaces = read_namespaces(files)
    return HostReading(
        total_bytes=total_bytes,
        os_available_bytes=available_bytes,
        binding=binding,
        strict_headroom_bytes=min((limit.strict_headroom_bytes for limit in limits), default=None),
        headroom_bytes=headroom_bytes,
        available_bytes=min(known, default=None),
        server_available_bytes=derive_server_available(files, available_bytes),
        namespaces=namespaces,
        memlock=read_memlock(files, namespaces),
        is_wsl=_read_wsl(files),
        has_cgroups=bool(chains),
        sources=(
            _describe_system(available_bytes, is_given=meminfo_bytes is None),
            *(chain.note for chain in chains if chain.note),
            _describe_limit(binding, has_cgroups=bool(chains), is_unknown=bool(unknown)),
            *((_HIDDEN_LIMITS_NOTE,) if namespaces.has_own_cgroups else ()),
        ),
        unknown=unknown,
    )


def _read_wsl(files: ControlFiles) -> bool | None:
    """Microsoft's kernels have its name in their release."""
    text = files.read_text(_OS_RELEASE)
    return None if text is None else "microsoft" in text.casefold()


def _read_meminfo(files: ControlFiles) -> tuple[int | None, int | None]:
    """Total and available memory of the machine in bytes; None where the file is missing or does not say."""
    text = files.read_text(_MEMINFO)
    if text is None:
        return None, None
    figures: dict[str, int] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        number = parse_number(value.removesuffix("kB").strip())
        if number is not None:
            figures[name] = number * _BYTES_PER_KB
    for name in ("MemTotal", "MemAvailable"):
        if name not in figures:
            files.report_unknown(_MEMINFO, f"it has no {name}")
    total_bytes, available_bytes = figures.get("MemTotal"), figures.get("MemAvailable")
    if total_bytes is not None and available_bytes is not None and available_bytes > total_bytes:
        # Some containers show their own total beside the host's available memory; psutil takes MemFree then, too.
        available_bytes = min(figures.get("MemFree", 0), total_bytes)
    return total_bytes, available_bytes


def _describe_system(available_bytes: int | None, *, is_given: bool) -> str:
    if available_bytes is None:
        return "how much memory the system has available is unknown"
    source = "by its own account" if is_given else f"({_MEMINFO})"
    return f"the system has {format_gib(available_bytes)} available {source}"


def _describe_limit(binding: MemoryLimit | None, *, has_cgroups: bool, is_unknown: bool) -> str:
    if binding is not None:
        return binding.describe()
    if is_unknown:
        return "cgroup limit: unknown"
    return "no cgroup limits memory" if has_cgroups else "cgroup limit: unknown, no cgroup was found"
