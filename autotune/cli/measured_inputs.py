"""Reads profiles for a planning command: those that were named, or those that the store has for this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from autotune.capture_cache import find_facts_key
from autotune.catalog.entry import CatalogEntry
from autotune.catalog.registry import find_model
from autotune.detect import DetectedGpu, Detection, probe_gpu
from autotune.hardware import DevicePreset, find_device
from autotune.host_memory import read_host_memory
from autotune.measurements.model_profile import DeviceKind, ModelProfile, RunOptions, load_model_profile
from autotune.measurements.node_profile import NodeFingerprint, NodeProfile, load_node_profile
from autotune.measurements.planning import build_planning_profile, build_profile_with_links
from autotune.measurements.store import ProfileStore, find_profile_dir
from autotune.measurements.validity import (
    ModelWish,
    Verdict,
    describe_kind,
    have_same_memory,
    is_same_kind,
    judge_model_profile,
    judge_node_profile,
    refuse_invalid,
)
from autotune.model_facts import ModelFacts
from autotune.profile import Profile
from autotune.workflows.stored_profiles import (
    Here,
    Measurements,
    describe_node,
    find_for_card,
    find_for_device,
    find_node_of_kind,
    is_here,
    list_model_notes,
    look_around,
)
from autotune.workflows.target import Place
from autotune.workload import Workload
from runtime.errors import AutotuneError, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredInputs:
    """A profile of measured figures, and where its device is.

    Attributes:
        profile: what is planned from.
        place: as ``target_of_profile`` takes it.
        has_compute: whether compute was measured, and not only links.
    """

    profile: Profile
    place: Place
    has_compute: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A catalog model and a request, for which profiles are looked for."""

    entry: CatalogEntry
    workload: Workload
    variant: str | None

    @property
    def wish(self) -> ModelWish:
        """What a model profile must be of; options are those of a server that was not told any."""
        return ModelWish(
            model=self.entry.name,
            workload=self.entry.settle(self.workload).workload,
            variant=self.variant.strip().casefold() if self.variant else "",
            options=RunOptions(),
            facts_key=_find_key(self.entry.name, self.workload),
        )

    def command(self, device: str) -> str:
        """What measures it on ``device``."""
        words = ["autotune", "profile", "--model", self.entry.name, "--device", device]
        words += ["--variant", self.variant] if self.variant else []
        for name in Workload.__dataclass_fields__:
            value = getattr(self.workload, name)
            if value != getattr(self.entry.default_workload, name):
                words += [f"--{name.replace('_', '-')}", str(value)]
        return f"`{shlex.join(words)}`"


def read_named(path: Path, node_path: Path | None) -> MeasuredInputs:
    """The model profile at ``path``, with the node profile at ``node_path`` or this machine's own.

    The device that is planned for is the profile's. Where this machine has no such device, its software and its links
    do not count.

    Raises:
        ProfileError: a file cannot be read, is out of date, or is another machine's node profile.
    """
    model = load_model_profile(path)
    here = look_around(_detect_quietly(), datetime.now(UTC))
    at_home = is_here(model.kind, here)
    again = f"Measure it again: `autotune profile --model {model.facts.model.name} --device {model.kind.backend}`"
    wish = ModelWish()
    if at_home:
        key = _find_key(model.facts.model.name, model.facts.workload)
        wish = replace(wish, versions=here.versions, facts_key=key)
    verdict = judge_model_profile(model, wish, here.now)
    refuse_invalid(str(path), verdict, again)
    notes = [*list_model_notes(model, verdict, here)]
    node = _read_node(node_path, model.kind, here) if node_path is not None else None
    if node is None and at_home:
        found = find_node_of_kind(ProfileStore(find_profile_dir()), model.kind, here).found
        node = found.profile if found is not None else None
    if node is not None:
        notes += [describe_node(node, here), *judge_node_profile(node, None, {}, here.now).warnings]
    return _build(Measurements(model=model, node=node, notes=tuple(notes)), here, is_own=at_home)


def read_own_device(name: str, request: Request) -> MeasuredInputs:
    """What was measured of ``request`` on the device ``name`` of this machine.

    Raises:
        ProfileError: it was not measured, or not lately.
    """
    here = look_around(_detect_quietly(), datetime.now(UTC))
    store = ProfileStore(find_profile_dir())
    return _build(find_for_device(store, name, request.wish, here, request.command(name)), here, is_own=True)


def read_own_card(
    detection: Detection, request: Request, load_facts: Callable[[], ModelFacts], *, with_compute: bool
) -> MeasuredInputs | tuple[str, ...]:
    """What was measured of ``request`` on the card that was detected; where nothing was, what to do about it.

    Args:
        detection: what was found on this machine.
        request: model and request.
        load_facts: facts of the request, for a plan with measured links alone.
        with_compute: whether measured compute may be used.
    """
    if detection.gpu is None:
        return ()
    here = look_around(detection.gpu, datetime.now(UTC))
    store = ProfileStore(find_profile_dir())
    found = find_for_card(store, request.wish, here, request.command("cuda"), with_compute=with_compute)
    if found.model is not None:
        return _build(found, here, is_own=True)
    preset = _find_preset(here.gpu_kind)
    if found.node is None or preset is None:
        return found.notes
    profile = build_profile_with_links(load_facts(), found.node, preset, now=here.now)
    return MeasuredInputs(profile=profile, place=_place(found, here, is_own=True), has_compute=False)


def judge_here(profiles: Sequence[ModelProfile | NodeProfile], now: datetime) -> tuple[Verdict, ...]:
    """Whether each of ``profiles`` is valid on this machine at ``now``."""
    here = look_around(_detect_quietly(), now)
    return tuple(_judge(profile, here) for profile in profiles)


def _judge(profile: ModelProfile | NodeProfile, here: Here) -> Verdict:
    if isinstance(profile, NodeProfile):
        return judge_node_profile(profile, _fingerprint_here(profile, here), here.versions, here.now)
    if is_here(profile.kind, here):
        key = _find_key(profile.facts.model.name, profile.facts.workload)
        return judge_model_profile(profile, ModelWish(versions=here.versions, facts_key=key), here.now)
    verdict = judge_model_profile(profile, ModelWish(), here.now)
    elsewhere = f"it was measured on {describe_kind(profile.kind)}, which this machine does not have"
    return replace(verdict, reasons=(elsewhere, *verdict.reasons))


def _read_node(path: Path, kind: DeviceKind, here: Here) -> NodeProfile:
    """The node profile at ``path``, which must be this machine's, of a device of ``kind``."""
    node = load_node_profile(path)
    if not is_same_kind(node.node.kind, kind):
        raise InputError(
            f"{path} is of {node.node.kind.title}, the model profile of {kind.title}: give two profiles of one kind of "
            "device"
        )
    verdict = judge_node_profile(node, _fingerprint_here(node, here), here.versions, here.now)
    refuse_invalid(
        str(path),
        verdict,
        "Measure this machine with `autotune profile`, or leave --node-profile out; to plan for another machine, make "
        "the plan there and carry its run's profile.json",
    )
    return node


def _fingerprint_here(profile: NodeProfile, here: Here) -> NodeFingerprint:
    """What ``profile`` would be of, were it measured now; a card that is gone has made room for another."""
    node = profile.node
    uuid = node.device_uuid if node.device_uuid in here.cards else next(iter(here.cards), node.device_uuid)
    return replace(node, machine=here.machine.digest, kernel=here.machine.kernel, device_uuid=uuid)


def _build(found: Measurements, here: Here, *, is_own: bool) -> MeasuredInputs:
    assert found.model is not None  # callers have made sure
    profile = build_planning_profile(
        found.model,
        found.node,
        _find_preset(found.model.kind),
        now=here.now,
        host_bytes=read_host_memory().total_bytes if found.model.kind.backend != "cuda" else None,
    )
    return MeasuredInputs(profile=profile, place=_place(found, here, is_own=is_own), has_compute=True)


def _place(found: Measurements, here: Here, *, is_own: bool) -> Place:
    free_bytes = None
    if is_own and found.node is not None:
        free_bytes = here.cards.get(found.node.node.device_uuid)
    if is_own and free_bytes is None and here.gpu is not None and _is_cuda(found):
        free_bytes = here.gpu.free_bytes
    return Place(is_here=is_own, free_bytes=free_bytes, notes=found.notes)


def _is_cuda(found: Measurements) -> bool:
    kinds = [found.model.kind if found.model is not None else None, found.node.node.kind if found.node else None]
    return any(kind is not None and kind.backend == "cuda" for kind in kinds)


def _find_preset(kind: DeviceKind | None) -> DevicePreset | None:
    """The datasheet figures of ``kind``, if it is a known card."""
    if kind is None or kind.backend != "cuda":
        return None
    try:
        preset = find_device(kind.title)
    except InputError:
        return None
    return preset if have_same_memory(preset.memory_bytes, kind.memory_bytes) else None


def _detect_quietly() -> DetectedGpu | None:
    """The card of this machine; None too where several are there and none was meant."""
    try:
        return probe_gpu().gpu
    except InputError:
        return None


def _find_key(name: str, workload: Workload) -> str | None:
    """What facts of a catalog model would depend on now; None where that cannot be told."""
    try:
        return find_facts_key(find_model(name).name, workload)
    except AutotuneError:
        return None
