"""One search from inputs to everything that a run folder holds: what ``autotune search`` and ``autotune.search`` do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from autotune.collector import paused_collector
from autotune.export.dialects import RECORDED_TARGET
from autotune.export.server_command import ServerCommand
from autotune.export.sglang import Export
from autotune.study import StudySettings
from autotune.workflows.advice import find_advice
from autotune.workflows.command_plan import check_facts
from autotune.workflows.document import build_document
from autotune.workflows.export_run import default_model_path, export_document, is_server
from autotune.workflows.fixed_settings import fix_settings
from autotune.workflows.host_curve import find_host_curve
from autotune.workflows.inputs import Inputs, inputs_of_catalog
from autotune.workflows.outputs import RunFiles
from autotune.workflows.planned import NothingFits, Planned
from autotune.workflows.planning import PlanningSettings, make_plan
from autotune.workflows.variant_choice import AUTO_VARIANT, choose_variant
from reports.run_data import HostPoint
from runtime.errors import InexpressibleError, InputError, UnsupportedError
from runtime.plan_document import PlanDocument

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchWish:
    """What was asked of one search besides its inputs.

    Attributes:
        fixed: ``component.knob=value`` that stays as it is.
        command: a server's command; what it places stays, too.
        takes_fastest_variant: whether the inputs stand for the fastest variant with the same output.
        advises: whether other switches and hosts are looked at.
        study: the Optuna sweep, without its key; None for none.
        target: server version that flags are for.
        model_path: what the server is told to serve; None for the command's, the checkpoint's or the model's own.
        typed: the command that repeats the search.
        created: when it was asked for.
    """

    fixed: tuple[str, ...] = ()
    command: ServerCommand | None = None
    takes_fastest_variant: bool = False
    advises: bool = True
    study: StudySettings | None = None
    target: str = RECORDED_TARGET
    model_path: str | None = None
    typed: str
    created: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """A run that fits.

    Attributes:
        files: what its folder holds.
        refusal: why the wished-for server version can have no flags; ``files`` then has those of the simulated one.
    """

    files: RunFiles
    refusal: InexpressibleError | None


def search_run(
    inputs: Inputs,
    settings: PlanningSettings,
    wish: SearchWish,
    *,
    notify: Notify = lambda _: None,
    study_progress: Callable[[int, int], None] | None = None,
) -> FoundRun | NothingFits:
    """Search, look at what else would help, and export the plan.

    Raises:
        InputError: a setting to keep that contradicts another, or that the model cannot have.
        UnsupportedError: the engine cannot run this.
    """
    if wish.command is not None:
        check_facts(wish.command, inputs.facts)
    fixed = fix_settings(inputs.facts.model, wish.fixed, wish.command)
    settings = replace(settings, space=replace(settings.space, fixed=fixed))
    decision = ""
    hosts: tuple[HostPoint, ...] = ()
    with paused_collector():
        if wish.takes_fastest_variant:
            inputs, decision = _take_fastest_variant(inputs, settings, notify)
        answer = make_plan(
            inputs.facts,
            inputs.target,
            replace(settings, study=_key_study(wish.study, inputs, settings)),
            alternatives=inputs.alternatives,
            notify=notify,
            study_progress=study_progress,
        )
        if isinstance(answer, NothingFits):
            return answer
        if wish.advises:
            answer = _advise(answer, inputs, settings, notify)
            found = (answer.solution.optimum, answer.solution.chosen)
            hosts = find_host_curve(inputs.facts, inputs.target, settings, found, notify)
    document = build_document(answer, inputs.profile, inputs.target, settings, command=wish.typed, created=wish.created)
    if decision:
        document = replace(document, findings=(document.findings[0], decision, *document.findings[1:]))
    served = wish.command.model_path if wish.command is not None else inputs.model_path
    export, path, refusal = _export(document, wish.target, wish.model_path or served)
    files = RunFiles(
        document=document,
        profile=inputs.profile,
        curve=answer.curve,
        host_curve=hosts,
        study=answer.study,
        export=export,
        model_path=path,
    )
    return FoundRun(files=files, refusal=refusal)


def is_auto(variant: str | None) -> bool:
    """Whether the fastest variant was asked for instead of one by name."""
    return variant is not None and variant.strip().casefold() == AUTO_VARIANT


def _take_fastest_variant(inputs: Inputs, settings: PlanningSettings, notify: Notify) -> tuple[Inputs, str]:
    """``inputs``, read for the model as released, for its fastest variant with the same output; and why.

    Raises:
        InputError: the facts come from no catalog model.
        UnsupportedError: several ranks run it; how variants are divided between them is not known.
    """
    if inputs.facts.tp_size > 1:
        raise UnsupportedError(
            f"--variant {AUTO_VARIANT} with --tp-size {inputs.facts.tp_size}: how variants are divided between GPUs is "
            "not known; leave one out"
        )
    catalog = inputs.catalog
    if catalog is None:
        raise InputError(
            f"--variant {AUTO_VARIANT} chooses among the variants of a catalog model: leave it out with a saved "
            "profile or a checkpoint"
        )
    choice = choose_variant(catalog.entry, inputs.facts, inputs.target, settings, notify)
    if choice.name:
        facts = catalog.load(inputs.facts.workload, choice.name)
        inputs = inputs_of_catalog(catalog, facts, inputs.target)
    return inputs, choice.describe()


def _advise(planned: Planned, inputs: Inputs, settings: PlanningSettings, notify: Notify) -> Planned:
    """``planned`` with what other switches would give."""
    found = find_advice(planned.chosen, inputs.facts, inputs.target, settings, catalog=inputs.catalog, notify=notify)
    return replace(planned, advice=found.advice, what_ifs=(*planned.what_ifs, *found.what_ifs))


def _key_study(study: StudySettings | None, inputs: Inputs, planning: PlanningSettings) -> StudySettings | None:
    """``study`` with a key that holds all that a score depends on besides the space and the cap."""
    if study is None:
        return None
    host = inputs.target.host
    machine = (host.available_bytes, host.pins, host.page_cache_bytes)
    parts = (*machine, planning.engine, planning.reserve_bytes, planning.peak_quantile)
    return replace(study, key=" ".join(map(str, (inputs.profile.digest, *parts))))


def _export(
    document: PlanDocument, target: str, model_path: str | None
) -> tuple[Export | None, str, InexpressibleError | None]:
    """Flags for ``target``, or for the simulated version with the reason why ``target`` cannot have any.

    A plan for an engine that is no server has none.
    """
    if not is_server(document.plan.engine):
        return None, default_model_path(document.model.name), None
    try:
        return *export_document(document, target=target, model_path=model_path), None
    except InexpressibleError as refusal:
        return *export_document(document, model_path=model_path), refusal
