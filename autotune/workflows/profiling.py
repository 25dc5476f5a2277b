"""Profiles one model on one device of this machine, and keeps every record as soon as it is made. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from autotune.capture_cache import compute_cache_key, load_entry_facts
from autotune.catalog.built_component import CapturedComponent, ComponentBuilder
from autotune.catalog.entry import CatalogEntry, SettledWorkload
from autotune.measure.bench import Bench
from autotune.measure.model import measure_component, put_into_facts
from autotune.measure.piece_run import RunSettings
from autotune.measure.watch import Watch
from autotune.measurements.achieved import derive_flops_per_s, derive_memory_bytes_per_s
from autotune.measurements.journal import Conditions, open_journal
from autotune.measurements.model_profile import MeasuredPiece, ModelProfile, RunOptions
from autotune.measurements.store import ProfileStore
from autotune.measurements.timing import Effort
from autotune.model_facts import ModelFacts
from autotune.telemetry.conditions import DeviceConditions
from autotune.workflows.profile_keeper import JournalKeeper
from autotune.workflows.profiled_device import ProfiledDevice
from autotune.workload import Workload
from runtime.errors import InputError


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
        read_conditions: of the device.
        notify: told what is done now, and which share of all has been done.
        now: the time of day.
    """

    store: ProfileStore
    versions: Mapping[str, str]
    read_conditions: Callable[[], DeviceConditions]
    notify: Callable[[str, float], None] = lambda *_: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledModel:
    """A model profile, its file, and how much of it was measured now and how much earlier."""

    profile: ModelProfile
    path: Path
    measured: int
    recalled: int
    problems: tuple[str, ...] = ()


def settle_request(wish: ProfilingWish, notify: Callable[[str], None]) -> Request:
    """Read the model's facts for the wish.

    Raises:
        InputError: the server cannot run the request, or a component is not the model's.
    """
    entry = wish.entry
    settled = entry.settle(wish.workload or entry.default_workload)
    builders = entry.build(entry.configs, settled.workload)
    wanted = tuple(builders) if wish.components is None else wish.components
    unknown = sorted(set(wanted) - set(builders))
    if unknown or not wanted:
        raise InputError(f"--component {', '.join(unknown)}: {entry.name} has {', '.join(builders)}")
    facts = load_entry_facts(entry, settled.workload, notify=notify)
    return Request(settled=settled, facts=facts, builders={name: builders[name] for name in builders if name in wanted})


def profile_model(wish: ProfilingWish, request: Request, target: ProfiledDevice, around: Surroundings) -> ProfiledModel:
    """Measure every distinct piece of the wanted components, one at a time, and keep the profile.

    Raises:
        ProfileError: a record or the profile cannot be kept. What was kept before stays.
        DeviceError: the device failed.
    """
    conditions = Conditions(kind=target.kind, versions=dict(around.versions), options=wish.options)
    journal = open_journal(around.store.journal_folder, conditions)
    keeper = JournalKeeper(journal, wish.effort, anew=wish.anew)
    bench = Bench(
        device=target.device,
        protocol=target.choose_protocol(wish.effort),
        watch=Watch(around.read_conditions, around.now),
        keeper=keeper,
        notify=lambda text: around.notify(text, 0.0),
    )
    settings = RunSettings(bench=bench, options=wish.options, seed=wish.seed)
    captured: dict[str, CapturedComponent] = {}
    pieces: list[MeasuredPiece] = []
    for position, (name, build) in enumerate(request.builders.items()):
        count = len(request.builders)

        def notify(text: str, share: float, position: int = position, count: int = count) -> None:
            around.notify(text, (position + share) / count)

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
    return ProfiledModel(
        profile=profile,
        path=around.store.save_model(profile),
        measured=keeper.remembered,
        recalled=keeper.recalled,
        problems=journal.problems,
    )
