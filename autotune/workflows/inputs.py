"""What planning works on: facts and target, from the catalog, a checkpoint, or a saved or measured profile."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autotune.capture_cache import load_model_facts
from autotune.catalog.registry import CATALOG, find_model
from autotune.checkpoint.facts import load_checkpoint_facts
from autotune.detect import Detection, probe_gpu
from autotune.measurements.model_profile import FORMAT as MODEL_PROFILE_FORMAT
from autotune.measurements.node_profile import FORMAT as NODE_PROFILE_FORMAT
from autotune.model_facts import ModelFacts
from autotune.profile import Profile, load_profile
from autotune.tensor_parallel.shard import shard_facts
from autotune.workflows.advice import Catalog
from autotune.workflows.alternatives import Alternative, list_alternatives
from autotune.workflows.host import HostWish
from autotune.workflows.measured_inputs import MeasuredInputs, Request, read_named, read_own_card, read_own_device
from autotune.workflows.ranks import RankWish, take_one_rank
from autotune.workflows.stored_profiles import is_own_device
from autotune.workflows.target import Target, resolve_target, target_of_profile
from autotune.workload import Workload
from runtime.documents import read_format
from runtime.errors import InputError

_NODE_PROFILE_ALONE = "--node-profile goes beside --profile with a model profile: name one, or leave it out"

DEFAULT_MODEL = "H3"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputWish:
    """What was asked for; None where nothing was.

    Attributes:
        model: a name of the catalog, or the path of a checkpoint.
        profile, node_profile: files of profiles.
        device: a preset, or a device of this machine as profiled.
        vram_cap_bytes: device memory that the server may use.
        host: the host.
        pinned_bytes_per_s: rate of the link to the device.
        ranks: several cards.
        variant: another way to run the model, by name.
        shape: fields of ``Workload``, with None or left out for the model's own.
        refresh: whether the model's classes are read again.
        is_compared: whether other requests or variants, which may not have been measured, are compared with this one.
    """

    model: str | None = None
    profile: Path | None = None
    node_profile: Path | None = None
    device: str | None = None
    vram_cap_bytes: int | None = None
    host: HostWish = field(default_factory=HostWish)
    pinned_bytes_per_s: float | None = None
    ranks: RankWish = field(default_factory=RankWish)
    variant: str | None = None
    shape: Mapping[str, Any] = field(default_factory=dict)
    refresh: bool = False
    is_compared: bool = False


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


def build_workload(model: str, shape: Mapping[str, Any]) -> Workload:
    """The model's default workload with what ``shape`` says; None in it means nothing.

    Raises:
        InputError: unknown model, or a size beyond any pipeline's.
    """
    asked = {name: value for name, value in shape.items() if value is not None}
    return replace(find_model(model).default_workload, **asked)


def read_inputs(wish: InputWish, notify: Callable[[str], None] = lambda _: None) -> Inputs:
    """Load or capture facts, or take measured ones, and choose the target.

    Raises:
        InputError: unknown model or device, a request the server cannot run, or wishes that contradict each other.
        UnsupportedError: ranks of a model that nobody knows how to divide.
    """
    if wish.profile is not None:
        return _profile_inputs(wish, wish.profile)
    if wish.node_profile is not None:
        raise InputError(_NODE_PROFILE_ALONE)
    checkpoint = find_checkpoint(wish.model)
    if checkpoint is not None:
        return _checkpoint_inputs(wish, checkpoint, notify)
    entry = find_model(wish.model or DEFAULT_MODEL)
    workload = build_workload(entry.name, wish.shape)
    catalog = Catalog(entry=entry, load=lambda other, name: load_model_facts(entry.name, other, name, progress=notify))
    request = Request(entry=entry, workload=workload, variant=wish.variant)

    def load_facts() -> ModelFacts:
        notify(f"reading {entry.name}")
        return load_model_facts(entry.name, workload, wish.variant, refresh=wish.refresh, progress=notify)

    if wish.device is not None and is_own_device(wish.device):
        return _measured_inputs(read_own_device(wish.device, request), wish)
    detection = probe_gpu() if wish.device is None else None
    notes: tuple[str, ...] = ()
    if detection is not None:
        found = read_own_card(detection, request, load_facts, is_compared=wish.is_compared)
        if isinstance(found, MeasuredInputs):
            return _measured_inputs(found, wish, catalog)
        notes = found
    target = replace(_resolve_target(wish, detection), notes=notes)
    return inputs_of_catalog(catalog, *take_one_rank(load_facts(), target, wish.ranks))


def _profile_inputs(wish: InputWish, profile: Path) -> Inputs:
    """Inputs of a file that says what is planned for."""
    given = {"model": wish.model, "device": wish.device, "variant": wish.variant, **wish.shape}
    typed = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    if typed:
        raise InputError(f"--profile already says {', '.join(typed)}: leave out one or the other")
    form = read_format(profile)
    if form == MODEL_PROFILE_FORMAT:
        return _measured_inputs(read_named(profile, wish.node_profile), wish)
    if form == NODE_PROFILE_FORMAT:
        raise InputError(
            f"{profile} is a node profile, which has no model: give it as --node-profile, beside a --profile that has "
            "one"
        )
    saved = load_profile(profile)
    if wish.node_profile is not None:
        raise InputError(_NODE_PROFILE_ALONE)
    target = target_of_profile(
        saved, vram_cap_bytes=wish.vram_cap_bytes, host=wish.host, pinned_bytes_per_s=wish.pinned_bytes_per_s
    )
    return _inputs_alone(saved.facts, target, wish.ranks)


def _checkpoint_inputs(wish: InputWish, checkpoint: Path, notify: Callable[[str], None]) -> Inputs:
    if wish.variant is not None:
        raise InputError(f"--variant {wish.variant}: variants are the catalog's; a checkpoint is planned for as it is")
    if is_own_device(wish.device):
        raise InputError(f"--device {wish.device} plans from a profile, and checkpoints are not profiled: name a card")
    facts = load_checkpoint_facts(checkpoint, wish.shape, refresh=wish.refresh, progress=notify)
    target = _resolve_target(wish, probe_gpu() if wish.device is None else None)
    return replace(_inputs_alone(facts, target, wish.ranks), model_path=str(checkpoint))


def _measured_inputs(found: MeasuredInputs, wish: InputWish, catalog: Catalog | None = None) -> Inputs:
    """Inputs of measured figures; nothing else is compared with measured compute, since that was not measured."""
    target = target_of_profile(
        found.profile,
        vram_cap_bytes=wish.vram_cap_bytes,
        host=wish.host,
        pinned_bytes_per_s=wish.pinned_bytes_per_s,
        place=found.place,
    )
    facts = found.profile.facts
    if not found.has_compute and catalog is not None:
        return inputs_of_catalog(catalog, *take_one_rank(facts, target, wish.ranks))
    return _inputs_alone(facts, target, wish.ranks)


def _inputs_alone(facts: ModelFacts, target: Target, ranks: RankWish) -> Inputs:
    """Inputs of facts with which nothing of a catalog is compared."""
    own, own_target = take_one_rank(facts, target, ranks)
    return Inputs(facts=own, target=own_target, profile=_profile(own, own_target), alternatives=())


def inputs_of_catalog(catalog: Catalog, facts: ModelFacts, target: Target) -> Inputs:
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


def find_checkpoint(model: str | None) -> Path | None:
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


def _resolve_target(wish: InputWish, detection: Detection | None) -> Target:
    return resolve_target(
        device=wish.device,
        detection=detection,
        vram_cap_bytes=wish.vram_cap_bytes,
        host=wish.host,
        pinned_bytes_per_s=wish.pinned_bytes_per_s,
    )


def _profile(facts: ModelFacts, target: Target) -> Profile:
    return Profile(
        facts=facts,
        rates=target.rates,
        context_bytes=target.context_bytes,
        device=target.device,
        uncertainty=target.uncertainty,
    )
