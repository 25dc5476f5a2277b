"""What a catalog knows about one model, without loading any library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune.model_facts import ModelFacts
from autotune.workload import Workload

Progress = Callable[[str], None]
"""Called with one short sentence per step, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledWorkload:
    """A workload as the server would run it, and what had to be rounded or assumed for that."""

    workload: Workload
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """One model that can be read from the classes of diffusers and transformers.

    Attributes:
        name: what people type and reports print.
        aliases: other spellings, among them the hub repository.
        title: one line for a listing.
        default_workload: the request that is planned for when none is described.
        configs: released configuration of each component, as given to its class.
        sources: where each configuration and dtype comes from, one sentence each.
        smaller_canvas: width and height of a common smaller request, asked about when tuning does not pay.
        settle: checks a workload and rounds it as the server does.
        capture: reads bytes and work from the real classes (imports torch).

    ``settle`` raises InputError for a request that the server cannot run.
    """

    name: str
    aliases: tuple[str, ...]
    title: str
    default_workload: Workload
    configs: Mapping[str, Mapping[str, object]]
    sources: tuple[str, ...]
    smaller_canvas: tuple[int, int]
    settle: Callable[[Workload], SettledWorkload]
    capture: Callable[[SettledWorkload, Progress], ModelFacts]

    @property
    def names(self) -> tuple[str, ...]:
        """The name and every alias."""
        return (self.name, *self.aliases)
