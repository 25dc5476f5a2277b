"""The plan that a command gives: what its options place, and what they leave to the server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import MappingProxyType

from autotune.catalog.entry import CatalogEntry
from autotune.catalog.registry import find_model
from autotune.export.component_groups import LAYERWISE_DEFAULT_GROUP, is_dit
from autotune.export.read_back import plan_from_options
from autotune.export.recipe import recipe_flags
from autotune.export.server_command import ServerCommand
from autotune.export.sglang_options import ServerOptions
from autotune.model_facts import ModelFacts
from autotune.server_default import (
    DECODES_SINGLE_TILES,
    PARKS_NON_LAYER_WEIGHTS,
    DefaultPlacement,
    PerformanceMode,
    Stated,
    default_modes,
    estimate_loaded_bytes,
    parse_performance_mode,
)
from autotune.workload import Recipe
from runtime.deployment import Deployment
from runtime.engines.sglang import SglangEngine
from runtime.errors import InputError, UnsupportedError
from runtime.model_spec import ModelSpec
from runtime.plan import Plan
from runtime.residency import Mode

# The component by which the server sees whether options place a group.
_FIRST_OF_GROUP = {"dit": "transformer", **{group: group for group in LAYERWISE_DEFAULT_GROUP}}
_PLACES_NOTHING_BY_ITSELF = frozenset({PerformanceMode.MANUAL, PerformanceMode.SPEED})
_ADALN_ONLINE = "adaln-online"
_H3 = "H3"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlan:
    """What a command makes of a model.

    Attributes:
        plan: a placement for every component; explicit where the options place the component that is used first, since
            the server keeps that one's head between requests only where it chose the placement.
        chosen_by_server: components whose mode the options leave to the server.
        notes: what the prediction does not follow, and what the server would ignore in silence.
    """

    plan: Plan
    chosen_by_server: tuple[str, ...]
    notes: tuple[str, ...]


def find_served_model(command: ServerCommand, typed: str | None) -> str:
    """What to plan for, as ``--model`` takes it: what was typed, a checkpoint that is there, or a catalog model.

    Raises:
        InputError: the command serves another model than was typed, or one that nobody knows.
    """
    entry = _find_entry(command)
    if typed is not None:
        check_same_model(command, typed)
        return typed
    if os.path.exists(os.path.expanduser(command.model_path)):  # noqa: PTH110, PTH111 - Path's raise for odd names
        # A bare name would be looked up in the catalog first; the server takes what is there.
        return command.model_path if os.sep in command.model_path else f"{os.curdir}{os.sep}{command.model_path}"
    if entry is None:
        raise InputError(
            f"the command serves {command.model_path!r}, which is neither in the catalog nor on this disk: name the "
            "model with --model"
        )
    return entry.name


def check_same_model(command: ServerCommand, name: str) -> None:
    """Refuse a model that is not the one that ``command`` serves, as far as both are in the catalog.

    Raises:
        InputError: they are two models.
    """
    served = _find_entry(command)
    named = _look_up(name)
    if served is not None and named is not None and served is not named:
        raise InputError(
            f"the command serves {command.model_path!r} ({served.name}), which is not {name!r}: leave one out"
        )


def _find_entry(command: ServerCommand) -> CatalogEntry | None:
    """The catalog's entry for the model path: the hub repository, or the last name of a path on another machine."""
    model_id = command.given.get("--model-id", ("",))[0]
    names = (command.model_path, model_id, PurePath(command.model_path.rstrip("/")).name)
    return next(filter(None, map(_look_up, names)), None)


def _look_up(name: str) -> CatalogEntry | None:
    try:
        return find_model(name)
    except InputError:
        return None


def find_variant(command: ServerCommand, model: str) -> str | None:
    """The variant of the catalog model ``model`` that ``command`` runs; None for the model as released."""
    entry = _look_up(model)
    for variant in entry.variants if entry is not None else ():
        wanted = command.adaln_online if variant.name == _ADALN_ONLINE else command.has_flags(variant.flags)
        if wanted:
            return variant.name
    return None


def find_recipe(command: ServerCommand, model: str) -> Recipe | None:
    """The quality recipe that ``command`` fixes for ``model``; None when it is left to the request."""
    entry = _look_up(model)
    is_h3 = entry is not None and entry.name == _H3
    decodes_single_tiles = is_h3 and parse_performance_mode(command.performance_mode) in DECODES_SINGLE_TILES
    if decodes_single_tiles or command.quality == "exact":
        return Recipe.EXACT
    return None if command.quality is None else Recipe.DEFAULT


def check_facts(command: ServerCommand, facts: ModelFacts) -> None:
    """Refuse facts of another model, variant, recipe or number of ranks than ``command`` runs, e.g. of a saved profile.

    Raises:
        InputError: they differ.
    """
    name, recipe = facts.model.name, facts.workload.recipe
    check_same_model(command, name)
    wanted = find_recipe(command, name)
    if wanted not in {None, recipe}:
        raise InputError(f"the command runs the recipe {wanted}, and the recipe {recipe} was asked for: leave one out")
    if command.tp_size != facts.tp_size:
        raise InputError(
            f"the command runs {command.tp_size} tensor parallel ranks, and the figures are of one of {facts.tp_size}: "
            "leave out --profile, or change the command"
        )
    variant = find_variant(command, name) or ""
    if variant != facts.variant:
        raise InputError(
            f"the command runs {variant or 'the model as released'}, and the figures are of "
            f"{facts.variant or 'the model as released'}: leave out --variant or --profile, or change the command"
        )


def plan_command(
    command: ServerCommand, facts: ModelFacts, *, device_total_bytes: int, device_free_bytes: int
) -> CommandPlan:
    """The plan that the server follows when it is started with ``command``.

    Args:
        command: what somebody runs.
        facts: the model that it serves; its deployment holds the server's figures for it.
        device_total_bytes: memory of the card.
        device_free_bytes: what is free on it before the server loads anything.

    Raises:
        FlagError: what the server refuses, or a plan cannot hold; a component without layers that should stream.
        UnsupportedError: something is left to the server, and its configuration for the model is not known.
    """
    model = facts.model
    left = tuple(item.name for item in model.components if command.options.explicit_mode(item.name) is None)
    options, defaults = command.options, dict[str, DefaultPlacement]()
    if left:
        defaults = _choose_defaults(command, model, device_total_bytes, device_free_bytes)
        options = _with_dit_prefetch(options, [defaults[name] for name in left if is_dit(name)])
    plan = plan_from_options(
        options,
        model,
        engine=SglangEngine.name,
        default_modes={name: default.mode for name, default in defaults.items()},
    )
    uses = facts.request.uses
    explicit = uses[0].component not in left if uses else plan.explicit
    return CommandPlan(
        plan=replace(plan, explicit=explicit), chosen_by_server=left, notes=_list_notes(command, model, plan)
    )


def _choose_defaults(
    command: ServerCommand, model: ModelSpec, total_bytes: int, free_bytes: int
) -> dict[str, DefaultPlacement]:
    mode = parse_performance_mode(command.performance_mode)
    if model.deployment is None and mode not in _PLACES_NOTHING_BY_ITSELF:
        raise UnsupportedError(
            f"the command leaves placements to the server, which has no known configuration for {model.name}: place "
            "every component with --component-residency"
        )
    options = command.options
    return default_modes(
        model.deployment or Deployment(makes_images=False),
        {component.name: estimate_loaded_bytes(component) for component in model.components},
        device_free_bytes=free_bytes,
        performance_mode=mode,
        unstreamable=frozenset(component.name for component in model.components if component.max_layers == 0),
        stated=Stated(
            groups=frozenset(
                group for group, first in _FIRST_OF_GROUP.items() if options.explicit_mode(first) is not None
            ),
            selects_streams=options.layerwise is not None or options.dit_layerwise is True,
            device_total_bytes=total_bytes,
        ),
    )


def _with_dit_prefetch(options: ServerOptions, dits: list[DefaultPlacement]) -> ServerOptions:
    """``options`` with the prefetch size that the server gives every DiT when it chose itself that one streams."""
    value = max((dit.prefetch_value for dit in dits if dit.mode is Mode.LAYERWISE_OFFLOAD), default=0.0)
    if not value or "prefetch" in options.dit_knobs:
        return options
    knobs: Mapping[str, float | str] = MappingProxyType({**options.dit_knobs, "prefetch": value})
    return replace(options, dit_knobs=knobs)


def _list_notes(command: ServerCommand, model: ModelSpec, plan: Plan) -> tuple[str, ...]:
    names = [component.name for component in model.components]
    notes = list(command.options.warnings_for(names))
    streams = any(plan.streams(name) for name in names)
    if streams and parse_performance_mode(command.performance_mode) in PARKS_NON_LAYER_WEIGHTS:
        notes.append(
            "--performance-mode memory moves a streamed component's weights outside its layers back to the host after "
            "each use where they exceed a tenth of the free device memory, which is not modelled: the peak is at most "
            "what is shown, and each use starts later by that copy"
        )
    notes += [f"the prediction does not follow {words}" for words in list_unmodelled(command, model.name)]
    return tuple(dict.fromkeys(notes))


def list_carried_over(command: ServerCommand, model: ModelSpec) -> list[str]:
    """What somebody must know who replaces the placements of ``command`` by those of a searched plan."""
    names = [component.name for component in model.components]
    notes = list(command.options.warnings_for(names))
    notes += [f"the prediction does not follow {words}" for words in list_unmodelled(command, model.name)]
    exported = recipe_flags(model.name, Recipe.DEFAULT).flags
    others = [words for words in command.ignored if words.partition(" ")[0] not in exported]
    if others:
        notes.append(f"the exported flags leave out what the base command says besides: {' '.join(others)}")
    return list(dict.fromkeys(notes))


def list_unmodelled(command: ServerCommand, model: str) -> list[str]:
    """What ``command`` asks for that a prediction for the catalog model ``model`` does not follow."""
    variant, entry = find_variant(command, model), _look_up(model)
    flags = entry.find_variant(variant).flags if entry is not None and variant is not None else ()
    return [words for words in command.unmodelled if words.partition(" ")[0] not in flags]
