"""Finds in the store what was measured for a plan: times of the model on a kind of device, and this machine's links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from autotune.detect import DetectedGpu
from autotune.machine import Machine, read_machine
from autotune.measurements.model_profile import DeviceKind, ModelProfile
from autotune.measurements.node_profile import NodeFingerprint, NodeProfile
from autotune.measurements.store import ProfileStore, Search
from autotune.measurements.validity import ModelWish, Verdict, describe_age, describe_kind, is_same_kind
from autotune.telemetry.reading import GpuReading
from autotune.telemetry.software import find_versions
from autotune.telemetry.survey import GpuSurvey, survey_gpus
from runtime.errors import ProfileError

_OWN_DEVICE = re.compile(r"cpu|emulated|cuda(:[0-9]{1,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """This machine, now.

    Attributes:
        machine: what tells it from others.
        versions: of the software that decides about speed, as far as known.
        now: the time.
        gpu: the card that this process would compute on, if there is one.
        cards: UUID of each card -> bytes that are free on it; None where unknown.
        kinds: UUID of each card -> its kind, where that is known.
    """

    machine: Machine
    versions: Mapping[str, str]
    now: datetime
    gpu: DetectedGpu | None = None
    cards: Mapping[str, int | None] = field(default_factory=dict)
    kinds: Mapping[str, DeviceKind] = field(default_factory=dict)

    @property
    def gpu_kind(self) -> DeviceKind | None:
        """The kind of the card that this process would compute on."""
        if self.gpu is None:
            return None
        return DeviceKind(backend="cuda", title=self.gpu.title, memory_bytes=self.gpu.memory_bytes)

    def is_gpu_of(self, kind: DeviceKind) -> bool:
        """Whether the card that this process would compute on is of ``kind``."""
        return self.gpu_kind is not None and is_same_kind(kind, self.gpu_kind)

    def list_cards(self, kind: DeviceKind) -> tuple[str, ...]:
        """UUIDs of the cards of ``kind``."""
        return tuple(uuid for uuid, other in self.kinds.items() if is_same_kind(kind, other))

    def find_free_bytes(self, kind: DeviceKind) -> int | None:
        """What is free on a card of ``kind``: the one that this process would compute on, or the fullest of several."""
        if self.gpu is not None and self.is_gpu_of(kind):
            return self.gpu.free_bytes
        known = (self.cards.get(uuid) for uuid in self.list_cards(kind))
        return min((free_bytes for free_bytes in known if free_bytes is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What there is for one plan.

    Attributes:
        model, node: the profiles; None where there is none.
        notes: which were used and what limits them, or what is missing and how to measure it; one sentence each.
    """

    model: ModelProfile | None = None
    node: NodeProfile | None = None
    notes: tuple[str, ...] = ()


def is_own_device(name: str | None) -> bool:
    """Whether ``--device`` means a device of this machine as it was profiled, not a preset."""
    return name is not None and _OWN_DEVICE.fullmatch(name) is not None


def look_around(gpu: DetectedGpu | None, now: datetime, survey: GpuSurvey | None = None) -> Here:
    """This machine at ``now``.

    Args:
        gpu: the card that was detected.
        now: the time.
        survey: the cards of this machine, where they were just read; None to read them.
    """
    readings = (survey or survey_gpus()).readings
    drivers = {reading.driver for reading in readings if reading.driver is not None}
    versions = {"driver": drivers.pop()} if len(drivers) == 1 else {}
    return Here(
        machine=read_machine(),
        versions={**versions, **find_versions()},
        now=now,
        gpu=gpu,
        cards={reading.uuid: reading.free_bytes for reading in readings if reading.uuid is not None},
        kinds={
            reading.uuid: kind
            for reading in readings
            if reading.uuid is not None and (kind := _kind_of(reading)) is not None
        },
    )


def find_for_card(
    store: ProfileStore, wish: ModelWish, here: Here, command: str, *, why_no_compute: str = ""
) -> Measurements:
    """What was measured for the card of this machine; nothing where it has none.

    Args:
        store: where profiles are.
        wish: model and request; kind and versions are those of ``here``.
        here: this machine.
        command: measures what is missing.
        why_no_compute: a sentence, where measured compute is not to be used.
    """
    kind = here.gpu_kind
    if kind is None or here.gpu is None:
        return Measurements()
    nodes = store.find_node(_fingerprint(here, kind, "cuda", here.gpu.uuid or ""), here.versions, here.now)
    if why_no_compute:
        return _take_links(nodes, here, command, why_no_compute)
    models = store.find_model(replace(wish, kind=kind, versions=here.versions), here.now)
    return _take(models, nodes, here, command)


def find_for_device(store: ProfileStore, name: str, wish: ModelWish, here: Here, command: str) -> Measurements:
    """What was measured for the device ``name`` of this machine.

    Raises:
        ProfileError: the device or the model was not profiled, or too long ago; the message has every reason.
    """
    wanted = "cuda:0" if name == "cuda" else name
    mine = [
        item.profile.node
        for item in store.list_nodes()
        if item.profile.node.machine == here.machine.digest and item.profile.node.device == wanted
    ]
    if not mine:
        raise ProfileError(
            f"{name} means this machine's device as profiled, and it was not profiled yet: run {command}"
        )
    node = mine[0]  # the freshest
    if node.device_uuid and here.cards and node.device_uuid not in here.cards:
        raise ProfileError(f"{name} was the card {node.device_uuid}, which is not in this machine now: run {command}")
    nodes = store.find_node(replace(node, kernel=here.machine.kernel), here.versions, here.now)
    models = store.find_model(replace(wish, kind=node.kind, versions=here.versions), here.now)
    missing = [_explain(search, part) for search, part in ((models, "model"), (nodes, "node")) if search.found is None]
    if missing:
        raise ProfileError(f"{name} means this machine's device as profiled: {'; '.join(missing)}; run {command}")
    return _take(models, nodes, here, command)


def find_node_of_kind(store: ProfileStore, kind: DeviceKind, here: Here) -> Search[NodeProfile]:
    """The profile of this machine's device of ``kind``, for a model profile that was named."""
    if here.gpu is not None and here.is_gpu_of(kind):
        uuid = here.gpu.uuid or ""
    else:
        cards = here.list_cards(kind)
        uuid = cards[0] if len(cards) == 1 else ""
    return store.find_node(_fingerprint(here, kind, kind.backend, uuid), here.versions, here.now)


def is_here(kind: DeviceKind, here: Here) -> bool:
    """Whether this machine has a device of ``kind``, so that its software and links are those that count."""
    if kind.backend == "cuda":
        return here.is_gpu_of(kind) or bool(here.list_cards(kind))
    return kind.backend == "emulated" or kind.title == here.machine.cpu


def _kind_of(reading: GpuReading) -> DeviceKind | None:
    """The kind of a card; None where the driver does not say."""
    memory_bytes = 0 if reading.is_unified else reading.total_bytes
    if reading.title is None or memory_bytes is None:
        return None
    capability = reading.compute_capability
    return DeviceKind(
        backend="cuda",
        title=reading.title,
        memory_bytes=memory_bytes,
        capability="" if capability is None else f"{capability[0]}.{capability[1]}",
    )


def _describe_model(profile: ModelProfile, here: Here) -> str:
    """Which model profile is used, one sentence."""
    return (
        f"Compute of {', '.join(profile.components)} was measured on {describe_kind(profile.kind)} on "
        f"{describe_age(profile.measured_at, here.now)}, {profile.options.describe()}; other requests and variants are "
        "not compared with it, since they were not measured"
    )


def list_model_notes(profile: ModelProfile, verdict: Verdict, here: Here) -> tuple[str, ...]:
    """Which model profile is used, what limits it, and what it says of itself, one sentence each."""
    own = (note for note in profile.notes if note not in profile.facts.notes)
    return (_describe_model(profile, here), *verdict.warnings, *own)


def describe_node(profile: NodeProfile, here: Here) -> str:
    """Which node profile is used, one sentence."""
    return (
        f"Links of this machine's {profile.node.device} were measured on {describe_age(profile.measured_at, here.now)}"
    )


def _take(models: Search[ModelProfile], nodes: Search[NodeProfile], here: Here, command: str) -> Measurements:
    """Both profiles, one of them or none, with what that means for the plan."""
    model = models.found.profile if models.found is not None else None
    node = nodes.found.profile if nodes.found is not None else None
    notes: list[str] = []
    if model is not None:
        notes += list_model_notes(model, models.verdict, here)
    if node is not None:
        notes += [describe_node(node, here), *nodes.verdict.warnings]
    if model is None and node is None:
        notes = [f"Nothing is measured: {_explain(models, 'model')}; {command} measures it"]
    elif model is None:
        notes.append(f"Compute is estimated from datasheet rates: {_explain(models, 'model')}; {command} measures it")
    elif node is None:
        notes.append(f"Links are datasheet figures: {_explain(nodes, 'node')}; {command} measures them")
    return Measurements(model=model, node=node, notes=tuple(notes))


def _take_links(nodes: Search[NodeProfile], here: Here, command: str, why: str) -> Measurements:
    """The links alone."""
    if nodes.found is None:
        return Measurements(notes=(f"No link is measured: {_explain(nodes, 'node')}; {command} measures them", why))
    node = nodes.found.profile
    return Measurements(node=node, notes=(describe_node(node, here), *nodes.verdict.warnings, why))


def _explain(search: Search[ModelProfile] | Search[NodeProfile], part: str) -> str:
    """Why there is no valid profile."""
    if search.nearest is None:
        return f"there is no {part} profile of this {'machine' if part == 'node' else 'model'}"
    return f"the {part} profile {search.nearest.path.name} cannot be used: {'; '.join(search.verdict.reasons)}"


def _fingerprint(here: Here, kind: DeviceKind, device: str, uuid: str) -> NodeFingerprint:
    machine = here.machine
    return NodeFingerprint(
        machine=machine.digest, cpu=machine.cpu, kernel=machine.kernel, device=device, device_uuid=uuid, kind=kind
    )
