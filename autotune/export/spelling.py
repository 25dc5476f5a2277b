"""A plan in the words of one server dialect: argument tokens, and what those words cannot say."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from autotune.export import component_groups as groups
from autotune.export.dialects import Dialect
from autotune.export.sglang_parser import DIT_KNOBS, MAP_KNOBS, SWITCHES
from runtime.model_spec import ComponentSpec, ModelSpec
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy

_SERVER_DEFAULTS = {"prefetch": "1", "resident": "0", "policy": str(Policy.LEADING), "lifetime": str(Lifetime.FORWARD)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """Tokens for a plan.

    Attributes:
        argv: option tokens in order.
        losses: what would run differently from the plan, one sentence each.
        notes: what could not be said but changes nothing.
    """

    argv: tuple[str, ...]
    losses: tuple[str, ...]
    notes: tuple[str, ...]


def spell(plan: Plan, model: ModelSpec, dialect: Dialect) -> Spelling:
    """The tokens that ask ``dialect``'s server for ``plan``; the plan fits the model."""
    modes = _spell_modes(plan) if dialect.names_modes else _spell_old_modes(plan)
    knobs = _spell_knobs(plan, model, dialect)
    return Spelling(
        argv=(*modes.argv, *knobs.argv),
        losses=(*modes.losses, *knobs.losses),
        notes=(*modes.notes, *knobs.notes),
    )


def _spell_modes(plan: Plan) -> Spelling:
    assignments = (f"{placement.component}={placement.mode}" for placement in plan.placements)
    return Spelling(argv=("--component-residency", *assignments), losses=(), notes=())


def _spell_old_modes(plan: Plan) -> Spelling:
    """A layerwise list of exact names, and one on/off switch per group for what is not in it."""
    listed = [p.component for p in plan.placements if p.mode is Mode.LAYERWISE_OFFLOAD]
    argv = ["--layerwise-offload-components", *listed] if listed else []
    losses: list[str] = []
    notes: list[str] = []
    others: dict[str | None, list[Placement]] = defaultdict(list)
    for placement in plan.placements:
        if placement.component in listed:
            continue
        covering = [name for name in listed if groups.is_in_layerwise_selection(placement.component, name)]
        if covering:
            losses.append(f"{placement.component} would be streamed too: the word {covering[0]!r} covers its group")
            continue
        others[groups.legacy_switch(placement.component)].append(placement)
    streamed_switches = {groups.legacy_switch(name) for name in listed}
    for switch, placements in others.items():
        moved = [p.component for p in placements if p.mode is Mode.COMPONENT_OFFLOAD]
        if switch is None:
            losses += [f"{name} cannot be moved whole: no switch reaches it; it would stay resident" for name in moved]
            kept = [p.component for p in placements if p.mode is Mode.RESIDENT]
            notes += [f"{name} has no switch of its own; the server keeps such a component resident" for name in kept]
            continue
        argv += [SWITCHES[switch], "true" if moved and switch not in streamed_switches else "false"]
        if moved and switch in streamed_switches:
            losses += [
                f"{name} cannot be moved whole while another component of its group is streamed: it would stay resident"
                for name in moved
            ]
        elif moved and len(moved) < len(placements):
            kept = [p.component for p in placements if p.mode is Mode.RESIDENT]
            losses.append(f"{', '.join(kept)} would be moved whole: {SWITCHES[switch]} covers the whole group")
    return Spelling(argv=tuple(argv), losses=tuple(losses), notes=tuple(notes))


def _spell_knobs(plan: Plan, model: ModelSpec, dialect: Dialect) -> Spelling:
    streamed = [p for p in plan.placements if p.mode is Mode.LAYERWISE_OFFLOAD]
    argv: list[str] = []
    losses: list[str] = []
    notes: list[str] = []
    for knob, option in MAP_KNOBS.items():
        values = {p.component: _knob_text(p, model.component(p.component), knob) for p in streamed}
        if not values:
            continue
        if knob in dialect.map_knobs:
            argv += [option, ",".join(f"{name}={value}" for name, value in values.items())]
            continue
        dit_values = {value for name, value in values.items() if groups.is_dit(name)}
        said = knob in dialect.dit_knobs and len(dit_values) == 1
        if said:
            argv += [DIT_KNOBS[knob], *dit_values]
        for placement in streamed:
            name, value = placement.component, values[placement.component]
            default = _SERVER_DEFAULTS[knob]
            if (said and groups.is_dit(name)) or value == default:
                continue
            sentence = f"{knob} {value} of {name} cannot be said to {dialect.target}: it would run with {default}"
            meant = _is_effective(placement, model.component(name), knob)
            (losses if meant else notes).append(sentence if meant else f"{sentence}, which is the same here")
    return Spelling(argv=tuple(argv), losses=tuple(losses), notes=tuple(notes))


def _knob_text(placement: Placement, component: ComponentSpec, knob: str) -> str:
    """An integer count or a word. Counts only: ``1.0`` means one layer to the server, and a fraction a share."""
    if knob == "prefetch":
        return str(min(placement.prefetch, component.max_layers))
    if knob == "resident":
        return str(placement.resident)
    return str(placement.policy if knob == "policy" else placement.lifetime)


def _is_effective(placement: Placement, component: ComponentSpec, knob: str) -> bool:
    """Whether the knob's value changes what runs: without residents there is nothing to keep, and little to spread."""
    if knob == "lifetime":
        return placement.resident > 0
    if knob == "policy":
        all_stay = placement.resident >= component.max_layers
        nothing_to_spread = placement.resident == 0 and placement.prefetch == 1
        return not (all_stay or nothing_to_spread)
    return True
