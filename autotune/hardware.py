"""Named devices: datasheet figures, measured links and efficiency ratios, each with its source. Imports no torch."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from runtime.errors import InputError
from runtime.units import GIB, MIB, format_gib

GIVEN_BY_USER = "given by the user"

# One lane, one direction, after line coding; the ceiling that no measured copy can pass (PCI-SIG base specifications).
_BYTES_PER_S_PER_LANE = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
# A driver that reserves more or less than on the card the preset was read from stays within this share of its total.
_SAME_CARD_TOLERANCE_RATIO = 0.02
_RATIOS = ("matmul_ratio", "attention_ratio", "bandwidth_ratio", "float32_matmul_ratio")
_SIZES = ("memory_bytes", "usable_vram_bytes", "context_bytes")
_RATES = ("memory_bytes_per_s", "pinned_bytes_per_s", "pageable_bytes_per_s", "d2h_pinned_bytes_per_s")
_LINK = ("pcie_generation", "pcie_lanes")
_FIGURES = (*_SIZES, *_RATES, *_RATIOS, *_LINK, "matrix_flops_per_s")
_VENDOR_WORDS = frozenset({"nvidia", "geforce"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePreset:
    """Facts about one card. Every figure has its source in ``sources``, under the figure's field name.

    Attributes:
        name: the slug, as in ``--device``.
        title: what people and drivers call it; says which variant where a name covers several.
        aliases: other names for exactly this card.
        architecture: architecture and chip.
        memory_bytes: device memory as the driver reports it.
        usable_vram_bytes: what one process sees as total before its own context; less than ``memory_bytes``.
        matrix_flops_per_s: dense rate per dtype as torch runs it: ``bfloat16``, ``float16`` (fp32 accumulation),
            ``float32`` (CUDA cores: matmul leaves TF32 off, convolutions allow it), ``tf32``, ``fp8`` where it exists.
        memory_bytes_per_s: device memory bandwidth.
        pcie_generation, pcie_lanes: the card's own link; a slot may give less.
        pinned_bytes_per_s, pageable_bytes_per_s: host to device, as measured on ordinary hosts.
        d2h_pinned_bytes_per_s: device to pinned host memory.
        matmul_ratio: share 0..1 of the bf16/fp16 rate that large matrix products reach.
        attention_ratio: the same for fused attention.
        bandwidth_ratio: share of ``memory_bytes_per_s`` that streaming kernels reach.
        float32_matmul_ratio: ``matmul_ratio`` of fp32 products with TF32 off, far lower on consumer cards.
        context_bytes: CUDA context and loaded kernel modules of a serving process.
        sources: field name -> where the figure comes from.
        family_figures: fields that hold the family's common figure, measured on one of its cards, not on each.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    architecture: str
    memory_bytes: int
    usable_vram_bytes: int
    matrix_flops_per_s: Mapping[str, float]
    memory_bytes_per_s: float
    pcie_generation: int
    pcie_lanes: int
    pinned_bytes_per_s: float
    pageable_bytes_per_s: float
    d2h_pinned_bytes_per_s: float
    matmul_ratio: float
    attention_ratio: float
    bandwidth_ratio: float
    float32_matmul_ratio: float
    context_bytes: int
    sources: Mapping[str, str]
    family_figures: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        figures = {name: getattr(self, name) for name in (*_SIZES, *_RATES, *_RATIOS, *_LINK)}
        figures |= {f"matrix_flops_per_s[{dtype}]": rate for dtype, rate in self.matrix_flops_per_s.items()}
        for name, figure in figures.items():
            if not (math.isfinite(figure) and figure > 0):
                raise InputError(f"{self.name}.{name} is {figure}: it must be positive and finite")
        for name in _RATIOS:
            if getattr(self, name) > 1:
                raise InputError(f"{self.name}.{name} is {getattr(self, name)}: a ratio is at most 1")
        if not self.matrix_flops_per_s:
            raise InputError(f"{self.name}.matrix_flops_per_s is empty: give at least one dtype's rate")
        if self.usable_vram_bytes > self.memory_bytes:
            raise InputError(
                f"{self.name}: usable VRAM {format_gib(self.usable_vram_bytes)} exceeds the card's "
                f"{format_gib(self.memory_bytes)}; give at most what the card has"
            )
        if self.pcie_generation not in _BYTES_PER_S_PER_LANE:
            known = ", ".join(str(generation) for generation in _BYTES_PER_S_PER_LANE)
            raise InputError(f"{self.name}.pcie_generation is {self.pcie_generation}: known are {known}")
        missing = [name for name in _FIGURES if not self.sources.get(name, "").strip()]
        if missing:
            raise InputError(f"{self.name} has no source for {', '.join(missing)}: every figure needs one")

    @property
    def link_limit_bytes_per_s(self) -> float:
        """What the card's link can carry one way; a higher measured rate means another link (NVLink-C2C)."""
        return _BYTES_PER_S_PER_LANE[self.pcie_generation] * self.pcie_lanes

    def effective_matmul_flops_per_s(self, dtype: str) -> float:
        """The rate that large matrix products in ``dtype`` reach.

        Raises:
            InputError: no rate is known for ``dtype`` on this card.
        """
        ratio = self.float32_matmul_ratio if dtype == "float32" else self.matmul_ratio
        return self._datasheet_flops_per_s(dtype) * ratio

    def effective_attention_flops_per_s(self, dtype: str) -> float:
        """The rate that fused attention in ``dtype`` reaches.

        Raises:
            InputError: no rate is known for ``dtype`` on this card.
        """
        return self._datasheet_flops_per_s(dtype) * self.attention_ratio

    def _datasheet_flops_per_s(self, dtype: str) -> float:
        try:
            return self.matrix_flops_per_s[dtype]
        except KeyError:
            known = ", ".join(self.matrix_flops_per_s)
            raise InputError(f"{self.name} has no matrix rate for {dtype!r}: it has {known}") from None

    def with_overrides(self, **figures: float | None) -> DevicePreset:
        """This card with the user's own figures; their source becomes ``given by the user``. None leaves a figure.

        Raises:
            InputError: not a figure of a preset, or a value that breaks its rule.
        """
        given = {name: figure for name, figure in figures.items() if figure is not None}
        allowed = (*_SIZES, *_RATES, *_RATIOS, *_LINK)
        unknown = sorted(set(given) - set(allowed))
        if unknown:
            raise InputError(f"a device has no figure {', '.join(unknown)}: it has {', '.join(allowed)}")
        if not given:
            return self
        sources = {**self.sources, **dict.fromkeys(given, GIVEN_BY_USER)}
        changes: dict[str, Any] = {**given, "sources": MappingProxyType(sources)}
        return replace(self, **changes, family_figures=self.family_figures - set(given))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """How one key of the data file becomes a field of the preset."""

    field: str
    factor: float
    whole: bool = False


_ENTRIES = {
    "memory_mib": _Entry(field="memory_bytes", factor=MIB, whole=True),
    "usable_vram_gib": _Entry(field="usable_vram_bytes", factor=GIB, whole=True),
    "context_mib": _Entry(field="context_bytes", factor=MIB, whole=True),
    "memory_gb_per_s": _Entry(field="memory_bytes_per_s", factor=1e9),
    "pinned_gb_per_s": _Entry(field="pinned_bytes_per_s", factor=1e9),
    "pageable_gb_per_s": _Entry(field="pageable_bytes_per_s", factor=1e9),
    "d2h_pinned_gb_per_s": _Entry(field="d2h_pinned_bytes_per_s", factor=1e9),
    **{name: _Entry(field=name, factor=1) for name in _RATIOS},
}


def _source_text(entry: Mapping[str, Any], catalogue: Mapping[str, str]) -> str:
    cited = "; ".join(catalogue[key] for key in entry["source"])
    return f"{entry['note']} [{cited}]" if entry["note"] else cited


def _build_preset(name: str, table: dict[str, Any], document: dict[str, Any]) -> DevicePreset:
    catalogue = document["sources"]
    family = document["families"][table["family"]]
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key, entry in _ENTRIES.items():
        figure = table.get(key, family.get(key))
        scaled = figure["value"] * entry.factor
        values[entry.field] = round(scaled) if entry.whole else float(scaled)
        sources[entry.field] = _source_text(figure, catalogue)
    rates = table["matrix_tflops"]
    values["matrix_flops_per_s"] = MappingProxyType(
        {dtype: tflops * 1e12 for dtype, tflops in rates.items() if dtype not in {"source", "note"}}
    )
    sources["matrix_flops_per_s"] = _source_text(rates, catalogue)
    for key in ("generation", "lanes"):
        values[f"pcie_{key}"] = table["pcie"][key]
        sources[f"pcie_{key}"] = _source_text(table["pcie"], catalogue)
    return DevicePreset(
        name=name,
        title=table["title"],
        aliases=tuple(table["aliases"]),
        architecture=table["architecture"],
        sources=MappingProxyType(sources),
        family_figures=frozenset(entry.field for key, entry in _ENTRIES.items() if key not in table),
        **values,
    )


@cache
def list_devices() -> tuple[DevicePreset, ...]:
    """All presets in the data file's order."""
    document = tomllib.loads(resources.files("autotune").joinpath("data/devices.toml").read_text(encoding="utf-8"))
    return tuple(_build_preset(name, table, document) for name, table in document["devices"].items())


def _normalise(name: str) -> str:
    words = re.findall(r"[a-z0-9]+", name.lower())
    return " ".join(word for word in words if word not in _VENDOR_WORDS)


@cache
def _devices_by_name() -> dict[str, DevicePreset]:
    index: dict[str, DevicePreset] = {}
    for device in list_devices():
        for name in (device.name, device.title, *device.aliases):
            other = index.setdefault(_normalise(name), device)
            if other is not device:
                raise InputError(f"the device data names both {other.name} and {device.name} {name!r}")
    return index


def _find_closest(wanted: str, index: Mapping[str, DevicePreset]) -> DevicePreset | None:
    """The device whose name shares a model number, then most letters; None when nothing is alike."""

    def likeness(candidate: str) -> tuple[int, float]:
        shared = sum(any(map(str.isdigit, word)) for word in set(wanted.split()) & set(candidate.split()))
        return shared, difflib.SequenceMatcher(None, wanted, candidate).ratio()

    best = max(index, key=likeness)
    shared, letters_ratio = likeness(best)
    return index[best] if shared or letters_ratio > 0.6 else None


def find_device(name: str, memory_bytes: int | None = None) -> DevicePreset:
    """The preset that ``name`` means: a slug, a title as the driver prints it, or an alias; case does not matter.

    Args:
        name: what the user typed or the driver reports.
        memory_bytes: the driver's total, when known. Some names cover cards of several sizes (RTX 3060); a total
            that differs from the preset's by more than 2 % is another card.

    Raises:
        InputError: no preset, never a similar card's figures instead.
    """
    index = _devices_by_name()
    device = index.get(_normalise(name))
    known = ", ".join(device.name for device in list_devices())
    if device is None:
        closest = _find_closest(_normalise(name), index)
        hint = f"; the closest is {closest.name}, if that is your card" if closest else ""
        raise InputError(f"no device is called {name!r}: known are {known}{hint}")
    if memory_bytes is not None:
        difference_ratio = abs(memory_bytes - device.memory_bytes) / device.memory_bytes
        if difference_ratio > _SAME_CARD_TOLERANCE_RATIO:
            raise InputError(
                f"{name!r} reports {format_gib(memory_bytes)}, the preset {device.name} has "
                f"{format_gib(device.memory_bytes)}: another variant of the card; known are {known}"
            )
    return device
