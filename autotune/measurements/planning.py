"""Makes the profile that plans are made from out of what was measured, and names the source of every figure. Pure.

===================  ===============================================================================================
compute              the model profile's own seconds; what it did not measure at the rates that its pieces reached,
                     else at the preset's
links, disk          the node profile, weighted by the bytes that a request copies at each size; else the preset
interference         the node's record for this model, else the largest of another load; else none
context, usable      the node profile, else the preset
===================  ===============================================================================================
"""

from __future__ import annotations

from datetime import datetime

from autotune.hardware import DevicePreset
from autotune.measurements.model_profile import ModelProfile
from autotune.measurements.node_profile import NodeProfile
from autotune.measurements.planning_rates import (
    BYTES,
    Figures,
    Ground,
    derive_measured_rates,
    name_remedy,
    preset_source,
)
from autotune.measurements.validity import describe_age, describe_kind
from autotune.model_facts import ModelFacts
from autotune.profile import Profile
from runtime.errors import ProfileError
from runtime.target_summary import DeviceSummary

USABLE_FIGURE = "vram_usable_bytes"
CONTEXT_FIGURE = "context_bytes"
"""What a node profile calls the figures that plans need."""


def build_planning_profile(
    model: ModelProfile,
    node: NodeProfile | None,
    preset: DevicePreset | None,
    *,
    now: datetime,
    host_bytes: int | None = None,
) -> Profile:
    """What plans for the model of ``model`` are made from; ``host_bytes`` as in ``Ground``.

    Raises:
        ProfileError: a figure is neither measured nor in the preset; the message says how to get it.
    """
    return _build(
        Ground(
            facts=model.facts, kind=model.kind, model=model, node=node, preset=preset, host_bytes=host_bytes, now=now
        )
    )


def build_profile_with_links(facts: ModelFacts, node: NodeProfile, preset: DevicePreset, *, now: datetime) -> Profile:
    """The same where the model was not measured: this machine's links beside the preset's compute.

    Raises:
        ProfileError: as ``build_planning_profile``.
    """
    return _build(
        Ground(facts=facts, kind=node.node.kind, model=None, node=node, preset=preset, host_bytes=None, now=now)
    )


def _build(ground: Ground) -> Profile:
    figures = Figures()
    rates = derive_measured_rates(ground, figures)
    context_bytes = _context(ground, figures)
    memory_bytes, usable_bytes = _memory(ground, figures)
    return Profile(
        facts=ground.facts,
        rates=rates,
        context_bytes=context_bytes,
        device=DeviceSummary(
            name=ground.preset.name if ground.preset is not None else ground.kind.backend,
            title=ground.kind.title,
            origin=_describe_origin(ground),
            memory_bytes=memory_bytes,
            usable_vram_bytes=usable_bytes,
            figures=figures.all,
            measured=tuple(figures.measured),
        ),
    )


def _context(ground: Ground, figures: Figures) -> int:
    found = ground.node.figures.get(CONTEXT_FIGURE) if ground.node is not None else None
    if found is not None:
        return round(figures.add(CONTEXT_FIGURE, found.value, BYTES, found.source, is_measured=True))
    if ground.kind.backend != "cuda":
        source = f"none: the {ground.kind.backend} device has no context"
        return round(figures.add(CONTEXT_FIGURE, 0, BYTES, source, is_measured=False))
    if ground.preset is not None:
        source = preset_source(ground, CONTEXT_FIGURE)
        return round(figures.add(CONTEXT_FIGURE, ground.preset.context_bytes, BYTES, source, is_measured=False))
    raise ProfileError(
        f"the bytes of a context on {describe_kind(ground.kind)} are unknown: measure them with {name_remedy(ground)}"
    )


def _memory(ground: Ground, figures: Figures) -> tuple[int, int]:
    """All of the device's memory, and what one process can use of it."""
    found = ground.node.figures.get(USABLE_FIGURE) if ground.node is not None else None
    whole = ground.kind.memory_bytes
    if not whole and ground.kind.backend != "cuda":
        whole = ground.host_bytes or 0  # it has no memory but the host's
    if not whole:
        raise ProfileError(
            f"the memory of {describe_kind(ground.kind)} is unknown: measure it with {name_remedy(ground)}"
        )
    if found is not None and found.value > 0:
        usable, source, is_measured = round(found.value), found.source, True
    elif ground.preset is not None:
        usable, source, is_measured = (
            ground.preset.usable_vram_bytes,
            preset_source(ground, "usable_vram_bytes"),
            False,
        )
    else:
        usable, source, is_measured = whole, "all of the device's memory; what of it can be used is unknown", False
    usable = min(usable, whole)
    figures.add("usable_vram_bytes", usable, BYTES, source, is_measured=is_measured)
    return whole, usable


def _describe_origin(ground: Ground) -> str:
    model, node = ground.model, ground.node
    parts = [f"{ground.kind.title}, as profiled"]
    if model is not None:
        parts.append(f"{model.facts.model.name} measured on {describe_age(model.measured_at, ground.now)}")
    else:
        parts.append(f"compute from datasheet rates, not measured ({name_remedy(ground)} measures it)")
    if node is not None:
        parts.append(f"links measured on this machine on {describe_age(node.measured_at, ground.now)}")
    elif ground.preset is not None:
        parts.append(f"links and budgets from the preset {ground.preset.name}, not measured here")
    else:
        parts.append("links derived, not measured")
    return f"{parts[0]}: {', '.join(parts[1:])}"
