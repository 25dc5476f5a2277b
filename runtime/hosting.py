"""Where each layer's weights wait on the host: pinned, pageable, or mapped on the checkpoint file.

The server decides this by itself; no option steers it. The rules are those of SGLang-diffusion 0.5.23 (host memory
budget and layerwise manager) and ``tests/data/sglang_hosting_cases.jsonl`` was recorded from it:

- spendable pins = available - max(5 % of it, 2 GiB);
- inside a stack the streamed layers ask first, in their order, then the residents; a layer that does not fit the rest
  is skipped, so that a smaller one may still fit;
- what is not pinned is copied into pageable memory, unless the bytes that pins and copies add would reach the
  available memory less 4 GiB: then it stays mapped, and pins are given back from the last one on if they alone do not
  fit. A layer of which nothing is in the file cannot stay mapped.
- Bytes that the loader made itself (fused, reordered or cast weights) are in memory already; hosting adds the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from runtime.errors import InputError
from runtime.units import GIB, MAX_BYTES

PIN_RESERVE_RATIO = 0.05
MIN_PIN_RESERVE_BYTES = 2 * GIB
COPY_RESERVE_BYTES = 4 * GIB

COURIER_SLOTS = 2
"""Pinned slots through which a courier thread ships the mapped layers of a stack, each as large as the largest."""


class HostTier(StrEnum):
    """Where a layer waits, by what its copies do."""

    PINNED = "pinned"
    PAGEABLE = "pageable"
    MAPPED = "mapped"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedLayer:
    """One layer that needs a host copy: its bytes, and how many of them can stay views of the checkpoint file."""

    run_bytes: int
    view_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PinBudget:
    """What may still be pinned and committed while one stack after another is hosted.

    Attributes:
        spendable_bytes: what may still be pinned.
        available_bytes: what can still be committed in all.
    """

    spendable_bytes: int
    available_bytes: int

    def would_not_fit(self, added_bytes: int) -> bool:
        """Whether adding ``added_bytes`` of memory that cannot be dropped would run the host out."""
        return added_bytes > 0 and added_bytes >= self.available_bytes - COPY_RESERVE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class StackHosting:
    """Where the layers of one stack wait.

    Attributes:
        tiers: per layer; None for a permanent resident, which has no host copy.
        pinned_bytes, pageable_bytes: of layers hosted so.
        mapped_bytes: what mapped layers read from the checkpoint file.
        mapped_copied_bytes: what mapped layers hold in pageable memory, because it is in no file.
        courier_bytes: pinned slots through which the mapped layers are shipped.
        streamed_mapped_bytes: the share of ``mapped_bytes`` that is read on every pass, not once per use.
    """

    tiers: tuple[HostTier | None, ...]
    pinned_bytes: int
    pageable_bytes: int
    mapped_bytes: int
    mapped_copied_bytes: int
    courier_bytes: int
    streamed_mapped_bytes: int

    def count(self, tier: HostTier) -> int:
        """Layers that wait in ``tier``."""
        return self.tiers.count(tier)

    @property
    def held_bytes(self) -> int:
        """Host memory that cannot be dropped: pins, pageable copies, courier slots."""
        return self.pinned_bytes + self.pageable_bytes + self.mapped_copied_bytes + self.courier_bytes


def spendable_pin_bytes(available_bytes: int) -> int:
    """What the server may pin of ``available_bytes``; never negative."""
    return max(0, available_bytes - max(int(available_bytes * PIN_RESERVE_RATIO), MIN_PIN_RESERVE_BYTES))


def host_stack(
    layers: Sequence[HostedLayer | None], streamed: Iterable[int], reading: PinBudget, *, pins: bool = True
) -> tuple[StackHosting, PinBudget]:
    """Host one stack by the server's rule.

    Args:
        layers: of the stack; None where no host copy is needed (permanent residents).
        streamed: indices of the layers that are copied on every pass, in their order.
        reading: what may be spent.
        pins: whether the server may pin at all (``--pin-cpu-memory``).

    Returns:
        Where the layers wait, and what is left for the next stack.
    """
    present = {index: layer for index, layer in enumerate(layers) if layer is not None}
    first = [index for index in streamed if index in present]
    order = [*first, *sorted(present.keys() - set(first))]
    tiers: dict[int, HostTier] = {}
    pinned: list[int] = []
    pinned_bytes = 0
    for index in order:
        size = present[index].run_bytes
        if pins and pinned_bytes + size <= reading.spendable_bytes:
            pinned.append(index)
            pinned_bytes += size
            tiers[index] = HostTier.PINNED
        else:
            tiers[index] = HostTier.PAGEABLE
    unpinned = [index for index in order if tiers[index] is not HostTier.PINNED]
    added_bytes = sum(layer.view_bytes for layer in present.values())
    if unpinned and reading.would_not_fit(added_bytes):
        for index in unpinned:
            if present[index].view_bytes:
                tiers[index] = HostTier.MAPPED
                added_bytes -= present[index].view_bytes
        while pinned and reading.would_not_fit(added_bytes):
            index = pinned.pop()
            pinned_bytes -= present[index].run_bytes
            if present[index].view_bytes:
                tiers[index] = HostTier.MAPPED
                added_bytes -= present[index].view_bytes
            else:
                tiers[index] = HostTier.PAGEABLE
    left = PinBudget(
        spendable_bytes=reading.spendable_bytes - pinned_bytes,
        available_bytes=max(0, reading.available_bytes - added_bytes),
    )
    found = [tiers.get(index) for index in range(len(layers))]
    return build_stack_hosting(layers, found, first), left


def build_stack_hosting(
    layers: Sequence[HostedLayer | None], tiers: Sequence[HostTier | None], streamed: Iterable[int]
) -> StackHosting:
    """The bytes that go with ``tiers``; ``streamed`` are the layers that are copied on every pass."""
    by_tier: dict[HostTier, list[HostedLayer]] = {tier: [] for tier in HostTier}
    for layer, tier in zip(layers, tiers, strict=True):
        if layer is not None and tier is not None:
            by_tier[tier].append(layer)
    mapped = by_tier[HostTier.MAPPED]
    return StackHosting(
        tiers=tuple(tiers),
        pinned_bytes=sum(layer.run_bytes for layer in by_tier[HostTier.PINNED]),
        pageable_bytes=sum(layer.run_bytes for layer in by_tier[HostTier.PAGEABLE]),
        mapped_bytes=sum(layer.view_bytes for layer in mapped),
        mapped_copied_bytes=sum(layer.run_bytes - layer.view_bytes for layer in mapped),
        courier_bytes=COURIER_SLOTS * max((layer.view_bytes for layer in mapped), default=0),
        streamed_mapped_bytes=sum(
            layer.view_bytes
            for layer in (layers[index] for index in streamed if tiers[index] is HostTier.MAPPED)
            if layer is not None
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """The host that serves.

    Attributes:
        available_bytes: what a server can commit before it has loaded any weights.
        pins: whether it pins at all (``--pin-cpu-memory``).
        page_cache_room_bytes: what the page cache can keep of mapped weights; None for what a plan leaves free.
    """

    available_bytes: int
    pins: bool = True
    page_cache_room_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("available_bytes", "page_cache_room_bytes"):
            size = getattr(self, name)
            if size is not None and not 0 <= size <= MAX_BYTES:
                raise InputError(f"{name} is {size}: bytes lie between 0 and 2^60")
