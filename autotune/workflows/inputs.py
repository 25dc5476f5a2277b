"""Reads what a planning command works on: facts and target, from the catalog or from a saved profile."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.capture_cache import load_model_facts
from autotune.catalog.registry import CATALOG, find_model
from autotune.checkpoint.facts import load_checkpoint_facts
from autotune.cli.console import print_error
from autotune.cli.measured_inputs import MeasuredInputs, Request, read_named, read_own_card, read_own_device
from autotune.cli.options import DEFAULT_MODEL, build_workload, optional_bytes, optional_rate
from autotune.detect import Detection, probe_gpu
from autotune.measurements.model_profile import FORMAT as MODEL_PROFILE_FORMAT
from autotune.measurements.node_profile import FORMAT as NODE_PROFILE_FORMAT
from autotune.model_facts import ModelFacts
from autotune.profile import Profile, load_profile
from autotune.tensor_parallel.shard import shard_facts
from autotune.workflows.advice import Catalog
from autotune.workflows.alternatives import Alternative, list_alternatives
from autotune.workflows.host import HostWish
from autotune.workflows.planning import PlanningSettings
from autotune.workflows.ranks import RankWish, take_one_rank
from autotune.workflows.stored_profiles import is_own_device
from autotune.workflows.target import Target, resolve_target, target_of_profile
from autotune.workflows.variant_choice import AUTO_VARIANT, choose_variant
from autotune.workload import Workload
from runtime.documents import read_format
from runtime.errors import InputError, UnsupportedError

_NODE_PROFILE_ALONE = "--node-profile goes beside --profile with a model profile: name one, or leave it out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Facts, target, the profile they make, and other settings to ask about.

    Attributes:
        catalog: the catalog's entry and its other facts, when the facts come from there.
        model_path: where a checkpoint was read; None for the catalog and for profiles.
    """

    facts: ModelFacts
    target: Target
    profile: Profile
    alternatives: tuple[Alternative, ...]
    catalog: Catalog | None = None
    model_path: str | None = None


def read_inputs(  # noqa: PLR0913 - one parameter per option
    *,
    model: str | None,
    profile: Path | None,
    node_profile: Path | None = None,
    device: str | None,
    vram_cap: str | None,
    host: HostWish,
    link_rate: str | None,
    ranks: RankWish,
    variant: str | None,
    shape: Mapping[str, Any],
    refresh: bool,
    notify: Callable[[str], None],
    is_compared: bool = False,
) -> Inputs:
    """Load or capture facts, or take measured ones, and choose the target.

    ``is_compared`` says that other requests or variants, which may not have been measured, are compared with this one.

    Raises:
        InputError: unknown model or device, a request the server cannot run, or options that contradict each other.
        UnsupportedError: ranks of a model that nobody knows how to divide.
    """
    limits = _Limits(
        vram_cap_bytes=optional_bytes(vram_cap),
        host=host,
        pinned_bytes_per_s=optional_rate(link_rate),
        ranks=ranks,
    )
    if node_profile is not None and profile is None:
        raise InputError(_NODE_PROFILE_ALONE)
    if profile is not None:
        given = {"model": model, "device": device, "variant": variant, **shape}
        typed = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
        if typed:
            raise InputError(f"--profile already says {', '.join(typed)}: leave out one or the other")
        form = read_format(profile)
        if form == MODEL_PROFILE_FORMAT:
            return _measured_inputs(read_named(profile, node_profile), limits)
        if form == NODE_PROFILE_FORMAT:
            raise InputError(
                f"{profile} is a node profile, which has no model: give it as --node-profile, beside a "
                "--profile that has one"
            )
        saved = load_profile(profile)
        if node_profile is not None:
            raise InputError(_NODE_PROFILE_ALONE)
        target = target_of_profile(
            saved,
            vram_cap_bytes=limits.vram_cap_bytes,
            host=limits.host,
            pinned_bytes_per_s=limits.pinned_bytes_per_s,
        )
        return _inputs_alone(saved.facts, target, limits)
    checkpoint = _find_checkpoint(model)
    if checkpoint is not None:
        if variant is not None:
            raise InputError(f"--variant {variant}: variants are the catalog's; a checkpoint is planned for as it is")
        if is_own_device(device):
            raise InputError(f"--device {device} plans from a profile, and checkpoints are not profiled: name a card")
        facts = load_checkpoint_facts(checkpoint, shape, refresh=refresh, progress=notify)
        target = _resolve_target(device, limits, probe_gpu() if device is None else None)
        found_alone = replace(_inputs_alone(facts, target, limits), model_path=str(checkpoint))
        print_error(f"note: {facts.notes[0]}")
        return found_alone
    entry = find_model(model or DEFAULT_MODEL)
    workload = build_workload(entry.name, **shape)
    catalog = Catalog(entry=entry, load=lambda wish, name: load_model_facts(entry.name, wish, name, progress=notify))
    request = Request(entry=entry, workload=workload, variant=variant)

    def load_facts() -> ModelFacts:
        notify(f"reading {entry.name}")
        return load_model_facts(entry.name, workload, variant, refresh=refresh, progress=notify)

    if device is not None and is_own_device(device):
        return _measured_inputs(read_own_device(device, request), limits)
    detection = probe_gpu() if device is None else None
    notes: tuple[str, ...] = ()
    if detection is not None:
        found = read_own_card(detection, request, load_facts, is_compared=is_compared)
        if isinstance(found, MeasuredInputs):
            return _measured_inputs(found, limits, catalog)
        notes = found
    target = replace(_resolve_target(device, limits, detection), notes=notes)
    return _catalog_inputs(catalog, *take_one_rank(load_facts(), target, limits.ranks))


def _measured_inputs(found: MeasuredInputs, limits: _Limits, catalog: Catalog | None = None) -> Inputs:
    """Inputs of measured figures; nothing else is compared with measured compute, since that was not measured."""
    target = target_of_profile(
        found.profile,
        vram_cap_bytes=limits.vram_cap_bytes,
        host=limits.host,
        pinned_bytes_per_s=limits.pinned_bytes_per_s,
        place=found.place,
    )
    facts = found.profile.facts
    if not found.has_compute and catalog is not None:
        return _catalog_inputs(catalog, *take_one_rank(facts, target, limits.ranks))
    return _inputs_alone(facts, target, limits)


def _inputs_alone(facts: ModelFacts, target: Target, limits: _Limits) -> Inputs:
    """Inputs of facts with which nothing of a catalog is compared."""
    own, own_target = take_one_rank(facts, target, limits.ranks)
    return Inputs(facts=own, target=own_target, profile=_profile(own, own_target), alternatives=())


def _catalog_inputs(catalog: Catalog, facts: ModelFacts, target: Target) -> Inputs:
    """Inputs of ``facts``, one rank's or one card's; variants, which are not divided, are compared with one card's."""

    def load_alternative(wish: Workload) -> ModelFacts:
        return shard_facts(catalog.load(wish, facts.variant or None), facts.tp_size)

    return Inputs(
        facts=facts,
        target=target,
        profile=_profile(facts, target),
        alternatives=list_alternatives(facts.workload, catalog.entry.smaller_canvas, load_alternative),
        catalog=catalog if facts.tp_size == 1 else None,
    )


def is_auto(variant: str | None) -> bool:
    """Whether the fastest variant was asked for instead of one by name."""
    return variant is not None and variant.strip().casefold() == AUTO_VARIANT


def take_fastest_variant(
    inputs: Inputs, settings: PlanningSettings, notify: Callable[[str], None]
) -> tuple[Inputs, str]:
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
        inputs = _catalog_inputs(catalog, facts, inputs.target)
    return inputs, choice.describe()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """What was typed about device and host memory, the link, and several cards."""

    vram_cap_bytes: int | None
    host: HostWish
    pinned_bytes_per_s: float | None
    ranks: RankWish


def _find_checkpoint(model: str | None) -> Path | None:
    """The path that ``model`` means: a name of the catalog means the catalog, a hub repository's unless it is there."""
    if model is None:
        return None
    path = Path(os.path.expanduser(model))  # noqa: PTH111 - Path's raises for a user who does not exist
    names = {name.casefold() for entry in CATALOG for name in entry.names}
    is_listed, is_path = model.strip().casefold() in names, "/" in model or os.sep in model
    exists = os.path.exists(path)  # noqa: PTH110 - Path's raises for a name that is too long
    if is_path:
        return path if exists or not is_listed else None
    return path if exists and not is_listed else None


def _resolve_target(device: str | None, limits: _Limits, detection: Detection | None) -> Target:
    return resolve_target(
        device=device,
        detection=detection,
        vram_cap_bytes=limits.vram_cap_bytes,
        host=limits.host,
        pinned_bytes_per_s=limits.pinned_bytes_per_s,
    )


def _profile(facts: ModelFacts, target: Target) -> Profile:
    return Profile(
        facts=facts,
        rates=target.rates,
        context_bytes=target.context_bytes,
        device=target.device,
        uncertainty=target.uncertainty,
    )
