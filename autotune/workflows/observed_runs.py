"""What predicts observed runs: facts, device, host and plan of each, or why the program cannot express one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.fidelity.calibrated_profile import find_unseen_bytes
from autotune.fidelity.case import Case, Ground
from autotune.fidelity.forwards import Forwards, choose_forwards
from autotune.fidelity.passes import find_denoisers, with_forwards
from autotune.hardware import find_device
from autotune.model_facts import ModelFacts
from autotune.observed.observation import Base, Observation, Reason, Refused, Scope, Setup
from autotune.profile import Profile
from autotune.tensor_parallel.shard import shard_facts
from autotune.workflows.host import HostWish
from autotune.workflows.planning import PlanningSettings, resident_plan, server_default_plan, streamed_plan
from autotune.workflows.ranks import RankWish, take_one_rank
from autotune.workflows.settings_text import apply_settings
from autotune.workflows.target import Target, resolve_target, target_of_profile
from autotune.workload import Workload
from runtime.engines.registry import DEFAULT_ENGINE
from runtime.errors import InputError, UnsupportedError
from runtime.plan import Plan
from runtime.residency import Mode
from runtime.target_summary import DeviceSummary

LoadFacts = Callable[[str, Workload, str | None], ModelFacts]
"""Model, workload and variant (None for as released) -> facts, as ``autotune.capture_cache.load_model_facts``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCases:
    """What became of observed runs.

    Attributes:
        cases: one per run that the program can express, in order; runs of one set-up share their ground.
        refused: the others.
        devices: device of a set-up -> its figures and their sources.
    """

    cases: tuple[Case, ...]
    refused: tuple[Refused, ...]
    devices: dict[str, DeviceSummary]


def build_cases(
    observations: Sequence[Observation],
    load_facts: LoadFacts,
    profile: Profile | None = None,
    engine: str = DEFAULT_ENGINE,
) -> BuiltCases:
    """What predicts each of ``observations``.

    Args:
        observations: the runs.
        load_facts: reads a model; called once per set-up.
        profile: gives the rates of runs on its device, and the facts of runs of its own model and request; presets and
            ``load_facts`` give all others.
        engine: whose behaviour is simulated.

    Raises:
        MissingDependencyError: ``load_facts`` needs a package that is not there.
    """
    cases: dict[int, Case] = {}
    refused: dict[int, Refused] = {}
    devices: dict[str, DeviceSummary] = {}
    settings = PlanningSettings(engine=engine)
    for setup in dict.fromkeys(observation.setup for observation in observations):
        own = {index: run for index, run in enumerate(observations) if run.setup == setup}
        try:
            facts, target = _find_basis(setup, load_facts, profile)
            devices.setdefault(target.device.name, target.device)
        except (InputError, UnsupportedError) as error:
            refused |= {index: _refuse(run, error) for index, run in own.items()}
            continue
        plans: dict[int, Plan] = {}
        for index, run in own.items():
            try:
                plans[index] = _build_plan(run, facts, target, settings)
            except (InputError, UnsupportedError) as error:
                refused[index] = _refuse(run, error)
        link = max(find_device(setup.device).link_limit_bytes_per_s, target.rates.pinned_bytes_per_s)
        forwards = choose_forwards(
            [(own[index], plan) for index, plan in plans.items()], facts, link, setup.forwards_per_step
        )
        ground = Ground(
            facts=with_forwards(facts, forwards.count),
            rates=target.rates,
            context_bytes=target.context_bytes,
            host=target.host_memory,
            engine=engine,
            unseen_bytes=find_unseen_bytes(profile) if profile is not None and is_of_device(profile, setup) else None,
        )
        for index, plan in plans.items():
            try:
                cases[index] = Case(_note_forwards(own[index], forwards), plan, ground)
            except InputError as error:
                refused[index] = _refuse(own[index], error)
    return BuiltCases(
        cases=tuple(case for _, case in sorted(cases.items())),
        refused=tuple(row for _, row in sorted(refused.items())),
        devices=devices,
    )


def _refuse(run: Observation, error: Exception) -> Refused:
    return Refused(name=run.name, where=run.where, reason=Reason.NOT_EXPRESSIBLE, text=str(error))


def _note_forwards(run: Observation, forwards: Forwards) -> Observation:
    if not forwards.why:
        return run
    setup = replace(run.setup, forwards_per_step=forwards.count)
    return replace(run, setup=setup, assumed=(*run.assumed, forwards.why))


def _find_basis(setup: Setup, load_facts: LoadFacts, profile: Profile | None) -> tuple[ModelFacts, Target]:
    """Facts and target of one rank of a set-up."""
    host = HostWish(memory_bytes=setup.host_bytes, pins=setup.pins)
    own = profile if profile is not None and is_of_device(profile, setup) else None
    if own is not None and (own.facts.model.name, own.facts.variant, own.facts.workload) == (
        setup.model,
        setup.variant,
        setup.workload,
    ):
        facts = own.facts
    else:
        facts = load_facts(setup.model, setup.workload, setup.variant or None)
    if own is None:
        target = resolve_target(
            device=setup.device, detection=None, vram_cap_bytes=None, host=host, pinned_bytes_per_s=None
        )
        return take_one_rank(facts, target, RankWish(tp_size=setup.tp_size))
    target = target_of_profile(own, vram_cap_bytes=None, host=host, pinned_bytes_per_s=None)
    return shard_facts(facts, setup.tp_size), replace(target, ranks=setup.tp_size)


def is_of_device(profile: Profile, setup: Setup) -> bool:
    """Whether the rates of ``profile`` are those of one rank of ``setup``."""
    return (profile.device.name, profile.facts.tp_size) == (setup.device, setup.tp_size)


def _build_plan(run: Observation, facts: ModelFacts, target: Target, settings: PlanningSettings) -> Plan:
    match run.base:
        case Base.STREAMED:
            base = streamed_plan(facts, settings.engine)
        case Base.RESIDENT:
            base = resident_plan(facts, settings.engine)
        case Base.SERVER_DEFAULT:
            default = server_default_plan(facts, target, settings)
            if default is None:
                raise UnsupportedError(
                    f"what the server chooses by itself for {facts.model.name} is not known: give the mode of every "
                    "component in a column `settings`"
                )
            base = default
    return apply_settings(base, facts.model, (*_hold_denoisers(run, facts), *run.settings))


def _hold_denoisers(run: Observation, facts: ModelFacts) -> tuple[str, ...]:
    """Settings that keep denoisers still where only other components were observed and nobody said where they were.

    Their heads would be copied ahead beside what was observed; a table of one component's own time says that nothing
    else moved.
    """
    denoisers = find_denoisers(facts)
    is_of_others = bool(run.latencies) and all(
        latency.scope in {Scope.USE, Scope.MOVE_DOWN} and not set(latency.component.split("+")) & set(denoisers)
        for latency in run.latencies
    )
    if not is_of_others or run.ran_out or run.peak is not None:
        return ()
    placed = {setting.partition(".")[0] for setting in run.settings}
    return tuple(f"{name}.mode={Mode.RESIDENT}" for name in denoisers if name not in placed)
