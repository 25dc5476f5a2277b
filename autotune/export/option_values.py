"""Values of the server's placement options: lists, assignments, maps and numbers, read and refused as it does.

Source: SGLang-diffusion 0.5.23, server arguments and component selection.
"""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import TypeVar

from autotune.export import component_groups as groups
from runtime.errors import FlagError
from runtime.residency import Mode

SNAPSHOT_OFFLOAD = "snapshot-offload"
_MODES = (*(str(mode) for mode in Mode), SNAPSHOT_OFFLOAD)
_Choice = TypeVar("_Choice", bound=StrEnum)


class ErrorKind(StrEnum):
    """How the server fails on the same line: its parser exits, or one of its two exceptions is raised."""

    USAGE = "usage"
    VALUE = "ValueError"
    RESIDENCY = "ComponentResidencyError"


class ServerOptionError(FlagError):
    """The server would refuse this command line; ``kind`` says how."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def refuse_usage(message: str) -> ServerOptionError:
    """The error for a line on which the server's parser exits."""
    return ServerOptionError(ErrorKind.USAGE, f"the server's parser refuses this line: {message}")


def refuse_value(message: str) -> ServerOptionError:
    """The error for a value that the server refuses after parsing."""
    return ServerOptionError(ErrorKind.VALUE, message)


def parse_number(component: str, knob: str, value: float | str) -> float:
    """``value`` as a finite number; the server would fail later, while it sets the component up."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ServerOptionError(
            ErrorKind.VALUE, f"{knob} of {component} is {value!r}: give a share below 1 or a whole number of layers"
        )
    return number


def parse_choice(component: str, knob: str, value: float | str, choices: type[_Choice]) -> _Choice:
    """``value`` as a member of ``choices``; case matters to the server."""
    try:
        return choices(str(value))
    except ValueError:
        expected = " or ".join(choices)
        message = f"residency {knob} of {component} is {value!r}: it must be {expected}"
        raise ServerOptionError(ErrorKind.VALUE, message) from None


def parse_names(tokens: list[str] | None) -> tuple[str, ...] | None:
    """Names from separate tokens and comma lists, lower-cased, hyphens as underscores, each once; None when absent."""
    if tokens is None:
        return None
    names = (name.strip().replace("-", "_").lower() for token in tokens for name in token.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def expand_layerwise(selectors: tuple[str, ...]) -> tuple[str, ...] | None:
    """Replace ``default`` by its groups; ``all`` swallows the rest; nothing left is as if not given."""
    expanded = [
        name for word in selectors for name in (groups.LAYERWISE_DEFAULT_GROUP if word == "default" else (word,))
    ]
    return ("all",) if "all" in expanded else tuple(dict.fromkeys(expanded)) or None


def parse_cpu_offload(tokens: list[str] | None) -> tuple[str, ...] | None:
    """Selectors of ``--cpu-offload-components``; empty for ``none``."""
    selectors = parse_names(tokens)
    if selectors and "none" in selectors:
        if len(selectors) > 1:
            raise refuse_value("--cpu-offload-components none cannot be combined with other components")
        return ()
    return selectors


def parse_residency(tokens: list[str] | None) -> dict[str, str]:
    """``COMPONENT=MODE`` assignments, normalised; the last one of a selector wins."""
    residency: dict[str, str] = {}
    entries = (entry.strip() for token in tokens or () for entry in token.split(","))
    for entry in entries:
        if not entry:
            continue
        selector, separator, mode = entry.partition("=")
        selector = selector.strip().replace("-", "_").lower()
        mode = mode.strip().replace("_", "-").lower()
        if not separator or not selector:
            message = f"--component-residency takes COMPONENT=MODE, got {entry!r}"
            raise ServerOptionError(ErrorKind.RESIDENCY, message)
        if mode not in _MODES:
            message = f"--component-residency {entry!r}: the mode must be one of {', '.join(_MODES)}"
            raise ServerOptionError(ErrorKind.RESIDENCY, message)
        residency[selector] = mode
    return residency


def parse_map(option: str, text: str | None) -> dict[str, str]:
    """``a=1,b=2`` (split at the first ``=``) or a JSON object; names are taken as they are."""
    if not text:
        return {}
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        document = None
    if isinstance(document, dict):
        return {str(name): str(value) for name, value in document.items()}
    entries: dict[str, str] = {}
    for raw in text.split(","):
        pair = raw.strip()
        if not pair:
            continue
        name, separator, value = pair.partition("=")
        if not separator:
            raise refuse_value(f"{option} takes component=value entries, got {pair!r}")
        entries[name.strip()] = value.strip()
    return entries
