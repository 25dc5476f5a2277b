"""What the tests of devices have done: layers of host memory, copies of them, and the spans of many copies."""

from collections.abc import Iterable
from itertools import pairwise

import torch

from runtime.devices.protocol import CopySpan, Device, Label, QueuedCopy
from runtime.timeline import Lane

LAYER_NUMEL = 1024
LAYER_BYTES = LAYER_NUMEL * 4


def label(layer: int) -> Label:
    return Label("transformer", "blocks", layer)


def host_layer(layer: int, numel: int = LAYER_NUMEL) -> torch.Tensor:
    """A layer's weights, of which no two elements of small layers are equal, on pages of its own."""
    room = torch.empty(numel * 4 + 3 * 4096, dtype=torch.uint8)
    begin = -room.data_ptr() % 4096
    weights = room[begin : begin + numel * 4].view(torch.float32)
    weights.copy_(torch.arange(numel, dtype=torch.float32) + 1e5 * layer)
    return weights


def pinned_layers(device: Device, count: int) -> list[torch.Tensor]:
    layers = [host_layer(layer) for layer in range(count)]
    for layer in layers:
        device.pin(layer)
    return layers


def buffer_of(device: Device, weights: torch.Tensor) -> torch.Tensor:
    return device.allocate(weights.numel(), weights.dtype)


def holds(buffer: torch.Tensor, weights: torch.Tensor) -> bool:
    return torch.equal(buffer.cpu(), weights)


def spans_on(lane: Lane, copies: Iterable[QueuedCopy]) -> list[CopySpan]:
    return sorted(span for copy in copies for span in copy.spans() if span.lane is lane)


def are_disjoint(spans: list[CopySpan]) -> bool:
    return all(before.end_s <= after.start_s for before, after in pairwise(spans))
