"""Where the weights of a row were: the cells ``component``, ``prefetch``, ``resident`` and ``policy``. Pure.

The component cell is read clause by clause (``DiT+TE layerwise, VAE resident``). The three knob cells are of the
diffusion transformer where the cell names it or nothing, else of what it names. What no cell places is where ``Base``
says; ``assumed`` says which was taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.catalog.entry import CatalogEntry
from autotune.observed.component_words import find_components, find_picture_vae, list_denoisers, list_text_encoders
from autotune.observed.knob_cells import Knobs, read_knobs
from autotune.observed.observation import Base, Reason
from autotune.observed.quantities import shorten
from autotune.observed.refusal import RowRefusedError
from runtime.residency import Mode

_ALL_RESIDENT = re.compile(r"\ball resident\b|\beverything resident\b|\bno offload\b", re.IGNORECASE)
_STREAMS = re.compile(r"\b(?:layer-?wise|streamed|streams|streaming|mapped)\b", re.IGNORECASE)
_MOVES = re.compile(
    r"\b(?:cpu|component|model|whole[ -]component|sequential)[ _-](?:cpu[ _-])?offload|\bwhole-component\b",
    re.IGNORECASE,
)
_RESIDENT = re.compile(r"\bresident\b", re.IGNORECASE)
_COUNT = re.compile(r"\b([a-z_0-9]+)=([0-9]{1,4})\b", re.IGNORECASE)
_OWN_COUNT = re.compile(r"\bresident ([0-9]{1,4})(?: of [0-9]{1,4})?\b", re.IGNORECASE)
_SETTING = re.compile(r"([a-z_0-9]+)\.(mode|prefetch|resident|policy|lifetime)=([a-z0-9-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedPlacement:
    """The placements of a row.

    Attributes:
        settings: ``component.knob=value``.
        base: of everything else.
        named: components that the row is about, in order of use.
        assumed: what the row does not say, one sentence each.
    """

    settings: tuple[str, ...]
    base: Base
    named: tuple[str, ...]
    assumed: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """What the cells say so far: component -> mode, component -> resident layers."""

    modes: dict[str, Mode] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def read_placement(
    entry: CatalogEntry, cells: Mapping[str, str], model_rest: str, *, is_of_one_use: bool
) -> StatedPlacement:
    """The placements that the cells of a row describe.

    Args:
        entry: the model.
        cells: of the row, by column.
        model_rest: what the model cell says besides the name; it may name a component.
        is_of_one_use: whether only one component's own work was observed, so that the others matter little.

    Raises:
        RowRefusedError: a knob or a setting that cannot be expressed, or cells that contradict each other.
    """
    text = cells.get("component", "")
    named = find_components(entry, text) or find_components(entry, model_rest)
    denoisers = list_denoisers(entry)
    targets = denoisers if not named or set(denoisers) & set(named) else named
    knobs = read_knobs(cells)
    found = _read_clauses(entry, text)
    is_all_resident = bool(_ALL_RESIDENT.search(text))
    if not is_all_resident:
        _apply_knobs(found, knobs, targets)
    typed = _read_settings(entry, cells.get("settings", ""))
    settings = (*_list_settings(entry, found, knobs, targets), *typed)
    streams = any(mode is Mode.LAYERWISE_OFFLOAD for mode in found.modes.values()) or any(
        not setting.endswith(("=resident", "=component-offload")) for setting in typed
    )
    base = _choose_base(is_all_resident=is_all_resident, streams=streams, is_of_one_use=is_of_one_use)
    placed = set(found.modes) | {setting.partition(".")[0] for setting in typed}
    return StatedPlacement(
        settings=settings, base=base, named=named or targets, assumed=_list_assumed(entry, base, placed, knobs)
    )


def _read_clauses(entry: CatalogEntry, text: str) -> _Found:
    found = _Found()
    for clause in re.split(r"[,;]", text):
        counted = [(name, int(count)) for name, count in _COUNT.findall(clause) if name in entry.configs]
        for name, count in counted:
            found.modes[name], found.counts[name] = Mode.LAYERWISE_OFFLOAD, count
        names = find_components(entry, _COUNT.sub(" ", clause))
        own = _OWN_COUNT.search(clause)
        mode = _read_mode(clause)
        if own:
            mode = Mode.LAYERWISE_OFFLOAD
            found.counts.update(dict.fromkeys(names or list_denoisers(entry), int(own[1])))
        if mode is not None and not (counted and not names):
            for name in names or (list_denoisers(entry) if own else ()):
                found.modes[name] = mode
    return found


def _read_mode(text: str) -> Mode | None:
    if _STREAMS.search(text):
        return Mode.LAYERWISE_OFFLOAD
    if _MOVES.search(text):
        return Mode.COMPONENT_OFFLOAD
    return Mode.RESIDENT if _RESIDENT.search(text) else None


def _apply_knobs(found: _Found, knobs: Knobs, targets: tuple[str, ...]) -> None:
    """Give the targets the mode and the count of the knob cells; both must agree with the component cell."""
    has_counts = knobs.prefetch is not None or knobs.resident is not None
    mode = knobs.mode or (Mode.LAYERWISE_OFFLOAD if has_counts else None)
    for name in targets:
        stated = found.modes.get(name)
        if mode is None:
            continue
        if stated not in {None, mode} and not (stated is Mode.RESIDENT and knobs.resident):
            raise RowRefusedError(
                Reason.NOT_EXPRESSIBLE,
                f"the component cell makes {name} {stated} and the knob cells make it {mode}: keep one of them",
            )
        found.modes[name] = mode
        if mode is not Mode.LAYERWISE_OFFLOAD or knobs.resident is None:
            continue
        if found.counts.setdefault(name, knobs.resident) != knobs.resident:
            raise RowRefusedError(
                Reason.NOT_EXPRESSIBLE,
                f"{found.counts[name]} resident layers of {name} in the component cell and {knobs.resident} in their "
                "own: keep one of them",
            )


def _list_settings(entry: CatalogEntry, found: _Found, knobs: Knobs, targets: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        f"{name}.{setting}"
        for name in entry.configs
        if name in found.modes
        for setting in _list_own(entry, name, found, knobs if name in targets else None)
    )


def _list_own(entry: CatalogEntry, name: str, found: _Found, knobs: Knobs | None) -> list[str]:
    """Settings of one component; ``knobs`` where the knob cells are its."""
    mode = found.modes[name]
    if mode is not Mode.LAYERWISE_OFFLOAD:
        return [f"mode={mode}"]
    own = [f"resident={found.counts[name]}"] if name in found.counts else []
    if knobs is not None:
        own = [f"prefetch={knobs.prefetch}", *own] if knobs.prefetch is not None else own
        own += [f"{knob}={value}" for knob, value in knobs.words]
    # In ``Base.STREAMED`` these stream by themselves.
    main = (*list_denoisers(entry), *list_text_encoders(entry), find_picture_vae(entry))
    return own or ([f"mode={mode}"] if knobs is not None or name not in main else [])


def _read_settings(entry: CatalogEntry, text: str) -> tuple[str, ...]:
    settings = [part.strip() for part in text.split(";") if part.strip()]
    for setting in settings:
        match = _SETTING.fullmatch(setting)
        if match is None or match[1] not in entry.configs:
            raise RowRefusedError(
                Reason.NOT_EXPRESSIBLE,
                f"settings has {shorten(setting)!r}: write component.knob=value with a component of {entry.name} "
                f"({', '.join(entry.configs)}), several with semicolons between them",
            )
    return tuple(settings)


def _choose_base(*, is_all_resident: bool, streams: bool, is_of_one_use: bool) -> Base:
    if is_all_resident:
        return Base.RESIDENT
    return Base.STREAMED if streams or is_of_one_use else Base.SERVER_DEFAULT


def _list_assumed(entry: CatalogEntry, base: Base, placed: set[str], knobs: Knobs) -> tuple[str, ...]:
    assumed = list(knobs.assumed)
    others = [name for name in entry.configs if name not in placed]
    if others and base is not Base.RESIDENT:
        where = "where everything streams" if base is Base.STREAMED else "without options"
        assumed.append(f"not placed by the row, so as the server does by default {where}: {', '.join(others)}")
    return tuple(assumed)
