"""Opens a device to be profiled: a card, this machine's processor, or an emulated card whose speed is known.

Imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch

from autotune.catalog.built_component import ComponentBuilder
from autotune.hardware import DevicePreset
from autotune.machine import read_machine
from autotune.measure.cold_start import CARD_BYTES, PROCESSOR_BYTES
from autotune.measure.piece_capture import capture_run
from autotune.measure.piece_run import label_of
from autotune.measure.timing import PROTOCOLS, TimingProtocol
from autotune.measurements.model_profile import DeviceKind
from autotune.measurements.timing import Effort
from autotune.rates import Rates, derive_rates
from autotune.telemetry.answers import or_none
from autotune.telemetry.cuda_runtime import identify_cuda_device
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.devices.open_device import open_device
from runtime.devices.protocol import Device, Label

CPU, EMULATED = "cpu", "emulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledDevice:
    """An open device and what is known of it before anything is measured.

    Attributes:
        device: closed by whoever opened it.
        name: as people type it, with its number.
        kind: of the device.
        is_exact: whether its times are computed, so that one sample says all.
        cold_bytes: see ``Bench``.
        notes: what people should know of it, one sentence each.
    """

    device: Device
    name: str
    kind: DeviceKind
    is_exact: bool = False
    cold_bytes: int = 0
    notes: tuple[str, ...] = field(default=())

    def choose_protocol(self, effort: Effort) -> TimingProtocol:
        """How to time there."""
        protocol = PROTOCOLS[effort]
        if not self.is_exact:
            return protocol
        return replace(protocol, warmups=1, least_count=1, most_count=1, least_span_s=0.0)


def open_profiled_device(name: str, like: DevicePreset, builders: Mapping[str, ComponentBuilder]) -> ProfiledDevice:
    """Open the device ``name``.

    Args:
        name: ``cuda``, ``cuda:N``, ``cpu`` or ``emulated``.
        like: the card whose speed an emulated one has.
        builders: of the components that will be run on an emulated one.

    Raises:
        InputError: no device has that name.
        UnsupportedError: there is no such card here.
    """
    if name == CPU:
        return _open_cpu()
    if name == EMULATED:
        return _emulate(like, builders)
    device = open_device(name)
    facts = torch.cuda.get_device_properties(device.torch_device)
    identity = or_none(identify_cuda_device(device.torch_device.index, torch))
    kind = DeviceKind(
        backend="cuda",
        title=str(facts.name),
        memory_bytes=0 if getattr(facts, "is_integrated", False) else int(facts.total_memory),
        capability=f"{facts.major}.{facts.minor}",
    )
    notes = (
        () if identity is not None and identity.uuid is not None else (f"this torch tells no UUID of {device.name}",)
    )
    return ProfiledDevice(device=device, name=device.name, kind=kind, cold_bytes=CARD_BYTES, notes=notes)


def _open_cpu() -> ProfiledDevice:
    kind = DeviceKind(backend="cpu", title=read_machine().cpu, memory_bytes=0)
    note = "a processor has no memory of its own: copies to it are copies within memory, nothing is pinned"
    return ProfiledDevice(device=open_device(CPU), name=CPU, kind=kind, cold_bytes=PROCESSOR_BYTES, notes=(note,))


def _emulate(like: DevicePreset, builders: Mapping[str, ComponentBuilder]) -> ProfiledDevice:
    rates = derive_rates(like)
    seconds = dict(_list_seconds(rates, builders))
    device = EmulatedDevice(
        rates=LinkRates(
            pinned_bytes_per_s=rates.pinned_bytes_per_s,
            pageable_bytes_per_s=rates.pageable_bytes_per_s,
            d2h_bytes_per_s=rates.d2h_bytes_per_s,
            disk_bytes_per_s=rates.disk_bytes_per_s,
            page_cache=PageCache.ALL,
        ),
        capacity_bytes=like.usable_vram_bytes,
        clock=ClockKind.VIRTUAL,
        compute_s=lambda label: seconds.get(label, 0.0),
        tracks_activations=True,
    )
    kind = DeviceKind(backend="emulated", title=f"emulated {like.title}", memory_bytes=like.memory_bytes)
    note = f"nothing here was measured on a card: layers and copies last as long as is estimated for the {like.title}"
    return ProfiledDevice(device=device, name=EMULATED, kind=kind, is_exact=True, notes=(note,))


def _list_seconds(rates: Rates, builders: Mapping[str, ComponentBuilder]) -> Iterator[tuple[Label, float]]:
    """How long each piece of each component is estimated to take."""
    for name, build in builders.items():
        built = build()
        run, dtype = capture_run(built), built.spec.run_dtype
        for piece in run.pieces:
            yield label_of(name, piece.place), rates.estimate_work_s(piece.work, dtype)
        yield Label(name), rates.estimate_work_s(run.around, dtype)
