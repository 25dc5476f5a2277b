"""Settings typed as ``component.knob=value``, applied to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runtime.errors import InputError, PlanError
from runtime.model_spec import ComponentSpec, ModelSpec
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy

_WORDS: dict[str, type[StrEnum]] = {"mode": Mode, "policy": Policy, "lifetime": Lifetime}
_COUNTS = ("prefetch", "resident")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of one component: its mode, or a knob of its streaming."""

    component: str
    knob: str
    value: Any


def parse_setting(text: str, model: ModelSpec, option: str) -> Setting:
    """``component.knob=value`` as typed behind ``option``.

    Raises:
        InputError: it cannot be parsed, names an unknown component or knob, or a value out of range.
    """
    component, knob, value = _split(text, model, option)
    try:
        return Setting(component=component.name, knob=knob, value=_parse_value(component, knob, value))
    except InputError as error:
        raise InputError(f"{option} {text!r}: {error}") from None


def apply_settings(plan: Plan, model: ModelSpec, settings: Sequence[str]) -> Plan:
    """``plan`` with every setting applied; later settings win.

    A knob other than the mode makes the component stream, unless its mode is set too.

    Raises:
        InputError: a setting that cannot be parsed, an unknown component or knob, or a value out of range.
    """
    changes: dict[str, dict[str, Any]] = {}
    for text in settings:
        setting = parse_setting(text, model, "--set")
        changes.setdefault(setting.component, {})[setting.knob] = setting.value
    placements = [
        _change(placement, model.component(placement.component), changes.get(placement.component, {}))
        for placement in plan.placements
    ]
    return Plan(engine=plan.engine, placements=tuple(placements), explicit=plan.explicit)


def _split(text: str, model: ModelSpec, option: str) -> tuple[ComponentSpec, str, str]:
    name, separator, value = text.partition("=")
    component, dot, knob = name.strip().rpartition(".")
    if not separator or not dot or not value.strip():
        raise InputError(f"{option} {text!r} is not component.knob=value, e.g. transformer.resident=10")
    if knob not in _WORDS and knob not in _COUNTS:
        raise InputError(f"{option} {text!r}: {knob!r} is no knob; there are {', '.join([*_WORDS, *_COUNTS])}")
    return model.component(component), knob, value.strip()


def _parse_value(component: ComponentSpec, knob: str, value: str) -> object:
    if knob in _WORDS:
        words = _WORDS[knob]
        try:
            return words(value)
        except ValueError:
            raise InputError(f"{knob} is one of {', '.join(words)}") from None
    if knob == "resident" and value == "all":
        return component.max_layers
    if not (value.isascii() and value.isdecimal() and len(value) <= 9):
        raise InputError(f"{knob} counts layers; give a whole number")
    count = int(value)
    low = 1 if knob == "prefetch" else 0
    if not low <= count <= max(component.max_layers, low):
        raise InputError(
            f"{component.name}'s longest stack has {component.max_layers} layers; give {low} to {component.max_layers}"
        )
    return count


def _change(placement: Placement, component: ComponentSpec, changes: dict[str, Any]) -> Placement:
    if not changes:
        return placement
    knobs = {name: value for name, value in changes.items() if name != "mode"}
    mode = changes.get("mode", Mode.LAYERWISE_OFFLOAD if knobs else placement.mode)
    if mode is Mode.LAYERWISE_OFFLOAD and component.max_layers == 0:
        raise InputError(
            f"{component.name} has no list of layers and cannot stream: set its mode to resident or component-offload"
        )
    try:
        return Placement(component=placement.component, mode=mode, **knobs)
    except PlanError as error:
        raise InputError(f"--set contradicts itself: {error}") from error
