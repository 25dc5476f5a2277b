"""Finds the lists of layers in a component by the names of its tensors, and counts the bytes of each layer."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.checkpoint.dtypes import PLAIN_FLOATS
from autotune.checkpoint.header import TensorEntry

# SGLang-diffusion 0.5.23, runtime/managers/memory_managers/layerwise_offload.py: one buffer per dtype and layer, in
# which each weight starts at a multiple of 32 bytes.
SLICE_ALIGNMENT_BYTES = 32

_INDEX = re.compile(r"\.(0|[1-9][0-9]{0,5})(?=\.|$)")
_DEEPEST = 8
"""Indices of one name that are looked at; no model nests lists deeper."""

# Names under which quantised checkpoints store what belongs to a weight and is none.
_SCALE = re.compile(
    r"(?:^|[._])(?:(?:weight|input|output)_scale\w*|scale_(?:weight|input|inv)|absmax|quant_(?:map|state)|comfy_quant)"
    r"|\.scales?$"
)


@dataclass(frozen=True, kw_only=True)
class FileLayer:
    """One layer of a list, as it is in the file; it may have no tensors (a placeholder inside the list)."""

    index: int
    tensors: tuple[TensorEntry, ...]

    @cached_property
    def checkpoint_bytes(self) -> int:
        """Bytes in the file."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    @cached_property
    def buffer_bytes(self) -> int:
        """Bytes of the server's buffers for the layer, in the dtypes of the file."""
        return compute_buffer_bytes(self.tensors)

    @cached_property
    def weights(self) -> int:
        """Weights of the layer, however many bits each has."""
        return count_weights(self.tensors)

    @cached_property
    def main_dtype(self) -> str:
        """The dtype of most bytes; empty when the layer has none."""
        totals: Counter[str] = Counter()
        for tensor in self.tensors:
            totals[tensor.dtype] += tensor.size_bytes
        return max(totals, key=lambda dtype: totals[dtype], default="")

    @cached_property
    def is_plain(self) -> bool:
        """Whether every tensor is an ordinary float, so that the server casts it at load."""
        return all(tensor.dtype in PLAIN_FLOATS for tensor in self.tensors)


@dataclass(frozen=True, kw_only=True)
class LayerList:
    """A list of layers.

    Attributes:
        prefix: what comes before the index in the names.
        layers: in the order of their indices.
        gaps: ranges of indices, first and last, that the file does not have.
    """

    prefix: str
    layers: tuple[FileLayer, ...]
    gaps: tuple[tuple[int, int], ...]

    @cached_property
    def checkpoint_bytes(self) -> int:
        """Bytes of all layers in the file."""
        return sum(layer.checkpoint_bytes for layer in self.layers)

    def describe_gaps(self) -> str:
        """The missing indices, for people; empty when none is missing."""
        return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in self.gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSplit:
    """Lists of layers in the order in which the file has them, and the tensors that are in none."""

    lists: tuple[LayerList, ...]
    rest: tuple[TensorEntry, ...]


def split_layers(tensors: Iterable[TensorEntry], placeholders: Iterable[str] = ()) -> LayerSplit:
    """Find every list of layers: a dotted prefix, anchored at the start, that is followed by two or more indices.

    A list inside a layer of another list belongs to that layer.

    Args:
        tensors: of one component.
        placeholders: names of modules without tensors, such as ``blocks.3``: they keep their place in a list.
    """
    named: list[tuple[str, TensorEntry | None]] = [(tensor.name, tensor) for tensor in tensors]
    named += [(name, None) for name in placeholders]
    places = [(_list_places(name), tensor) for name, tensor in named]
    members: dict[str, set[int]] = defaultdict(set)
    for found, _ in places:
        for prefix, index in found:
            members[prefix].add(index)
    lists: dict[str, dict[int, list[TensorEntry]]] = {}
    rest: list[TensorEntry] = []
    for found, tensor in places:
        place = next(((prefix, index) for prefix, index in found if len(members[prefix]) > 1), None)
        if place is not None:
            layer = lists.setdefault(place[0], {}).setdefault(place[1], [])
            layer += [tensor] if tensor is not None else []
        elif tensor is not None:
            rest.append(tensor)
    return LayerSplit(
        lists=tuple(_build_list(prefix, layers) for prefix, layers in lists.items()),
        rest=tuple(rest),
    )


def find_list(tensors: Iterable[TensorEntry], prefix: str) -> LayerList | None:
    """The list called ``prefix``, also when it has one layer or lies inside another; None when there is none."""
    layers: dict[int, list[TensorEntry]] = {}
    for tensor in tensors:
        if not tensor.name.startswith(f"{prefix}."):
            continue
        match = _INDEX.match(tensor.name, len(prefix))
        if match is not None:
            layers.setdefault(int(match[1]), []).append(tensor)
    return _build_list(prefix, layers) if layers else None


def compute_buffer_bytes(tensors: Iterable[TensorEntry]) -> int:
    """Bytes that the server's buffers of one layer take: one buffer per dtype, each tensor's start aligned."""
    ends: dict[str, int] = {}
    for tensor in tensors:
        end = ends.get(tensor.dtype, 0)
        ends[tensor.dtype] = -(-end // SLICE_ALIGNMENT_BYTES) * SLICE_ALIGNMENT_BYTES + tensor.size_bytes
    return sum(ends.values())


def count_weights(tensors: Iterable[TensorEntry]) -> int:
    """Weights in ``tensors``: scales are none, and a matrix of bytes holds two four-bit weights in each."""
    return sum(
        math.prod(tensor.shape) * (2 if tensor.dtype == "U8" else 1)
        for tensor in tensors
        if not _SCALE.search(tensor.name)
    )


def _list_places(name: str) -> list[tuple[str, int]]:
    """Every prefix and index in ``name``, the outermost first."""
    places: list[tuple[str, int]] = []
    for match in _INDEX.finditer(name):
        if len(places) == _DEEPEST:
            break
        if match.start() and name[: match.start()].isprintable():
            places.append((name[: match.start()], int(match[1])))
    return places


def _build_list(prefix: str, layers: dict[int, list[TensorEntry]]) -> LayerList:
    order = sorted(layers)
    return LayerList(
        prefix=prefix,
        layers=tuple(FileLayer(index=index, tensors=tuple(layers[index])) for index in order),
        gaps=tuple(_list_gaps(order)),
    )


def _list_gaps(indices: Sequence[int]) -> Iterable[tuple[int, int]]:
    for before, after in zip((-1, *indices), indices, strict=False):
        if after > before + 1:
            yield before + 1, after - 1
