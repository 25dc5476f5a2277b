"""What a catalog knows about one model, without loading any library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autotune.catalog.variants import Variant
from autotune.model_facts import ModelFacts
from autotune.workload import Workload
from runtime.errors import InputError

if TYPE_CHECKING:
    from autotune.catalog.built_component import ComponentBuilder

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
        build: makes a builder of each component, in order of use, from configurations such as ``configs`` and a settled
            workload (imports torch).
        variants: other ways in which the server can run it.
        derive: makes the facts of a variant, by name, from those of the model as released; None without variants.

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
    build: Callable[[Mapping[str, Mapping[str, object]], Workload], dict[str, ComponentBuilder]]
    variants: tuple[Variant, ...] = ()
    derive: Callable[[ModelFacts, str], ModelFacts] | None = None

    def __post_init__(self) -> None:
        if bool(self.variants) != (self.derive is not None):
            raise InputError(f"{self.name} needs both variants and a way to derive them, or neither")

    @property
    def names(self) -> tuple[str, ...]:
        """The name and every alias."""
        return (self.name, *self.aliases)

    def find_variant(self, name: str) -> Variant:
        """The variant called ``name``, whatever its case.

        Raises:
            InputError: the model has none of that name.
        """
        for variant in self.variants:
            if variant.name == name.strip().casefold():
                return variant
        known = ", ".join(variant.name for variant in self.variants)
        raise InputError(f"{self.name} has no variant {name!r}: " + (f"it has {known}" if known else "it has none"))

    def derive_facts(self, facts: ModelFacts, name: str) -> ModelFacts:
        """The facts of the variant called ``name`` from ``facts``, those of the model as released.

        Raises:
            InputError: the model has no such variant, or the server refuses it for this request.
        """
        variant = self.find_variant(name)
        assert self.derive is not None  # checked on construction
        derived = self.derive(facts, variant.name)
        note = f"variant {variant.name}: {variant.title}; {variant.note}"
        return replace(derived, variant=variant.name, notes=(*facts.notes, note))
