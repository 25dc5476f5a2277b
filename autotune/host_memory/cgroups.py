"""Finds the cgroup directories that hold this process, in cgroup v2, v1 and both at once.

``/proc/self/cgroup`` names a path in each hierarchy, ``/proc/self/mountinfo`` says where a hierarchy is mounted and
from which of its directories on. Inside a container the two need not fit together: the path may be the host's while the
mount shows only the container's own part. So the longest part of the path that exists below the mount is taken, and the
mount itself when none does. No path ever leads out of the mount.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import PurePosixPath

from autotune.host_memory.tree import ControlFiles, lines_of
from runtime.files import as_text

_CGROUP_FILE = PurePosixPath("/proc/self/cgroup")
_MOUNT_FILE = PurePosixPath("/proc/self/mountinfo")
# Real trees are a dozen levels deep; a damaged path must not make the search run for minutes.
MOST_LEVELS = 256
_ESCAPE = re.compile(r"\\([0-3][0-7]{2})")


class Version(IntEnum):
    """Versions of the cgroup interface."""

    V1 = 1
    V2 = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The directories of one hierarchy that hold this process: its own first, then every ancestor up to the mount."""

    version: Version
    directories: tuple[PurePosixPath, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mount:
    version: Version
    point: PurePosixPath
    root: str


# Where distributions mount the hierarchies; asked only where the mount table names none.
_USUAL_MOUNTS = (
    _Mount(version=Version.V2, point=PurePosixPath("/sys/fs/cgroup"), root="/"),
    _Mount(version=Version.V2, point=PurePosixPath("/sys/fs/cgroup/unified"), root="/"),
    _Mount(version=Version.V1, point=PurePosixPath("/sys/fs/cgroup/memory"), root="/"),
)


def find_chains(files: ControlFiles) -> tuple[Chain, ...]:
    """The chain of this process in every hierarchy that can limit memory; none where there are no cgroups."""
    own_paths = _read_own_paths(files)
    mounts = list(_read_mounts(files)) or [mount for mount in _USUAL_MOUNTS if files.is_directory(mount.point)]
    chains = []
    for version in Version:
        of_version = [mount for mount in mounts if mount.version is version]
        if of_version:
            chains.append(_build_chain(files, of_version, own_paths.get(version, "/")))
    return tuple(chains)


def _read_own_paths(files: ControlFiles) -> dict[Version, str]:
    """The path of this process in the unified hierarchy and in the memory controller's own one."""
    text = files.read_text(_CGROUP_FILE)
    if text is None:
        return {}
    paths: dict[Version, str] = {}
    for line in lines_of(text):
        number, _, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        if not separator or not path.startswith("/") or path.count("/") > MOST_LEVELS:
            files.report_unknown(_CGROUP_FILE, f"{as_text(line[:60])!r} is no line of such a file")
        elif number == "0" and not controllers:
            paths[Version.V2] = path
        elif "memory" in controllers.split(","):
            paths[Version.V1] = path
    if not text.strip():
        files.report_unknown(_CGROUP_FILE, "empty")
    return paths


def _read_mounts(files: ControlFiles) -> Iterator[_Mount]:
    """Mounts of the unified hierarchy and of the memory controller, in the order of the mount table."""
    text = files.read_text(_MOUNT_FILE)
    if text is None:
        return
    for line in lines_of(text):
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if not separator or len(fields) < 6 or not fields[4].startswith("/"):
            files.report_unknown(_MOUNT_FILE, f"{as_text(line[:60])!r} is no line of such a file")
            continue
        root, point = _unescape(fields[3]), PurePosixPath(_unescape(fields[4]))
        if ".." in point.parts:
            files.report_unknown(_MOUNT_FILE, f"{as_text(line[:60])!r} has no mount point")
        elif kind[0] == "cgroup2":
            yield _Mount(version=Version.V2, point=point, root=root)
        elif kind[0] == "cgroup" and "memory" in kind[-1].split(","):
            yield _Mount(version=Version.V1, point=point, root=root)


def _unescape(text: str) -> str:
    """Spaces, tabs, line ends and backslashes of mount points are written as octal escapes."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def _build_chain(files: ControlFiles, mounts: list[_Mount], own_path: str) -> Chain:
    """The chain below the mount that shows this process's own path, else below the first one."""
    if ".." in own_path.split("/"):
        mount = mounts[0]
        files.report_unknown(
            _CGROUP_FILE, f"the path {as_text(own_path)!r} leads out of the mount {as_text(str(mount.point))}"
        )
        note = f"{as_text(own_path)} leads out of the mount, so only the root of the mount is read"
        return Chain(version=mount.version, directories=(mount.point,), note=note)
    for mount in mounts:
        parts = _below_mount_root(own_path, mount.root)
        if parts is not None and files.is_directory(mount.point.joinpath(*parts)):
            return _climb(mount, parts, "")
    mount = mounts[0]
    parts = tuple(part for part in own_path.split("/") if part)
    for start in range(len(parts)):
        if files.is_directory(mount.point.joinpath(*parts[start:])):
            return _climb(mount, parts[start:], f"{as_text(own_path)} was found in part below the mount")
    return _climb(
        mount, (), f"{as_text(own_path)} is not below the mount, which shows this process's own part of the tree"
    )


def _below_mount_root(own_path: str, mount_root: str) -> tuple[str, ...] | None:
    """Parts of ``own_path`` under the directory from which the hierarchy is mounted; None when it is elsewhere."""
    own, root = ([part for part in path.split("/") if part] for path in (own_path, mount_root))
    return tuple(own[len(root) :]) if own[: len(root)] == root else None


def _climb(mount: _Mount, parts: tuple[str, ...], note: str) -> Chain:
    directories = tuple(mount.point.joinpath(*parts[:length]) for length in range(len(parts), -1, -1))
    return Chain(version=mount.version, directories=directories, note=note)
