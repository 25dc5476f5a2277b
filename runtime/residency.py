"""Which layers of a stack stay on the device and which stream: the two policies as sets.

Notation: ``n`` layers, ``r`` resident (clamped to 0..n), ``s = n - r`` streamed.
Source: SGLang-diffusion 0.5.23, layerwise manager; ``tests/data/sglang_schedule_traces.jsonl``.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache


class Mode(StrEnum):
    """How a component's weights are kept."""

    RESIDENT = "resident"
    COMPONENT_OFFLOAD = "component-offload"
    LAYERWISE_OFFLOAD = "layerwise-offload"


class Policy(StrEnum):
    """Which layers of a stack stay: the first ones, or ones spread evenly."""

    LEADING = "leading"
    STRIDED = "strided"


class Lifetime(StrEnum):
    """How long residents stay: while the component is in use in a request, or from load on without a host copy."""

    FORWARD = "forward"
    PERMANENT = "permanent"


@lru_cache(maxsize=65536)
def streamed_layers(layer_count: int, resident: int, policy: Policy) -> tuple[int, ...]:
    """Indices of the streamed layers, ascending; exactly ``n - clamp(r, 0, n)`` of them.

    ``leading`` streams ``r .. n-1``. ``strided`` streams ``round(i * n / s)`` for ``i = 0 .. s-1`` with Python's
    round-half-to-even, so it always streams layer 0. ``r = 0`` streams every layer under both.
    """
    kept = min(max(resident, 0), layer_count)
    count = layer_count - kept
    if kept == 0:
        return tuple(range(layer_count))
    if policy is Policy.LEADING:
        return tuple(range(kept, layer_count))
    return tuple(round(index * layer_count / count) for index in range(count))


@lru_cache(maxsize=65536)
def resident_layers(layer_count: int, resident: int, policy: Policy) -> tuple[int, ...]:
    """Indices of the layers that stay, ascending: the complement of ``streamed_layers``."""
    streamed = set(streamed_layers(layer_count, resident, policy))
    return tuple(index for index in range(layer_count) if index not in streamed)
