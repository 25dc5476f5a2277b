"""Measures what libraries keep of device memory once they have computed something. Imports torch."""

from __future__ import annotations

import torch

from autotune.measure.node_readings import find_backend
from autotune.telemetry.answers import Answer, Unknown
from runtime.devices.protocol import Device, MemoryKind
from runtime.target_summary import Figure

_SIDE = 256


def measure_workspace(device: Device) -> Answer[Figure]:
    """Bytes that stay allocated after the first matrix product: cuBLAS keeps a workspace for each stream.

    To be called before anything else computes on ``device``: a workspace that is there already does not grow.
    """
    before_bytes = _live_bytes(device)
    with device.compute_scope():
        square = torch.ones((_SIDE, _SIDE), dtype=torch.bfloat16, device=device.torch_device)
        product = square @ square
        device.synchronize()
        del square, product
    growth_bytes = max(0, _live_bytes(device) - before_bytes)
    if find_backend(device) != "cuda":
        source = f"measured: the device {device.name} keeps that much after a matrix product"
    elif not growth_bytes:
        return Unknown(reason="this process had multiplied matrices on the device before it could be measured")
    else:
        source = "measured: growth of what is allocated across the first matrix product (torch's allocator)"
    return Figure(value=growth_bytes, unit="bytes", source=source)


def _live_bytes(device: Device) -> int:
    device.synchronize()
    return device.memory().live_bytes[MemoryKind.ACTIVATIONS]
