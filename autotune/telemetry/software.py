"""Which versions of the software that decides about speed are installed; nothing of it is imported."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata

MODEL_LIBRARIES = ("torch", "diffusers", "transformers")
"""What a model's layers are run with: another version may take another time."""

_PACKAGES = (*MODEL_LIBRARIES, "sglang", "nvidia-ml-py")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareVersion:
    """One program or package; ``version`` is None where it is not installed."""

    name: str
    version: str | None


def read_software(find_version: Callable[[str], str] = metadata.version) -> tuple[SoftwareVersion, ...]:
    """Python, the system's kernel, and the packages that matter.

    Args:
        find_version: the version of a distribution; raises PackageNotFoundError for one that is not installed.
    """
    found = [
        SoftwareVersion(name="python", version=platform.python_version()),
        SoftwareVersion(name=platform.system() or "system", version=platform.release() or None),
    ]
    return (*found, *(SoftwareVersion(name=name, version=_find(name, find_version)) for name in _PACKAGES))


def find_versions(
    names: Iterable[str] = MODEL_LIBRARIES, find_version: Callable[[str], str] = metadata.version
) -> dict[str, str]:
    """Distribution -> version, for those of ``names`` that are installed and undamaged."""
    found = ((name, _find(name, find_version)) for name in names)
    return {name: version for name, version in found if version is not None}


def _find(name: str, find_version: Callable[[str], str]) -> str | None:
    try:
        return find_version(name) or None
    except (metadata.PackageNotFoundError, KeyError, ValueError, OSError):  # a damaged installation
        return None
