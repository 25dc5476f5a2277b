"""What shapes a request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runtime.errors import InputError

# Beyond these no pipeline of the catalog runs, and shapes overflow long before memory is the question.
LIMITS = {
    "width": 16_384,
    "height": 16_384,
    "frames": 10_000,
    "steps": 10_000,
    "prompt_tokens": 100_000,
    "batch": 1_024,
}


class Recipe(StrEnum):
    """Quality recipe of the server: ``default`` (its ``lossless`` fast paths) or ``exact`` (one tile per pass)."""

    DEFAULT = "default"
    EXACT = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kind of request: pixels, frames, sigma points (``steps``), prompt tokens, images per request, recipe."""

    width: int
    height: int
    frames: int
    steps: int
    prompt_tokens: int
    batch: int = 1
    recipe: Recipe = Recipe.DEFAULT

    def __post_init__(self) -> None:
        for name, most in LIMITS.items():
            if not 1 <= getattr(self, name) <= most:
                raise InputError(
                    f"--{name.replace('_', '-')} is {getattr(self, name):,}: it must be from 1 to {most:,}"
                )

    def describe(self) -> str:
        """The workload in one line, for people."""
        return (
            f"{self.width}x{self.height}, {self.frames} frame{'s' if self.frames > 1 else ''}, {self.steps} steps, "
            f"{self.prompt_tokens} prompt tokens, batch {self.batch}, recipe {self.recipe}"
        )


def list_options(workload: Workload, default: Workload | None) -> tuple[str, ...]:
    """The words of a command line that ask for ``workload``.

    Args:
        workload: the request.
        default: what the command means where nothing is typed; None to spell out all of it.
    """
    words: list[str] = []
    for name in Workload.__dataclass_fields__:
        value = getattr(workload, name)
        if default is None or value != getattr(default, name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return tuple(words)
