"""Reproduces where the server keeps the layers of one stack on the host."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.conformance.difference import FieldDifference, compare_values
from autotune.conformance.records import HostingRecord
from runtime.hosting import HostedLayer, HostTier, PinBudget, host_stack, spendable_pin_bytes
from runtime.residency import streamed_layers

_LETTERS = {HostTier.PINNED: "P", HostTier.PAGEABLE: "A", HostTier.MAPPED: "M"}


def check_hosting(record: HostingRecord) -> Iterator[FieldDifference]:
    """Host the recorded stack and yield what differs."""
    spendable = spendable_pin_bytes(record.available_for_pins_bytes)
    yield from compare_values("spendable_pin_bytes", record.spendable_pin_bytes, spendable)
    layers = [
        HostedLayer(run_bytes=size, view_bytes=view)
        for size, view in zip(record.layer_bytes, record.mapped_bytes, strict=True)
    ]
    hosting, _ = host_stack(
        layers,
        streamed_layers(len(layers), record.resident, record.policy),
        PinBudget(spendable_bytes=spendable, available_bytes=record.available_now_bytes),
        pins=record.pin_cpu_memory,
    )
    letters = "".join(_LETTERS[tier] for tier in hosting.tiers if tier is not None)
    yield from compare_values("hosting", record.hosting, letters)
    yield from compare_values("pinned_bytes", record.pinned_bytes, hosting.pinned_bytes)
