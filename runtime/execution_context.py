"""What everything that a session executes shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.devices.protocol import Device
from runtime.host_store import HostStore
from runtime.program import Action
from runtime.telemetry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """The device, the host copies, the notes that are taken, and who is told of every action."""

    device: Device
    store: HostStore
    telemetry: Telemetry
    log: Callable[[Action], None]
