"""Which of a model's compute was measured, and which is counted and estimated. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.model_facts import ModelFacts
from autotune.work import UseWork, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Components by how much of their compute was measured; those without any compute are in none.

    Attributes:
        measured: all of it.
        partly: some pieces of it.
        estimated: none of it.
    """

    measured: tuple[str, ...]
    partly: tuple[str, ...]
    estimated: tuple[str, ...]


def find_coverage(facts: ModelFacts) -> Coverage:
    """What of the compute of ``facts`` was measured."""
    timed: dict[str, bool] = {}
    counted: dict[str, bool] = {}
    for use in facts.work:
        pieces = list(list_work(use))
        name = use.component
        timed[name] = timed.get(name, False) or any(work.measured_s > 0 for work in pieces)
        counted[name] = counted.get(name, False) or any(is_counted(work) for work in pieces)
    return Coverage(
        measured=tuple(name for name in timed if timed[name] and not counted[name]),
        partly=tuple(name for name in timed if timed[name] and counted[name]),
        estimated=tuple(name for name in timed if not timed[name] and counted[name]),
    )


def list_work(use: UseWork) -> Iterator[Work]:
    """Every piece of work of ``use``, layer by layer."""
    yield use.outside
    for group in use.groups:
        yield group.outside
        for layers in group.layers.values():
            yield from layers


def is_counted(work: Work) -> bool:
    """Whether some of ``work`` is counts, whose seconds are estimated."""
    return bool(work.flops or work.matmul_bytes or work.other_bytes)
