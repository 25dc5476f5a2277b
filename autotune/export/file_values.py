"""Values of the server's configuration file, checked as the server takes them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from autotune.export.known_options import Follows, KnownOption
from autotune.export.option_values import refuse_value
from autotune.export.sglang_parser import MAP_KNOBS, PLACEMENT_OPTIONS

MOST_SHOWN = 200
"""Characters of one word of a command that a message shows."""

# Larger ones have too many digits to be written out.
_LARGEST_INTEGER = 2**63


def write_as_words(option: KnownOption, value: object, *, is_read: bool) -> tuple[str, ...]:
    """A value of the file in the words of a command line; the server takes it as it stands, without conversion.

    ``is_read`` says whether the prediction reads the option; others need only be shown.

    Raises:
        FlagError: the server would not take it, or not as what it says.
    """
    problem = f"{option.field} in the configuration file"
    if option.follows in {Follows.NOTHING, Follows.TRUE_OR_FALSE}:
        if not isinstance(value, bool):
            raise refuse_value(f"{problem} must be true or false without quotes: the server takes any text as true")
        return (("true" if value else "false"),) if option.follows is Follows.TRUE_OR_FALSE else ()
    if isinstance(value, Mapping):
        return _as_map(option, problem, value, is_read=is_read)
    if isinstance(value, list):
        if option.follows not in {Follows.TEXTS, Follows.ANY_TEXTS}:
            raise refuse_value(f"{problem} must be one value, not a list")
        return tuple(_scalar(problem, entry) for entry in value)
    text = _scalar(problem, value)
    if option.follows in {Follows.INTEGER, Follows.NUMBER}:
        _check_number(option, problem, text)
    return (text,)


def _as_map(option: KnownOption, problem: str, value: Mapping[Any, object], *, is_read: bool) -> tuple[str, ...]:
    if option.name == "--component-residency":
        return tuple(f"{name}={_scalar(problem, entry)}" for name, entry in value.items())
    if option.name in MAP_KNOBS.values():
        return (json.dumps({str(name): _scalar(problem, entry) for name, entry in value.items()}),)
    if option.follows is Follows.TEXT and option.name not in PLACEMENT_OPTIONS and not is_read:
        return ("{...}",)  # only shown
    raise refuse_value(f"{problem} must be one value, not a map")


def _scalar(problem: str, value: object) -> str:
    too_large = isinstance(value, int) and abs(value) > _LARGEST_INTEGER
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or too_large:
        raise refuse_value(f"{problem} must hold text or numbers of ordinary size")
    return str(value)


def _check_number(option: KnownOption, problem: str, text: str) -> None:
    try:
        (int if option.follows is Follows.INTEGER else float)(text)
    except ValueError:
        raise refuse_value(f"{problem} is {text[:MOST_SHOWN]!r}: it must be a number") from None
