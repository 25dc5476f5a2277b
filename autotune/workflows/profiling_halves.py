"""Measures one half of a profile and keeps it: the node's, or the model's. Imports torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autotune.capture_cache import compute_cache_key
from autotune.catalog.built_component import CapturedComponent
from autotune.measure.bench import Bench
from autotune.measure.copies import COPY_TIMERS
from autotune.measure.heaviest_layer import find_heaviest_layer
from autotune.measure.links import choose_sizes
from autotune.measure.model import measure_component, put_into_facts
from autotune.measure.node import measure_node
from autotune.measure.node_readings import NodeReadings, derive_fingerprint
from autotune.measure.run_settings import RunSettings
from autotune.measure.watch import Watch
from autotune.measurements.achieved import derive_flops_per_s, derive_memory_bytes_per_s
from autotune.measurements.journal import Conditions, open_journal
from autotune.measurements.model_profile import MeasuredPiece, ModelProfile
from autotune.measurements.node_profile import NodeProfile, carry_over
from autotune.measurements.store import ProfileStore
from autotune.telemetry.conditions import DeviceConditions, read_conditions
from autotune.workflows.profile_keeper import JournalKeeper
from autotune.workflows.profiled_device import ProfiledDevice
from autotune.workflows.profiling_wish import ProfilingWish, Request, choose_layer_sizes, find_busiest
from runtime.units import MIB

NODE_SHARE = 0.3
"""Of the whole time, about what the node takes; for the display of the rest."""

MOST_LOAD_COPY_BYTES = 256 * MIB
"""Copies beside compute need no more: what each does to the other does not depend on how long a copy is."""


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
    if (component := find_busiest(request)) is not None:
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
    earlier = around.store.find_node(profile.node, profile.versions, around.now()).found
    if earlier is not None:
        profile = carry_over(profile, earlier.profile)
    path = around.store.save_node(profile)
    return profile, Kept(path=path, measured=keeper.remembered, recalled=keeper.recalled, problems=journal.problems)


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
