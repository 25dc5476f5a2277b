"""What the server reads of the same machine: its rule differs from ours, and placements follow the server's figure.

Source: SGLang-diffusion 0.5.23, ``runtime/managers/memory_managers/host_memory_budget.py``. It looks at two fixed mount
points (v2's before v1's), at one path for both, at ``memory.max`` or ``memory.limit_in_bytes`` only, takes the smallest
limit of the chain less that directory's own usage, and credits no page cache. What it cannot read is no limit to it.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from autotune.host_memory.cgroups import MOST_LEVELS
from autotune.host_memory.tree import ControlFiles

_MOUNTS = (
    (PurePosixPath("/sys/fs/cgroup"), "memory.max", "memory.current"),
    (PurePosixPath("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
_CGROUP_FILE = PurePosixPath("/proc/self/cgroup")
_UNLIMITED_FROM_BYTES = 2**62


def derive_server_available(files: ControlFiles, os_available_bytes: int | None) -> int | None:
    """Host bytes that the server takes for available; None where the system's own figure is unknown.

    Args:
        files: the machine's files; what cannot be read is not reported here, since the server passes over it, too.
        os_available_bytes: what the system reports as available.
    """
    if os_available_bytes is None:
        return None
    parts = _own_path_parts(files)
    for mount, limit_name, usage_name in _MOUNTS:
        tightest: tuple[int, int] | None = None
        for directory in _directories(files, mount, parts):
            limit_bytes = _read_number(files, directory / limit_name)
            if limit_bytes is None or limit_bytes >= _UNLIMITED_FROM_BYTES:
                continue
            if tightest is None or limit_bytes < tightest[0]:
                tightest = (limit_bytes, _read_number(files, directory / usage_name) or 0)
        if tightest is not None:
            return min(os_available_bytes, max(0, tightest[0] - tightest[1]))
    return os_available_bytes


def _own_path_parts(files: ControlFiles) -> tuple[str, ...]:
    """The first path that is v2's or the v1 memory controller's; the server uses it under both mounts."""
    for line in (files.read_text(_CGROUP_FILE) or "").splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3 and (not fields[1] or "memory" in fields[1].split(",")):
            return tuple(part for part in fields[2].split("/") if part)[-MOST_LEVELS:]
    return ()


def _directories(files: ControlFiles, mount: PurePosixPath, parts: tuple[str, ...]) -> list[PurePosixPath]:
    """The longest end of the path that exists below the mount, and its ancestors; none without the mount."""
    if not files.is_directory(mount):
        return []
    for start in range(len(parts)):
        found = parts[start:]
        # The server would follow ".." out of the mount; nothing outside has control files, so it comes back here.
        if ".." not in found and files.is_directory(mount.joinpath(*found)):
            return [mount.joinpath(*found[:length]) for length in range(len(found), -1, -1)]
    return [mount]


def _read_number(files: ControlFiles, path: PurePosixPath) -> int | None:
    try:
        return int((files.read_text(path) or "").strip())
    except ValueError:
        return None
