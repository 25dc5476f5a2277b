"""The limit on locked memory that the kernel puts on this process, and whether it is exempt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from autotune.host_memory.namespaces import Namespaces
from autotune.host_memory.tree import ControlFiles, lines_of, parse_number
from runtime.units import GIB, MIB, format_gib

_LIMITS = PurePosixPath("/proc/self/limits")
_STATUS = PurePosixPath("/proc/self/status")
_CAP_IPC_LOCK = 14
_UNLIMITED = "unlimited"
_HEX = re.compile(r"[0-9a-fA-F]{1,16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemlockLimit:
    """``RLIMIT_MEMLOCK``. It binds ``mlock`` and drivers that ask for it; drivers differ in whether pins count.

    Attributes:
        is_known: whether the limits could be read; the next two say nothing otherwise.
        soft_bytes: what may be locked; None for unlimited.
        hard_bytes: up to where the process may raise it by itself; None for unlimited.
        is_exempt: whether the capability CAP_IPC_LOCK lifts it; None where that is unknown.
    """

    is_known: bool
    soft_bytes: int | None
    hard_bytes: int | None
    is_exempt: bool | None

    @property
    def binds(self) -> bool:
        """Whether there is a limit that holds this process."""
        return self.is_known and self.soft_bytes is not None and self.is_exempt is not True

    def describe(self) -> str:
        """The limit in one sentence, for people."""
        if not self.is_known:
            return "unknown: the system does not tell"
        text = f"soft {_show(self.soft_bytes)}, hard {_show(self.hard_bytes)}"
        if self.soft_bytes is not None and self.is_exempt:
            text += "; CAP_IPC_LOCK lifts it"
        return text


def read_memlock(files: ControlFiles, namespaces: Namespaces) -> MemlockLimit:
    """The limit of this process.

    Args:
        files: of the machine.
        namespaces: the kernel honours CAP_IPC_LOCK for memory in the initial user namespace alone.
    """
    found = _read_limits(files)
    return MemlockLimit(
        is_known=found is not None,
        soft_bytes=None if found is None else found[0],
        hard_bytes=None if found is None else found[1],
        is_exempt=_read_exemption(files, namespaces),
    )


def _read_limits(files: ControlFiles) -> tuple[int | None, int | None] | None:
    for line in lines_of(files.read_text(_LIMITS) or ""):
        words = line.removeprefix("Max locked memory").split()
        if line.startswith("Max locked memory") and len(words) >= 2:
            values = [None if word == _UNLIMITED else parse_number(word) for word in words[:2]]
            if all(value is not None or word == _UNLIMITED for value, word in zip(values, words, strict=False)):
                return values[0], values[1]
    return None


def _read_exemption(files: ControlFiles, namespaces: Namespaces) -> bool | None:
    for line in lines_of(files.read_text(_STATUS) or ""):
        name, _, value = line.partition(":")
        if name == "CapEff" and _HEX.fullmatch(value.strip()):
            has_capability = bool(int(value.strip(), 16) >> _CAP_IPC_LOCK & 1)
            if not has_capability:
                return False
            return None if namespaces.has_own_users is None else not namespaces.has_own_users
    return None


def _show(limit_bytes: int | None) -> str:
    if limit_bytes is None:
        return _UNLIMITED
    return format_gib(limit_bytes) if limit_bytes >= GIB else f"{limit_bytes / MIB:,.2f} MiB"
