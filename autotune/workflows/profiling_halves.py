"""Measures one half of a profile and keeps it: the node's, or the model's. Imports torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from autotune.capture_cache import compute_cache_key
from autotune.catalog.built_component import CapturedComponent, ComponentBuilder
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
from autotune.measurements.timing import Effort
from autotune.measurements.validity import ModelWish, find_oldest, is_recent
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
    keeper = JournalKeeper(journal, wish.effort, around.now(), anew=wish.anew)
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
        profile = carry_over(profile, earlier.profile, lambda record: is_recent(record.measured_at, around.now()))
    oldest = find_oldest((*profile.links, *profile.interference), around.now())
    profile = replace(profile, measured_at=oldest)
    path = around.store.save_node(profile)
    return profile, Kept(path=path, measured=keeper.remembered, recalled=keeper.recalled, problems=journal.problems)


def profile_model(
    wish: ProfilingWish, request: Request, target: ProfiledDevice, watch: Watch, around: Surroundings
) -> tuple[ModelProfile, Kept]:
    """Measure every distinct piece of the wanted components, one at a time, and keep the profile.

    Components that a valid profile of the same conditions has already stay in it, from the records of then.

    Raises:
        ProfileError, DeviceError: as ``run_profiling``.
    """
    conditions = Conditions(kind=target.kind, versions=dict(around.versions), options=wish.options)
    journal = open_journal(around.store.journal_folder, conditions)
    keeper = JournalKeeper(journal, wish.effort, around.now(), anew=wish.anew)
    earlier_keeper = JournalKeeper(journal, Effort.QUICK, around.now(), anew=False)
    key = compute_cache_key(wish.entry, request.settled, dict(request.facts.versions))
    earlier = _find_earlier(request, conditions, key, around)
    count = len(request.builders)
    captured: dict[str, CapturedComponent] = {}
    pieces: list[MeasuredPiece] = []
    for position, (name, build) in enumerate([*request.builders.items(), *earlier.items()]):

        def notify(text: str, share: float, position: int = position) -> None:
            around.notify(text, NODE_SHARE + (1 - NODE_SHARE) * min(1.0, (position + share) / count))

        bench = _make_bench(wish, target, earlier_keeper if name in earlier else keeper, watch, lambda _: None)
        settings = RunSettings(bench=bench, options=wish.options, seed=wish.seed)
        measured = measure_component(build, settings, notify)
        captured[name] = measured.captured
        pieces += measured.pieces
    dtypes = {name: part.spec.run_dtype for name, part in captured.items()}
    profile = ModelProfile(
        facts=put_into_facts(request.facts, captured),
        facts_key=key,
        kind=target.kind,
        versions=dict(around.versions),
        options=wish.options,
        effort=wish.effort,
        pieces=tuple(pieces),
        components=tuple(name for name in request.every if name in captured),
        flops_per_s=derive_flops_per_s(pieces, dtypes),
        memory_bytes_per_s=derive_memory_bytes_per_s(pieces),
        measured_at=find_oldest((piece.record for piece in pieces), around.now()),
        notes=(*target.notes, *request.settled.notes),
    )
    path = around.store.save_model(profile)
    return profile, Kept(
        path=path,
        measured=keeper.remembered + earlier_keeper.remembered,
        recalled=keeper.recalled + earlier_keeper.recalled,
        problems=journal.problems,
    )


def _find_earlier(
    request: Request, conditions: Conditions, facts_key: str, around: Surroundings
) -> dict[str, ComponentBuilder]:
    """Builders of the components that nobody asked for and that the stored profile of these conditions has."""
    wish = ModelWish(
        model=request.facts.model.name,
        workload=request.settled.workload,
        variant=request.facts.variant,
        kind=conditions.kind,
        versions=conditions.versions,
        options=conditions.options,
        facts_key=facts_key,
    )
    found = around.store.find_model(wish, around.now()).found
    known = () if found is None else found.profile.components
    return {name: build for name, build in request.every.items() if name in known and name not in request.wanted}


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
