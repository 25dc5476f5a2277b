"""Reads the memory limits of one cgroup directory: v2's memory.max and memory.high, v1's limit and inherited limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from autotune.host_memory.cgroups import Version
from autotune.host_memory.tree import ControlFiles
from runtime.files import as_text
from runtime.units import format_gib

# v1 writes "no limit" as LONG_MAX rounded down to whole pages of 4 or 64 KiB; no machine comes near a quarter of it.
UNLIMITED_FROM_BYTES = 2**62

_USAGE_FILES = {Version.V1: "memory.usage_in_bytes", Version.V2: "memory.current"}
# total_* counts a v1 directory's descendants, too, as v2's figures always do.
_INACTIVE_FILE = {Version.V1: "total_inactive_file", Version.V2: "inactive_file"}
_LIMIT_FILES = {Version.V1: ("memory.limit_in_bytes",), Version.V2: ("memory.max", "memory.high")}
_INHERITED_LIMIT = "hierarchical_memory_limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """One limit that holds this process, and how much of it is taken.

    Attributes:
        directory: the cgroup directory.
        file: which of its files says so; ``memory.high`` throttles, every other one kills.
        limit_bytes: the limit.
        usage_bytes: what the cgroup is charged, page cache included.
        inactive_file_bytes: the part of it that is page cache not used lately.
    """

    directory: str
    file: str
    limit_bytes: int
    usage_bytes: int
    inactive_file_bytes: int

    @property
    def strict_headroom_bytes(self) -> int:
        """Limit less usage: what is left if no page cache is given up."""
        return max(0, self.limit_bytes - self.usage_bytes)

    @property
    def headroom_bytes(self) -> int:
        """Limit less working set, by the rule of the container tools: inactive page cache counts as free."""
        return max(0, self.limit_bytes - max(0, self.usage_bytes - self.inactive_file_bytes))

    @property
    def throttles(self) -> bool:
        """Whether the kernel slows the process down at this limit instead of killing it."""
        return self.file == "memory.high"

    def describe(self) -> str:
        """The limit in one sentence, for people."""
        return (
            f"{self.file} of {self.directory} allows {format_gib(self.limit_bytes)}, "
            f"{format_gib(self.usage_bytes)} are in use, {format_gib(self.inactive_file_bytes)} of them inactive page "
            "cache: headroom "
            f"{format_gib(self.headroom_bytes)} by the working-set rule (limit - (usage - inactive_file)), "
            f"{format_gib(self.strict_headroom_bytes)} strictly (limit - usage)"
        )


def read_limits(files: ControlFiles, version: Version, directory: PurePosixPath) -> Iterator[MemoryLimit]:
    """The limits of ``directory`` itself; those whose files cannot be understood are reported, not yielded."""
    stat_file = directory / "memory.stat"
    found = {name: files.read_number(directory / name) for name in _LIMIT_FILES[version]}
    # Only v1 keeps a limit in memory.stat, so it is read even where the directory itself has none.
    stat = files.read_table(stat_file) if version is Version.V1 or _has_limit(found) else {}
    if version is Version.V1:
        found[f"memory.stat ({_INHERITED_LIMIT})"] = stat.get(_INHERITED_LIMIT)
    if not _has_limit(found):
        return
    usage_file = directory / _USAGE_FILES[version]
    usage_bytes = files.read_number(usage_file)
    if usage_bytes is None:
        files.report_unknown(usage_file, "missing, although the cgroup has a limit")
        return
    inactive_bytes = min(stat.get(_INACTIVE_FILE[version], 0), usage_bytes)
    for name, limit_bytes in found.items():
        if limit_bytes is not None and limit_bytes < UNLIMITED_FROM_BYTES:
            yield MemoryLimit(
                directory=as_text(directory),
                file=name,
                limit_bytes=limit_bytes,
                usage_bytes=usage_bytes,
                inactive_file_bytes=inactive_bytes,
            )


def _has_limit(found: dict[str, int | None]) -> bool:
    return any(limit is not None and limit < UNLIMITED_FROM_BYTES for limit in found.values())
