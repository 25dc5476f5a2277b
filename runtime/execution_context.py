"""What everything that a session executes shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from runtime.devices.protocol import Device, Label
from runtime.errors import DeviceError
from runtime.host_store import HostStore
from runtime.interrupts import InterruptShield
from runtime.program import Action
from runtime.telemetry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """The device, host copies, the notes that are taken, who is told of every action, and what holds Ctrl-C back."""

    device: Device
    store: HostStore
    telemetry: Telemetry
    log: Callable[[Action], None]
    shield: InterruptShield = field(default_factory=InterruptShield)

    def read_back(self, host: list[torch.Tensor], device: list[torch.Tensor], label: Label) -> None:
        """Copy device buffers to host buffers; without the device's own engine if that has failed.

        Weights that have no host copy would be lost otherwise.
        """
        pairs = list(zip(host, device, strict=True))
        if not pairs:
            return
        try:
            self.device.copy_back(pairs, label)
        except DeviceError:
            with torch.inference_mode(False), torch.no_grad():
                for target, source in pairs:
                    target.copy_(source)
