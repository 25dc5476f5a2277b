"""What a server command line says about placement: options of SGLang-diffusion 0.5.23 read as the server reads them.

Precedence of a mode: exact component > group > ``all`` in ``--component-residency``, then the older selectors.
Precedence of a knob: the component's own map entry > the ``--dit-*`` value (DiT only) > 0, 0, leading, forward.

Source: SGLang-diffusion 0.5.23, server arguments; every record of ``tests/data/sglang_flag_cases.jsonl`` is reproduced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from autotune.export import component_groups as groups
from autotune.export.option_values import (
    ErrorKind,
    ServerOptionError,
    expand_layerwise,
    parse_choice,
    parse_cpu_offload,
    parse_map,
    parse_names,
    parse_number,
    parse_residency,
    refuse_usage,
    refuse_value,
)
from autotune.export.sglang_parser import MAP_KNOBS, build_parser, option_of
from runtime.residency import Lifetime, Mode, Policy

__all__ = ["ComponentOptions", "ErrorKind", "ServerOptionError", "ServerOptions", "parse_options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentOptions:
    """What the options say about one component.

    Attributes:
        mode: the explicit mode, or None when it is left to the server.
        prefetch_value, resident_value: below 1 a share of the layers, from 1 a count.
        policy, lifetime: as the server resolved them.
    """

    mode: str | None
    prefetch_value: float
    resident_value: float
    policy: Policy
    lifetime: Lifetime

    def counts(self, layer_count: int) -> tuple[int, int]:
        """(layers ahead, not yet clamped to the stack; resident layers) for a stack of ``layer_count`` layers."""
        share = self.prefetch_value
        prefetch = 1 + round(share * (layer_count - 1)) if share < 1 else int(share)
        share = self.resident_value
        if share <= 0:
            return prefetch, 0
        resident = max(1, round(share * layer_count)) if share < 1 else min(layer_count, int(share))
        return prefetch, resident


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """A parsed command line.

    Attributes:
        residency: selector -> mode of ``--component-residency``, normalised.
        layerwise: selectors of ``--layerwise-offload-components``, or None when not given.
        cpu_offload: selectors of ``--cpu-offload-components``; empty means ``none``; None when not given.
        dit_layerwise: ``--dit-layerwise-offload``, or None when not given.
        switches: old whole-component switches that were given, after the server's own corrections.
        dit_knobs: the ``--dit-*`` values.
        maps: knob -> component -> text, from the four ``--layerwise-*`` maps.
        unknown: other options of the server and their values, in order.
        warnings: what the server would ignore in silence.
    """

    residency: Mapping[str, str]
    layerwise: tuple[str, ...] | None
    cpu_offload: tuple[str, ...] | None
    dit_layerwise: bool | None
    switches: Mapping[str, bool]
    dit_knobs: Mapping[str, float | str]
    maps: Mapping[str, Mapping[str, str]]
    unknown: tuple[str, ...]
    warnings: tuple[str, ...]

    def component(self, name: str) -> ComponentOptions:
        """What the options say about the component ``name``.

        Raises:
            ServerOptionError: a knob value that the server refuses when it sets this component up.
        """
        knobs = {knob: self._knob(name, knob) for knob in MAP_KNOBS}
        return ComponentOptions(
            mode=self.explicit_mode(name),
            prefetch_value=parse_number(name, "prefetch", knobs["prefetch"]),
            resident_value=parse_number(name, "resident", knobs["resident"]),
            policy=parse_choice(name, "policy", knobs["policy"], Policy),
            lifetime=parse_choice(name, "lifetime", knobs["lifetime"], Lifetime),
        )

    def warnings_for(self, components: Sequence[str]) -> tuple[str, ...]:
        """All warnings for a model with these components: also map entries and selectors that reach none of them."""
        found = list(self.warnings)
        for knob, entries in self.maps.items():
            for name in entries:
                if name not in components and name not in groups.PURE_GROUP_WORDS:
                    found.append(f"{MAP_KNOBS[knob]} names {name!r}, which this model does not have: it does nothing")
        for selector in self.residency:
            if selector not in {"all", *groups.RESIDENCY_GROUPS} and selector not in components:
                found.append(f"--component-residency names {selector!r}, which this model does not have")
        return tuple(found)

    def states(self, name: str, knob: str) -> bool:
        """Whether the options give ``knob`` of the component ``name`` a value: its own, or the DiT's default."""
        return name in self.maps[knob] or (groups.is_dit(name) and knob in self.dit_knobs)

    def _knob(self, name: str, knob: str) -> float | str:
        if name in self.maps[knob]:
            return self.maps[knob][name]
        defaults: dict[str, float | str] = {
            "prefetch": 0.0,
            "resident": 0.0,
            "policy": str(Policy.LEADING),
            "lifetime": str(Lifetime.FORWARD),
        }
        return self.dit_knobs.get(knob, defaults[knob]) if groups.is_dit(name) else defaults[knob]

    def explicit_mode(self, name: str) -> str | None:
        """The mode that the options give a component called ``name``, whether the model has one or not."""
        if name in self.residency:
            return self.residency[name]
        for group in groups.RESIDENCY_GROUPS:
            if group in self.residency and groups.is_in_residency_group(name, group):
                return self.residency[group]
        if "all" in self.residency:
            return self.residency["all"]
        return self._mode_of_older_selectors(name)

    def _mode_of_older_selectors(self, name: str) -> str | None:
        listed = any(groups.is_in_layerwise_selection(name, selector) for selector in self.layerwise or ())
        if listed or (self.dit_layerwise and groups.is_dit(name)):
            return Mode.LAYERWISE_OFFLOAD
        if self.cpu_offload is not None:
            if not self.cpu_offload:
                return Mode.RESIDENT
            if groups.is_in_cpu_offload_selection(name, self.cpu_offload):
                return Mode.COMPONENT_OFFLOAD
        moved_whole = self.switches.get(groups.legacy_switch(name) or "")
        if moved_whole is not None:
            return Mode.COMPONENT_OFFLOAD if moved_whole else Mode.RESIDENT
        # The code pins the DiT's helpers for `true` too; the recorded line with `true` leaves them to the server.
        unstreamed = self.dit_layerwise is False and groups.is_dit_or_helper(name)
        return Mode.RESIDENT if unstreamed else None


def parse_options(argv: Sequence[str]) -> ServerOptions:
    """Read the tokens after ``--model-path M``.

    Raises:
        ServerOptionError: the server would refuse the line; its ``kind`` says how.
    """
    values, unknown = build_parser(refuse_usage, refuse_value).parse_known(argv)
    warnings = _check_unknown(unknown)
    layerwise = parse_names(values.get("layerwise_offload_components"))
    if layerwise is not None:
        layerwise = expand_layerwise(layerwise)
    dit_layerwise = values.get("dit_layerwise_offload")
    residency = parse_residency(values.get("component_residency"))
    maps = {knob: parse_map(option, values.get(knob)) for knob, option in MAP_KNOBS.items()}
    for knob, entries in maps.items():
        for word in entries:
            if word in groups.PURE_GROUP_WORDS:
                warnings.append(f"{MAP_KNOBS[knob]} matches exact component names: the entry {word!r} does nothing")
    dit_knobs = {knob: values[f"dit_{knob}"] for knob in MAP_KNOBS if values.get(f"dit_{knob}") is not None}
    streams = bool(dit_layerwise or layerwise or Mode.LAYERWISE_OFFLOAD in residency.values())
    _check_dit_numbers(dit_knobs, streams=streams)
    return ServerOptions(
        residency=MappingProxyType(residency),
        layerwise=layerwise,
        cpu_offload=parse_cpu_offload(values.get("cpu_offload_components")),
        dit_layerwise=dit_layerwise,
        switches=MappingProxyType(_correct_switches(values, layerwise or ())),
        dit_knobs=MappingProxyType(dit_knobs),
        maps=MappingProxyType({knob: MappingProxyType(entries) for knob, entries in maps.items()}),
        unknown=tuple(unknown),
        warnings=tuple(warnings),
    )


def _check_unknown(unknown: list[str]) -> list[str]:
    if unknown and not unknown[0].startswith("-"):
        raise refuse_usage(f"unrecognized argument {unknown[0]!r}")
    warnings = []
    for token in unknown:
        meant, exact = option_of(token)
        if meant is None:
            continue
        if exact:
            raise refuse_usage(f"{token.partition('=')[0]} is spelled {meant} (hyphens)")
        warnings.append(f"{token.partition('=')[0]} abbreviates {meant}: the server accepts it and ignores its value")
    return warnings


def _correct_switches(values: Mapping[str, object], layerwise: tuple[str, ...]) -> dict[str, bool]:
    """The old switches as given, off where the layerwise list names the same group: the server corrects them so."""
    switches: dict[str, bool] = {}
    for switch in ("dit_cpu_offload", "text_encoder_cpu_offload", "image_encoder_cpu_offload", "vae_cpu_offload"):
        value = values.get(switch)
        if value is None:
            continue
        group = switch.removesuffix("_cpu_offload")
        overruled = group != "dit" and ("all" in layerwise or group in layerwise)
        switches[switch] = bool(value) and not overruled
    return switches


def _check_dit_numbers(dit_knobs: Mapping[str, float | str], *, streams: bool) -> None:
    if float(dit_knobs.get("resident", 0.0)) < 0:
        raise refuse_value(f"--dit-layerwise-resident-layers is {dit_knobs['resident']}: it must not be negative")
    if streams and float(dit_knobs.get("prefetch", 0.0)) < 0:
        raise refuse_value(f"--dit-offload-prefetch-size is {dit_knobs['prefetch']}: it must not be negative")
