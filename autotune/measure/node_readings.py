"""Reads what a node's profile says of its machine and its device, apart from what is timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.host_memory import HostReading, read_host_memory
from autotune.machine import Machine, read_machine
from autotune.measurements.model_profile import Backend, DeviceKind
from autotune.measurements.node_profile import NodeFingerprint
from autotune.telemetry.answers import Answer, Unknown
from autotune.telemetry.reading import GpuReading
from autotune.telemetry.survey import Surroundings, read_process_gpu, survey_gpus
from runtime.devices.protocol import Device
from runtime.units import format_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReadings:
    """What was read, with the device open.

    Attributes:
        machine: what tells it from others.
        host: its memory.
        gpu: the card that the device computes on; unknown where it is none, with the reason.
        cards: every card of the machine.
        free_before_bytes: device memory that was free before the device was opened; None where that was not read.
    """

    machine: Machine
    host: HostReading
    gpu: Answer[GpuReading]
    cards: tuple[GpuReading, ...] = ()
    free_before_bytes: int | None = None


def read_node(
    device: Device, *, free_before_bytes: int | None = None, where: Surroundings | None = None
) -> NodeReadings:
    """Read the machine and the card of ``device``. Never fails: what cannot be read is unknown, with its reason.

    Args:
        device: open.
        free_before_bytes: see ``NodeReadings``.
        where: where to look; None for this process and this machine.
    """
    where = where or Surroundings()
    host = where.host or read_host_memory()
    if find_backend(device) == "cuda":
        gpu: Answer[GpuReading] = read_process_gpu(device.torch_device.index, where)
    else:
        gpu = Unknown(reason=f"the device {device.name} is no card")
    return NodeReadings(
        machine=read_machine(),
        host=host,
        gpu=gpu,
        cards=survey_gpus(where).readings,
        free_before_bytes=free_before_bytes,
    )


def find_backend(device: Device) -> Backend:
    """How ``device`` is driven."""
    if device.torch_device.type == "cuda":
        return "cuda"
    return "cpu" if device.name == "cpu" else "emulated"


def derive_fingerprint(device: Device, kind: DeviceKind, readings: NodeReadings) -> NodeFingerprint:
    """Which machine and device, of ``kind``, ``readings`` are of."""
    machine = readings.machine
    return NodeFingerprint(
        machine=machine.digest,
        cpu=machine.cpu,
        kernel=machine.kernel,
        device=device.name,
        device_uuid="" if isinstance(readings.gpu, Unknown) else readings.gpu.uuid or "",
        kind=kind,
    )


def list_neighbours(readings: NodeReadings) -> Iterator[str]:
    """What else uses the card, or the host behind it, one sentence each."""
    gpu = readings.gpu
    if isinstance(gpu, Unknown):
        return
    for process in gpu.processes or ():
        held = "memory unknown" if process.used_bytes is None else format_gib(process.used_bytes)
        yield f"process {process.pid} has {held} of the card"
    if gpu.processes is None:
        yield f"other processes on the card are unknown: {gpu.unknown.get('processes', 'the driver does not say')}"
    others = [card for card in readings.cards if (card.uuid, card.bus_id) != (gpu.uuid, gpu.bus_id)]
    if others:
        titles = ", ".join(sorted(card.title or "a card without a name" for card in others))
        yield (
            f"{len(others)} more behind the same host ({titles}): they share its memory's rate, and perhaps the link, "
            "with this card while they stream"
        )


def list_warnings(readings: NodeReadings) -> Iterator[str]:
    """What of the readings a user should act on, one sentence each."""
    yield from readings.host.warnings
    gpu = readings.gpu
    if not isinstance(gpu, Unknown) and gpu.is_unified:
        yield "the device shares the host's memory: there is no link to stream over, and copies only cost memory"
