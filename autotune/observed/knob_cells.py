"""Prefetch size, resident layers and policy as tables have them: ``1 (default)``, ``0.2 (10 of 50)``. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.observed.observation import Reason
from autotune.observed.quantities import shorten
from autotune.observed.refusal import RowRefusedError
from runtime.residency import Lifetime, Mode, Policy

_COUNT = re.compile(r"([0-9]{1,4})(?: \((?:default|layers?|=?[0-9]+ layers?)\))?")
_SHARE = re.compile(r"([01]?\.[0-9]{1,4})(?: \((?P<words>[^)]*)\))?")
_COUNT_IN_WORDS = re.compile(r"=?([0-9]{1,4})(?: of [0-9]{1,4}| layers?)?")
_POLICY_WORDS = {
    "leading": ("policy", Policy.LEADING),
    "strided": ("policy", Policy.STRIDED),
    "forward": ("lifetime", Lifetime.FORWARD),
    "permanent": ("lifetime", Lifetime.PERMANENT),
}
_DEFAULTS = (("policy", Policy.LEADING), ("lifetime", Lifetime.FORWARD))
_MODES = {
    "resident": Mode.RESIDENT,
    "component-offload": Mode.COMPONENT_OFFLOAD,
    "whole-component cpu_offload": Mode.COMPONENT_OFFLOAD,
    "cpu_offload": Mode.COMPONENT_OFFLOAD,
    "cpu-offload": Mode.COMPONENT_OFFLOAD,
    "layerwise": Mode.LAYERWISE_OFFLOAD,
    "layerwise-offload": Mode.LAYERWISE_OFFLOAD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What the knob cells of a row say; None where they say nothing.

    Attributes:
        prefetch: layers asked for ahead.
        resident: layers that stay; None where all do.
        mode: of the component, where a cell names it.
        words: policy and lifetime, where they differ from the server's defaults.
        assumed: one sentence for each cell that had to be interpreted.
    """

    prefetch: int | None = None
    resident: int | None = None
    mode: Mode | None = None
    words: tuple[tuple[str, str], ...] = ()
    assumed: tuple[str, ...] = ()


def read_knobs(cells: Mapping[str, str]) -> Knobs:
    """The knobs in the cells ``prefetch``, ``resident`` and ``policy``; shares need the cell ``layers``.

    Raises:
        RowRefusedError: a knob that the server does not have, or a value that is none.
    """
    layers = cells.get("layers", "")
    prefetch, resident = cells.get("prefetch", ""), cells.get("resident", "")
    mode, words, assumed = _read_policy(cells.get("policy", ""))
    if resident.casefold() == "all":
        resident, mode = "", mode if mode is Mode.COMPONENT_OFFLOAD else Mode.RESIDENT
    ahead = _read_count("prefetch", prefetch, layers) if prefetch else None
    return Knobs(
        # The server reads 0 as one layer.
        prefetch=None if ahead is None else max(1, ahead),
        resident=_read_count("resident", resident, layers) if resident else None,
        mode=mode,
        words=words,
        assumed=assumed,
    )


def _read_policy(text: str) -> tuple[Mode | None, tuple[tuple[str, str], ...], tuple[str, ...]]:
    lowered = text.casefold().strip()
    if lowered in _MODES:
        return _MODES[lowered], (), ()
    plain = re.sub(r"\([^)]*\)", " ", lowered)
    words = [word for word in re.split(r"[\s,;/]+", plain) if word not in {"", "and", "lifetime", "policy"}]
    unknown = [word for word in words if word not in _POLICY_WORDS]
    if unknown:
        raise RowRefusedError(
            Reason.NOT_EXPRESSIBLE,
            f"policy is {shorten(text)!r}: the server has {', '.join(_POLICY_WORDS)}, and the modes "
            f"{', '.join(dict.fromkeys(_MODES.values()))}",
        )
    chosen: dict[str, str] = {}
    assumed: list[str] = []
    for word in words:
        knob, value = _POLICY_WORDS[word]
        if chosen.setdefault(knob, value) != value:
            assumed.append(f"the row is of several: {shorten(text)!r}; {chosen[knob]} is simulated")
    told = tuple(pair for pair in chosen.items() if pair not in _DEFAULTS)
    return Mode.LAYERWISE_OFFLOAD if words else None, told, tuple(assumed)


def _read_count(knob: str, text: str, layers: str) -> int:
    count = _COUNT.fullmatch(text)
    if count:
        return int(count[1])
    share = _SHARE.fullmatch(text)
    if share:
        words = _COUNT_IN_WORDS.fullmatch(share["words"] or "")
        if words:
            return int(words[1])
        if re.fullmatch(r"[0-9]{1,4}", layers) and float(share[1]) < 1:
            return _count_share(knob, float(share[1]), int(layers))
    raise RowRefusedError(
        Reason.NOT_EXPRESSIBLE,
        f"{knob} is {shorten(text)!r}, which is no number of layers: give the number (a share needs the column layers)",
    )


def _count_share(knob: str, share: float, layers: int) -> int:
    """As the server counts a share of a stack (``ComponentOptions.counts``)."""
    if knob == "prefetch":
        return 1 + round(share * (layers - 1))
    return max(1, round(share * layers)) if share > 0 else 0
