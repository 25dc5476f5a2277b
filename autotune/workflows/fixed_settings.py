"""What the user fixes before a search: settings of a command that he runs, and settings that he types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.export.option_values import SNAPSHOT_OFFLOAD
from autotune.export.read_back import count_prefetch, count_resident
from autotune.export.server_command import ServerCommand
from autotune.space import FixedSettings
from autotune.workflows.settings_text import parse_setting
from runtime.errors import InputError
from runtime.model_spec import ComponentSpec, ModelSpec
from runtime.residency import Mode

_KNOBS = ("prefetch", "resident", "policy", "lifetime")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fix:
    """One fixed setting and who fixed it, in words."""

    component: str
    knob: str
    value: Any
    source: str


def fix_settings(model: ModelSpec, typed: Sequence[str], command: ServerCommand | None) -> tuple[FixedSettings, ...]:
    """What the search must leave as it is.

    A knob that is typed makes its component stream; one that the command states holds where the component streams, and
    means nothing where the command gives it another mode.

    Args:
        model: what is planned for.
        typed: ``component.knob=value``, from ``--fix``.
        command: from ``--base-command``; every placement setting that it states is fixed.

    Raises:
        InputError: a setting that cannot be parsed or that the component cannot have, or two that contradict each
            other; both are named.
    """
    fixes = [fix for text in typed for fix in _read_typed(text, model)]
    if command is not None:
        modes = {fix.component: fix for fix in fixes if fix.knob == "mode"}
        for component in model.components:
            fixes += _read_command(component, command, modes.get(component.name))
    found = []
    for component in model.components:
        own = [fix for fix in fixes if fix.component == component.name]
        if own:
            found.append(FixedSettings(component=component.name, **_join(component, own)))
    return tuple(found)


def _read_typed(text: str, model: ModelSpec) -> list[_Fix]:
    setting = parse_setting(text, model, "--fix")
    source = f"--fix {text}"
    fix = _Fix(component=setting.component, knob=setting.knob, value=setting.value, source=source)
    if setting.knob == "mode":
        return [fix]
    return [fix, _Fix(component=setting.component, knob="mode", value=Mode.LAYERWISE_OFFLOAD, source=source)]


def _read_command(component: ComponentSpec, command: ServerCommand, typed_mode: _Fix | None) -> list[_Fix]:
    """What the command states about ``component``."""
    options, name = command.options, component.name
    found = options.component(name)
    source = f"--base-command for {name}"
    fixes = []
    if found.mode == SNAPSHOT_OFFLOAD:
        raise InputError(f"the base command makes {name} {SNAPSHOT_OFFLOAD}, which a plan cannot hold")
    mode = Mode(found.mode) if found.mode is not None else None
    if mode is not None:
        fixes.append(_Fix(component=name, knob="mode", value=mode, source=f"{source}: mode {mode}"))
    is_idle = mode not in {None, Mode.LAYERWISE_OFFLOAD} or (
        typed_mode is not None and typed_mode.value is not Mode.LAYERWISE_OFFLOAD
    )
    if is_idle or component.max_layers == 0:
        return fixes
    values = {"policy": found.policy, "lifetime": found.lifetime}
    for knob in _KNOBS:
        if options.states(name, knob):
            counts = {"prefetch": count_prefetch, "resident": count_resident}
            value = counts[knob](component, found) if knob in counts else values[knob]
            fixes.append(_Fix(component=name, knob=knob, value=value, source=f"{source}: {knob} {value}"))
    return fixes


def _join(component: ComponentSpec, fixes: Iterable[_Fix]) -> dict[str, Any]:
    """One value for each fixed setting of ``component``."""
    chosen: dict[str, _Fix] = {}
    for fix in fixes:
        other = chosen.setdefault(fix.knob, fix)
        if other.value != fix.value:
            raise InputError(
                f"{other.source} and {fix.source} contradict each other about the {fix.knob} of {component.name}: "
                "leave one out"
            )
    mode = chosen.get("mode")
    if mode is not None and mode.value is Mode.LAYERWISE_OFFLOAD and component.max_layers == 0:
        raise InputError(
            f"{mode.source}: {component.name} has no list of layers and cannot stream: make it resident or "
            "component-offload"
        )
    return {knob: fix.value for knob, fix in chosen.items()}
