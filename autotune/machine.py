"""What tells this machine from others, read without opening a device."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ID_FILES = ("etc/machine-id", "var/lib/dbus/machine-id")
_CPU_FIELDS = ("model name", "Hardware", "cpu model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine.

    Attributes:
        digest: of the system's own identity, never the identity itself.
        cpu: title of the processor.
        kernel: release of the system.
    """

    digest: str
    cpu: str
    kernel: str


def read_machine(root: Path = Path("/")) -> Machine:
    """This machine, as far as the files under ``root`` tell.

    Containers of one image may share a machine id, so that the processor is part of the identity; where there is no id,
    the host's name stands for it.
    """
    cpu = _read_cpu(root) or platform.processor() or platform.machine() or "unknown processor"
    identity = next(_read_ids(root), None) or platform.node()
    parts = ("layerstream-autotune", identity, cpu)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return Machine(digest=digest, cpu=cpu, kernel=platform.release())


def _read_ids(root: Path) -> Iterator[str]:
    for name in _ID_FILES:
        try:
            text = (root / name).read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            continue
        if text:
            yield text


def _read_cpu(root: Path) -> str | None:
    try:
        lines = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    fields = (line.split(":", 1) for line in lines if ":" in line)
    return next((value.strip() for name, value in fields if name.strip() in _CPU_FIELDS and value.strip()), None)
