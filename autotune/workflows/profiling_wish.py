"""What is to be profiled, settled: request, counted facts, components, and the sizes at which links are measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autotune.capture_cache import load_entry_facts
from autotune.catalog.built_component import ComponentBuilder
from autotune.catalog.entry import CatalogEntry, SettledWorkload
from autotune.measurements.links import list_streamed
from autotune.measurements.model_profile import RunOptions
from autotune.measurements.timing import Effort
from autotune.model_facts import ModelFacts
from autotune.workload import Workload
from runtime.errors import InputError

MOST_LAYER_SIZES = 6
"""Sizes of copies beyond these are read off between the measured ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilingWish:
    """What to profile.

    Attributes:
        entry: the model.
        workload: its request; None for the model's default.
        components: names of those to measure; None for all.
        options: how layers are run.
        effort: how long to measure.
        anew: measure also what is known already.
        path: a file on the disk that checkpoints lie on; None to measure no reads.
        seed: of weights and inputs.
    """

    entry: CatalogEntry
    workload: Workload | None = None
    components: tuple[str, ...] | None = None
    options: RunOptions = field(default_factory=RunOptions)
    effort: Effort = Effort.DEFAULT
    anew: bool = False
    path: Path | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A wish with everything that it means settled.

    Attributes:
        settled: the workload.
        facts: counted on the meta device.
        every: a builder of each component, in order of use.
        wanted: names of those to measure.
    """

    settled: SettledWorkload
    facts: ModelFacts
    every: Mapping[str, ComponentBuilder]
    wanted: tuple[str, ...]

    @property
    def builders(self) -> dict[str, ComponentBuilder]:
        """Of the wanted components, in order of use."""
        return {name: build for name, build in self.every.items() if name in self.wanted}


def settle_request(wish: ProfilingWish, notify: Callable[[str], None]) -> Request:
    """Read the model's facts for the wish.

    Raises:
        InputError: the server cannot run the request, a component is not the model's, or a file cannot be read.
    """
    entry = wish.entry
    settled = entry.settle(wish.workload or entry.default_workload)
    builders = entry.build(entry.configs, settled.workload)
    wanted = tuple(builders) if wish.components is None else wish.components
    unknown = sorted(set(wanted) - set(builders))
    if unknown or not wanted:
        raise InputError(f"--component {', '.join(unknown)}: {entry.name} has {', '.join(builders)}")
    if wish.path is not None and not (wish.path.is_file() and os.access(wish.path, os.R_OK)):
        raise InputError(f"--disk {wish.path} cannot be read: name a large file on the disk that checkpoints lie on")
    facts = load_entry_facts(entry, settled.workload, notify=notify)
    return Request(
        settled=settled,
        facts=facts,
        every=builders,
        wanted=wanted,
    )


def choose_layer_sizes(facts: ModelFacts) -> tuple[int, ...]:
    """The sizes of layers, at most ``MOST_LAYER_SIZES``, that carry most bytes in a request; others lie between."""
    carried: dict[int, int] = {}
    for _, size_bytes, passes in list_streamed(facts):
        carried[size_bytes] = carried.get(size_bytes, 0) + size_bytes * passes
    ordered = sorted((size for size in carried if size), key=lambda size: -carried[size])
    return tuple(ordered[:MOST_LAYER_SIZES])


def find_busiest(request: Request) -> str | None:
    """The wanted component whose layers carry most bytes in a request: what copies go on beside, as a rule."""
    carried = dict.fromkeys(request.builders, 0)
    for component, size_bytes, passes in list_streamed(request.facts):
        if component in carried:
            carried[component] += size_bytes * passes
    busy = [name for name, size_bytes in carried.items() if size_bytes]
    return max(busy, key=lambda name: carried[name], default=None)
