"""Profiles one model on one device of this machine, and keeps every record as soon as it is made. Imports torch.

::

    device opened -> machine and card read -> links, interference, budgets -> every distinct piece, one at a time
                                              (nothing may compute before)    (nothing else is on the device)
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from autotune.capture_cache import compute_cache_key, load_entry_facts
from autotune.catalog.built_component import CapturedComponent, ComponentBuilder
from autotune.catalog.entry import CatalogEntry, SettledWorkload
from autotune.hardware import DevicePreset
from autotune.measure.bench import Bench
from autotune.measure.copies import COPY_TIMERS
from autotune.measure.heaviest_layer import find_heaviest_layer
from autotune.measure.links import choose_sizes
from autotune.measure.model import measure_component, put_into_facts
from autotune.measure.node import measure_node
from autotune.measure.node_readings import NodeReadings, derive_fingerprint, read_node
from autotune.measure.run_settings import RunSettings
from autotune.measure.watch import Watch
from autotune.measurements.achieved import derive_flops_per_s, derive_memory_bytes_per_s
from autotune.measurements.journal import Conditions, open_journal
from autotune.measurements.model_profile import MeasuredPiece, ModelProfile, RunOptions
from autotune.measurements.node_profile import NodeProfile
from autotune.measurements.store import ProfileStore
from autotune.measurements.timing import Effort
from autotune.model_facts import ModelFacts
from autotune.telemetry.answers import Unknown
from autotune.telemetry.conditions import DeviceConditions, read_conditions
from autotune.telemetry.nvml import open_nvml
from autotune.telemetry.survey import survey_gpus
from autotune.workflows.profile_keeper import JournalKeeper
from autotune.workflows.profiled_device import ProfiledDevice, open_profiled_device
from autotune.workload import Workload
from runtime.errors import InputError
from runtime.units import MIB

MOST_LAYER_SIZES = 6
"""Sizes of copies beyond these are read off between the measured ones."""

NODE_SHARE = 0.3
"""Of the whole time, about what the node takes; for the display of the rest."""

MOST_LOAD_COPY_BYTES = 256 * MIB
"""Copies beside compute need no more: what each does to the other does not depend on how long a copy is."""


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
    """A wish with everything that it means settled: workload, counted facts, builders of the wanted components."""

    settled: SettledWorkload
    facts: ModelFacts
    builders: Mapping[str, ComponentBuilder]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What profiling takes from where it runs.

    Attributes:
        store: where profiles and journals are kept.
        versions: of the software that is running.
        read_conditions: of the card with a UUID, or of the processor for None.
        notify: told what is done now, and which share of all has been done.
        now: the time of day.
    """

    store: ProfileStore
    versions: Mapping[str, str]
    read_conditions: Callable[[str | None], DeviceConditions] = read_conditions
    notify: Callable[[str, float], None] = lambda *_: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of one half of a profile.

    Attributes:
        path: its file.
        measured, recalled: records that were made now, and those of earlier runs that are still valid.
        problems: of the journal, one sentence each.
    """

    path: Path
    measured: int
    recalled: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """Both halves."""

    model: ModelProfile
    node: NodeProfile
    model_kept: Kept
    node_kept: Kept


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
    return Request(settled=settled, facts=facts, builders={name: builders[name] for name in builders if name in wanted})


def run_profiling(wish: ProfilingWish, device: str, like: DevicePreset, around: Surroundings) -> Profiled:
    """Open the device, measure the node, then the model.

    Args:
        wish: what to profile.
        device: ``cuda:N``, ``cpu`` or ``emulated``.
        like: the card whose speed an emulated one has.
        around: where profiles are kept, and what runs there.

    Raises:
        InputError: the server cannot run the request, or no device has that name.
        UnsupportedError: there is no such card here.
        ProfileError: a record or a profile cannot be kept. What was kept before stays.
        DeviceError: the device failed.
    """
    request = settle_request(wish, lambda text: around.notify(text, 0.0))
    free_before_bytes = _read_free_bytes()
    target = open_profiled_device(device, like, request.builders)
    try:
        with open_nvml():  # kept open, so that every look at the card is quick
            readings = read_node(target.device, free_before_bytes=free_before_bytes)
            watch = Watch(_choose_reader(target, readings, around), around.now)
            node, node_kept = profile_node(wish, request, target, readings, watch, around)
            model, model_kept = profile_model(wish, request, target, watch, around)
    finally:
        target.device.close()
    return Profiled(model=model, node=node, model_kept=model_kept, node_kept=node_kept)


def _choose_reader(
    target: ProfiledDevice, readings: NodeReadings, around: Surroundings
) -> Callable[[], DeviceConditions]:
    """Reads the conditions of the device; computed times depend on none."""
    if target.is_exact:
        return lambda: DeviceConditions(at_s=0.0)
    uuid = None if isinstance(readings.gpu, Unknown) else readings.gpu.uuid
    return lambda: around.read_conditions(uuid)


def _read_free_bytes() -> int | None:
    """What is free on the card that this process will open; None where that cannot be told."""
    survey = survey_gpus()
    return survey.readings[survey.used[0]].free_bytes if len(survey.used) == 1 else None


def profile_node(
    wish: ProfilingWish,
    request: Request,
    target: ProfiledDevice,
    readings: NodeReadings,
    watch: Watch,
    around: Surroundings,
) -> tuple[NodeProfile, Kept]:
    """Measure links at the model's layer sizes, interference with its heaviest layer, and budgets.

    Raises:
        ProfileError: as ``run_profiling``.
    """
    fingerprint = derive_fingerprint(target.device, target.kind, readings)
    conditions = Conditions(kind=target.kind, versions=dict(around.versions), node=fingerprint)
    journal = open_journal(around.store.journal_folder, conditions)
    keeper = JournalKeeper(journal, wish.effort, anew=wish.anew)
    sizes = choose_layer_sizes(request.facts)
    steps = len(choose_sizes(sizes, None)) * len(COPY_TIMERS)
    done = itertools.count()
    bench = _make_bench(
        wish, target, keeper, watch, lambda text: around.notify(text, NODE_SHARE * min(1.0, next(done) / steps))
    )
    settings = RunSettings(bench=bench, options=wish.options, seed=wish.seed)
    loads = []
    if (component := _find_busiest(request)) is not None:
        load = find_heaviest_layer(wish.entry.name, request.builders[component], settings)
        loads.append((load, min(max(sizes, default=MOST_LOAD_COPY_BYTES), MOST_LOAD_COPY_BYTES)))
    profile = measure_node(
        bench,
        target.kind,
        readings,
        effort=wish.effort,
        versions=around.versions,
        layer_sizes=sizes,
        loads=loads,
        path=wish.path,
    )
    path = around.store.save_node(profile)
    return profile, Kept(path=path, measured=keeper.remembered, recalled=keeper.recalled, problems=journal.problems)


def choose_layer_sizes(facts: ModelFacts) -> tuple[int, ...]:
    """The sizes of layers, at most ``MOST_LAYER_SIZES``, that carry most bytes in a request; others lie between."""
    carried: dict[int, int] = {}
    for use in facts.request.uses:
        component = facts.model.component(use.component)
        for group in use.groups:
            for layer in (layer for stack in group.stacks for layer in component.stack(stack).layers):
                carried[layer.run_bytes] = carried.get(layer.run_bytes, 0) + layer.run_bytes * group.passes
    ordered = sorted((size for size in carried if size), key=lambda size: -carried[size])
    return tuple(ordered[:MOST_LAYER_SIZES])


def _find_busiest(request: Request) -> str | None:
    """The wanted component with the most layers to stream in a request: what copies go on beside."""
    passes = {
        use.component: sum(group.passes * len(group.stacks) for group in use.groups)
        for use in request.facts.request.uses
    }
    busy = [name for name in request.builders if passes.get(name)]
    return max(busy, key=lambda name: passes[name], default=None)


def profile_model(
    wish: ProfilingWish, request: Request, target: ProfiledDevice, watch: Watch, around: Surroundings
) -> tuple[ModelProfile, Kept]:
    """Measure every distinct piece of the wanted components, one at a time, and keep the profile.

    Raises:
        ProfileError, DeviceError: as ``run_profiling``.
    """
    conditions = Conditions(kind=target.kind, versions=dict(around.versions), options=wish.options)
    journal = open_journal(around.store.journal_folder, conditions)
    keeper = JournalKeeper(journal, wish.effort, anew=wish.anew)
    count = len(request.builders)
    captured: dict[str, CapturedComponent] = {}
    pieces: list[MeasuredPiece] = []
    for position, (name, build) in enumerate(request.builders.items()):

        def notify(text: str, share: float, position: int = position) -> None:
            around.notify(text, NODE_SHARE + (1 - NODE_SHARE) * (position + share) / count)

        bench = _make_bench(wish, target, keeper, watch, lambda _: None)
        settings = RunSettings(bench=bench, options=wish.options, seed=wish.seed)
        measured = measure_component(build, settings, notify)
        captured[name] = measured.captured
        pieces += measured.pieces
    dtypes = {name: part.spec.run_dtype for name, part in captured.items()}
    profile = ModelProfile(
        facts=put_into_facts(request.facts, captured),
        facts_key=compute_cache_key(wish.entry, request.settled, dict(request.facts.versions)),
        kind=target.kind,
        versions=dict(around.versions),
        options=wish.options,
        effort=wish.effort,
        pieces=tuple(pieces),
        components=tuple(captured),
        flops_per_s=derive_flops_per_s(pieces, dtypes),
        memory_bytes_per_s=derive_memory_bytes_per_s(pieces),
        measured_at=around.now().isoformat(timespec="seconds"),
        notes=(*target.notes, *request.settled.notes),
    )
    path = around.store.save_model(profile)
    return profile, Kept(path=path, measured=keeper.remembered, recalled=keeper.recalled, problems=journal.problems)


def _make_bench(
    wish: ProfilingWish,
    target: ProfiledDevice,
    keeper: JournalKeeper,
    watch: Watch,
    notify: Callable[[str], None],
) -> Bench:
    return Bench(
        device=target.device,
        protocol=target.choose_protocol(wish.effort),
        watch=watch,
        keeper=keeper,
        notify=notify,
        cold_bytes=target.cold_bytes,
    )
