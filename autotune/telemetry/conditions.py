"""The conditions under which something is timed: clocks, heat, throttling and other processes at one instant.

Two readings see only the ends of a run: what came and went in between is not found, so readings belong around every
short run, not around a long one. ``autotune.telemetry.disturbances`` compares them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.telemetry.answers import Answer, Unknown, or_none
from autotune.telemetry.machine_load import MachineLoad, read_machine_load
from autotune.telemetry.nvml import open_nvml
from autotune.telemetry.nvml_device import NvmlDevice
from autotune.telemetry.processes import OwnProcess, find_own_process, split_processes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConditions:
    """Conditions at one instant. None is unknown or does not apply; ``unknown`` has the reasons.

    Attributes:
        at_s: the instant on the clock that ``read_conditions`` was given.
        uuid: of the card; None for the CPU and emulated devices, of which only ``load`` is read, and for a card that
            cannot be told.
        sm_clock_mhz, memory_clock_mhz, temperature_c, throttle_reasons: of the card.
        other_count: other processes with a CUDA context on the card.
        other_pids: their numbers, as far as they are known.
        load: processor time of the machine and of this process; None for a card.
        unknown: field -> why it is None; ``uuid`` -> why nothing of the card could be read.
    """

    at_s: float
    uuid: str | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    other_count: int | None = None
    other_pids: tuple[int, ...] = ()
    load: MachineLoad | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)


def read_conditions(
    uuid: str | None,
    *,
    own: OwnProcess | None = None,
    load_nvml: Callable[[], Any] | None = None,
    read_load: Callable[[], Answer[MachineLoad]] = read_machine_load,
    clock: Callable[[], float] = time.monotonic,
) -> DeviceConditions:
    """Read the conditions now; around many readings keep ``open_nvml`` open, so that each is quick.

    Args:
        uuid: of the card that is timed, as ``GpuReading.uuid``; None for the CPU and emulated devices.
        own: this process; None for one that has opened the card.
        load_nvml: returns the module ``pynvml``; None for the installed one.
        read_load: reads processor time.
        clock: seconds.
    """
    if uuid is None:
        load = read_load()
        unknown = {"load": load.reason} if isinstance(load, Unknown) else {}
        return DeviceConditions(at_s=clock(), load=or_none(load), unknown=unknown)
    own = own or find_own_process(has_context=True)
    with open_nvml(load_nvml) as nvml:
        if isinstance(nvml, Unknown):
            return DeviceConditions(at_s=clock(), uuid=uuid, unknown={"uuid": nvml.reason})
        device = nvml.device_of_uuid(uuid)
        if isinstance(device, Unknown):
            return DeviceConditions(at_s=clock(), uuid=uuid, unknown={"uuid": device.reason})
        return _read_device(device, uuid, own, clock())


def _read_device(device: NvmlDevice, uuid: str, own: OwnProcess, at_s: float) -> DeviceConditions:
    answers: dict[str, Answer[Any]] = {
        "sm_clock_mhz": device.sm_clock_mhz(),
        "memory_clock_mhz": device.memory_clock_mhz(),
        "temperature_c": device.temperature_c(),
        "throttle_reasons": device.throttle_reasons(),
    }
    listed = device.compute_processes()
    split = None if isinstance(listed, Unknown) else split_processes(listed, own)
    answers["other_count"] = listed if split is None else split.other_count
    others = () if split is None or isinstance(split.others, Unknown) else split.others
    values = {name: or_none(answer) for name, answer in answers.items()}
    unknown = {name: answer.reason for name, answer in answers.items() if isinstance(answer, Unknown)}
    pids = tuple(process.pid for process in others)
    return DeviceConditions(at_s=at_s, uuid=uuid, other_pids=pids, unknown=unknown, **values)
