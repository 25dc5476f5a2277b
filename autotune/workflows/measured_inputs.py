"""Reads profiles for a planning command: those that were named, or those that the store has for this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autotune.catalog.entry import CatalogEntry
from autotune.detect import DetectedGpu, Detection, detect_gpu
from autotune.hardware import DevicePreset, find_device
from autotune.host_memory import read_host_memory
from autotune.measurements.model_profile import DeviceKind, RunOptions, load_model_profile
from autotune.measurements.node_profile import NodeProfile, load_node_profile
from autotune.measurements.planning import build_planning_profile, build_profile_with_links
from autotune.measurements.planning_rates import name_profiling
from autotune.measurements.store import ProfileStore, find_profile_dir
from autotune.measurements.validity import (
    ModelWish,
    have_same_memory,
    is_same_kind,
    judge_node_profile,
    refuse_invalid,
)
from autotune.model_facts import ModelFacts
from autotune.profile import Profile
from autotune.telemetry.survey import GpuSurvey, survey_gpus
from autotune.workflows.profile_judgement import find_key, judge_at_home, judge_here
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
from autotune.workload import Workload, list_options
from runtime.errors import InputError

_LIKE_WITH_LIKE = "Compute is estimated for all that is compared here, measured or not, so that like meets like"
_NO_VARIANTS = "Compute is estimated: variants of a model are not profiled"


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
        """What a model profile must be of: the model as released, run with the options of a server that has none."""
        return ModelWish(
            model=self.entry.name,
            workload=self.entry.settle(self.workload).workload,
            variant="",
            options=RunOptions(),
            facts_key=find_key(self.entry.name, self.workload),
        )

    def command(self, device: str) -> str:
        """What measures it on ``device``, as released."""
        return name_profiling(self.entry.name, device, list_options(self.workload, self.entry.default_workload))


def read_named(path: Path, node_path: Path | None) -> MeasuredInputs:
    """The model profile at ``path``, with the node profile at ``node_path`` or this machine's own.

    The device that is planned for is the profile's. Where this machine has no such device, its software and its links
    do not count.

    Raises:
        ProfileError: a file cannot be read, is out of date, or is another machine's node profile.
    """
    model = load_model_profile(path)
    here = look_here(datetime.now(UTC))
    at_home = is_here(model.kind, here)
    facts = model.facts
    command = name_profiling(facts.model.name, model.kind.backend, list_options(facts.workload, None))
    verdict = judge_at_home(model, here)
    refuse_invalid(str(path), verdict, f"Measure it again: {command}")
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
        InputError: a variant, which is not profiled.
        ProfileError: it was not measured, or not lately.
    """
    if request.variant:
        raise InputError(f"--device {name} plans from a profile, and variants are not profiled: leave out --variant")
    here = look_here(datetime.now(UTC))
    store = ProfileStore(find_profile_dir())
    return _build(find_for_device(store, name, request.wish, here, request.command(name)), here, is_own=True)


def read_own_card(
    detection: Detection, request: Request, load_facts: Callable[[], ModelFacts], *, is_compared: bool
) -> MeasuredInputs | tuple[str, ...]:
    """What was measured of ``request`` on the card that was detected; where nothing was, what to do about it.

    Args:
        detection: what was found on this machine.
        request: model and request.
        load_facts: facts of the request, for a plan with measured links alone.
        is_compared: whether other requests or variants, which may not have been measured, are compared with it.
    """
    if detection.gpu is None:
        return ()
    here = look_around(detection.gpu, datetime.now(UTC))
    store = ProfileStore(find_profile_dir())
    why = _LIKE_WITH_LIKE if is_compared else _NO_VARIANTS if request.variant else ""
    found = find_for_card(store, request.wish, here, request.command("cuda"), why_no_compute=why)
    if found.model is not None:
        return _build(found, here, is_own=True)
    preset = _find_preset(here.gpu_kind)
    if found.node is None or preset is None:
        return found.notes
    profile = build_profile_with_links(load_facts(), found.node, preset, now=here.now)
    return MeasuredInputs(profile=profile, place=_place(found, here, is_own=True), has_compute=False)


def _read_node(path: Path, kind: DeviceKind, here: Here) -> NodeProfile:
    """The node profile at ``path``, which must be this machine's, of a device of ``kind``."""
    node = load_node_profile(path)
    if not is_same_kind(node.node.kind, kind):
        raise InputError(
            f"{path} is of {node.node.kind.title}, the model profile of {kind.title}: give two profiles of one kind of "
            "device"
        )
    verdict = judge_here(node, here)
    refuse_invalid(
        str(path),
        verdict,
        "Measure this machine with `autotune profile`, or leave --node-profile out; to plan for another machine, make "
        "the plan there and carry its run's profile.json",
    )
    return node


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
    kind = found.model.kind if found.model is not None else found.node.node.kind if found.node is not None else None
    if is_own and free_bytes is None and kind is not None and kind.backend == "cuda":
        free_bytes = here.find_free_bytes(kind)
    return Place(is_here=is_own, free_bytes=free_bytes, notes=found.notes)


def _find_preset(kind: DeviceKind | None) -> DevicePreset | None:
    """The datasheet figures of ``kind``, if it is a known card."""
    if kind is None or kind.backend != "cuda":
        return None
    try:
        preset = find_device(kind.title)
    except InputError:
        return None
    return preset if have_same_memory(preset.memory_bytes, kind.memory_bytes) else None


def look_here(now: datetime) -> Here:
    """This machine at ``now``."""
    survey = survey_gpus()
    return look_around(_detect_quietly(survey), now, survey)


def _detect_quietly(survey: GpuSurvey) -> DetectedGpu | None:
    """The card that this process would compute on; None too where several are there and none was meant."""
    try:
        return detect_gpu(survey).gpu
    except InputError:
        return None
