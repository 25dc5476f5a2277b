"""An answer is a value or ``Unknown`` with the reason: no figure is invented, and no missing one stops the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from runtime.errors import InputError

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A figure that nobody could give.

    Attributes:
        reason: why, for people.
        is_unsupported: the device has no such figure, as opposed to one that could not be read this time.
    """

    reason: str
    is_unsupported: bool = False

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise InputError("an unknown figure needs a reason: say why nobody could give it")


Answer: TypeAlias = Value | Unknown


def describe_error(error: Exception) -> str:
    """What ``error`` says; its type where it says nothing."""
    return str(error) or type(error).__name__


def or_none(answer: Answer[Value]) -> Value | None:
    """The value; None where it is unknown."""
    return None if isinstance(answer, Unknown) else answer
