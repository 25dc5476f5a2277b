"""What this process has locked and resident, read from /proc/self/status."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from autotune.host_memory.tree import ControlFiles, lines_of, parse_number

_STATUS = PurePosixPath("/proc/self/status")
_BYTES_PER_KB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """Bytes at one instant; None where the system does not tell.

    Attributes:
        locked_bytes: VmLck and VmPin. Drivers that pin pages by themselves may count in neither.
        resident_bytes: RssAnon and RssShmem: what only swapping could take away.
    """

    locked_bytes: int | None
    resident_bytes: int | None


def read_process_memory(files: ControlFiles | None = None) -> ProcessMemory:
    """Read both now.

    Args:
        files: of the machine; None for this one's.
    """
    text = (files or ControlFiles("")).read_text(_STATUS) or ""
    figures: dict[str, int] = {}
    for line in lines_of(text):
        name, _, value = line.partition(":")
        number = parse_number(value.strip().removesuffix("kB").strip())
        if number is not None:
            figures[name] = number * _BYTES_PER_KB
    return ProcessMemory(
        locked_bytes=_add(figures, "VmLck", "VmPin"), resident_bytes=_add(figures, "RssAnon", "RssShmem")
    )


def _add(figures: dict[str, int], *names: str) -> int | None:
    found = [figures[name] for name in names if name in figures]
    return sum(found) if found else None
