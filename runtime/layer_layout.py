"""Where the weights of one layer lie in its buffers: what is planned for is what the executor allocates.

A layer has one buffer per dtype; each weight starts at a multiple of 32 bytes, which some quantised kernels demand.
Source: SGLang-diffusion 0.5.23, layerwise manager (sglang PR #22594 has the reason).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SLICE_ALIGNMENT_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSize:
    """One weight: the name of its dtype, bytes per element, and how many elements its storage spans."""

    dtype: str
    element_bytes: int
    span: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLayout:
    """The buffers of one layer.

    Attributes:
        starts: per weight, its first element in the buffer of its dtype.
        buffer_elements: per dtype, elements of its buffer.
        size_bytes: of all buffers.
    """

    starts: tuple[int, ...]
    buffer_elements: Mapping[str, int]
    size_bytes: int


def lay_out_layer(weights: Iterable[WeightSize]) -> LayerLayout:
    """Place ``weights`` in their order, aligned, in one buffer per dtype. The end of a buffer is not padded."""
    ends: dict[str, int] = {}
    sizes: dict[str, int] = {}
    starts: list[int] = []
    for weight in weights:
        step = max(1, SLICE_ALIGNMENT_BYTES // weight.element_bytes)
        start = -(-ends.get(weight.dtype, 0) // step) * step
        starts.append(start)
        ends[weight.dtype] = start + weight.span
        sizes[weight.dtype] = weight.element_bytes
    size_bytes = sum(end * sizes[dtype] for dtype, end in ends.items())
    return LayerLayout(starts=tuple(starts), buffer_elements=ends, size_bytes=size_bytes)
