"""Whether this process lives in namespaces of its own, so that it sees only a part of the machine.

The initial namespaces have fixed inode numbers: ``PROC_CGROUP_INIT_INO`` and its neighbours in the kernel's
``include/linux/proc_ns.h``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from autotune.host_memory.tree import ControlFiles

_DIRECTORY = PurePosixPath("/proc/self/ns")
_INITIAL_INODES = {"cgroup": 0xEFFFFFFB, "pid": 0xEFFFFFFC, "user": 0xEFFFFFFD}
_LINK = re.compile(r"[a-z_]+:\[([0-9]{1,20})\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    """True where the process has a namespace of its own, False where it has the machine's, None where unknown.

    Attributes:
        has_own_cgroups: limits of cgroups above the namespace's root cannot be seen.
        has_own_pids: other programs may know the process by another number.
        has_own_users: capabilities hold in the namespace only.
    """

    has_own_cgroups: bool | None
    has_own_pids: bool | None
    has_own_users: bool | None

    def describe(self) -> str:
        """Which namespaces are its own, in one sentence."""
        named = {"cgroup": self.has_own_cgroups, "pid": self.has_own_pids, "user": self.has_own_users}
        own = [name for name, is_own in named.items() if is_own]
        unknown = [name for name, is_own in named.items() if is_own is None]
        if len(unknown) == len(named):
            return "unknown: the system does not tell"
        text = (
            f"own {', '.join(own)} namespace{'s' if len(own) > 1 else ''}"
            if own
            else "the machine's own, no container's"
        )
        return f"{text}; unknown: {', '.join(unknown)}" if unknown else text


def read_namespaces(files: ControlFiles) -> Namespaces:
    """Compare the namespaces of this process with the initial ones."""
    own = {name: _is_own(files, name, inode) for name, inode in _INITIAL_INODES.items()}
    return Namespaces(has_own_cgroups=own["cgroup"], has_own_pids=own["pid"], has_own_users=own["user"])


def _is_own(files: ControlFiles, name: str, initial_inode: int) -> bool | None:
    target = files.read_link(_DIRECTORY / name)
    match = _LINK.fullmatch(target or "")
    return None if match is None else int(match[1]) != initial_inode
