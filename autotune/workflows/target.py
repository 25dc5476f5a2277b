"""What is planned for: the device, the host memory and the cap, each with how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.detect import DetectedGpu, Detection
from autotune.fidelity.prior import derive_uncertainty, forget_factor
from autotune.hardware import GIVEN_BY_USER, DevicePreset, find_device
from autotune.profile import Profile
from autotune.rates import DEFAULT_DISK_BYTES_PER_S, DEFAULT_DISK_SOURCE, Rates, derive_rates
from autotune.uncertainty import Uncertainty
from autotune.workflows.host import HostWish, choose_host, view_host
from runtime.errors import InputError
from runtime.hosting import HostMemory
from runtime.target_summary import CapSummary, DeviceSummary, Figure, HostSummary
from runtime.units import format_gib

DEFAULT_DEVICE = "rtx-4090"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Device, host and cap of one planning run.

    Attributes:
        device: the device with every figure that enters a prediction.
        rates: its effective rates.
        context_bytes: CUDA context and kernel modules of a serving process.
        free_bytes: what is free on the card before a server loads anything.
        host, cap: host memory and VRAM cap, each with how it was chosen.
        notes: which measurements these figures rest on, or how to have some; one sentence each.
        ranks: cards that answer a request together; all but ``host`` is of one of them.
        uncertainty: how far predictions may be off, from observed runs; None where that follows from the figures.
    """

    device: DeviceSummary
    rates: Rates
    context_bytes: int
    free_bytes: int
    host: HostSummary
    cap: CapSummary
    notes: tuple[str, ...] = ()
    ranks: int = 1
    uncertainty: Uncertainty | None = None

    @property
    def host_memory(self) -> HostMemory:
        """The host as the engine's rule sees it on one rank."""
        return view_host(self.host, self.ranks)


def resolve_target(
    *,
    device: str | None,
    detection: Detection | None,
    vram_cap_bytes: int | None,
    host: HostWish,
    pinned_bytes_per_s: float | None,
) -> Target:
    """Choose device, host and cap from what was typed and found.

    Args:
        device: ``--device``; None to use the machine's own GPU, or else the default card.
        detection: what was found on this machine; None when ``device`` was given and nobody looked.
        vram_cap_bytes: ``--vram-cap``; None for all that the card has.
        host: what was typed about the host.
        pinned_bytes_per_s: ``--link-rate``; None for the preset's.

    Raises:
        InputError: unknown device, or a cap that no card could have.
    """
    free_bytes: int | None = None
    if device is not None:
        preset = find_device(device)
        origin = f"{preset.title}, named with --device: figures are of that card, not of this machine"
    elif detection is not None and detection.gpu is not None:
        gpu = detection.gpu
        preset, free_bytes = _preset_of_machine(gpu), gpu.free_bytes
        origin = f"{preset.title}, found on this machine; its rates are datasheet figures, not measured here"
    else:
        preset = find_device(DEFAULT_DEVICE)
        why = detection.reason if detection is not None else "no device was named"
        origin = f"{preset.title}, the default card, because {why} and no --device was given"
    preset = preset.with_overrides(pinned_bytes_per_s=pinned_bytes_per_s)
    if pinned_bytes_per_s is not None:
        origin += f"; copies at {pinned_bytes_per_s / 1e9:g} GB/s, given with --link-rate"
        if pinned_bytes_per_s > preset.link_limit_bytes_per_s:
            origin += f", more than its PCIe gen{preset.pcie_generation} x{preset.pcie_lanes} link carries"
    on_this_machine = free_bytes is not None
    device_summary = summarize_device(preset, origin)
    return Target(
        device=_with_disk_rate(device_summary, host),
        rates=_apply_disk_rate(derive_rates(preset), host),
        context_bytes=preset.context_bytes,
        free_bytes=free_bytes if free_bytes is not None else preset.usable_vram_bytes,
        host=choose_host(host, on_this_machine=on_this_machine),
        cap=choose_cap(device_summary, vram_cap_bytes, free_bytes),
    )


def _preset_of_machine(gpu: DetectedGpu) -> DevicePreset:
    try:
        return find_device(gpu.title, gpu.memory_bytes)
    except InputError as error:
        raise InputError(f"this machine's GPU has no preset: {error}; name the nearest one with --device") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the device of a profile is.

    Attributes:
        is_here: whether it is in this machine, whose memory is then planned with.
        free_bytes: what is free on it now; None where nobody knows.
        notes: as of ``Target``.
    """

    is_here: bool
    free_bytes: int | None = None
    notes: tuple[str, ...] = ()


def target_of_profile(
    profile: Profile,
    *,
    vram_cap_bytes: int | None,
    host: HostWish,
    pinned_bytes_per_s: float | None,
    place: Place | None = None,
) -> Target:
    """The device of a profile, with the cap and host memory of this run.

    Args:
        profile: the profile.
        vram_cap_bytes, host, pinned_bytes_per_s: as of ``resolve_target``.
        place: None for a profile that a run has saved: its device may be anywhere.

    Raises:
        InputError: as ``resolve_target``.
    """
    rates, device = profile.rates, profile.device
    origin = f"{device.title}, from a saved profile" if place is None else device.origin
    if pinned_bytes_per_s is not None:
        rates = replace(rates, pinned_bytes_per_s=pinned_bytes_per_s)
        figure = Figure(value=pinned_bytes_per_s, unit="bytes/s", source=GIVEN_BY_USER)
        device = set_figure(device, "pinned_bytes_per_s", figure)
        origin += f"; copies at {pinned_bytes_per_s / 1e9:g} GB/s, given with --link-rate"
    free_bytes = place.free_bytes if place is not None else None
    device = _with_disk_rate(replace(device, origin=origin), host)
    return Target(
        device=device,
        rates=_apply_disk_rate(rates, host),
        context_bytes=profile.context_bytes,
        free_bytes=device.usable_vram_bytes if free_bytes is None else free_bytes,
        host=choose_host(host, on_this_machine=place is not None and place.is_here),
        cap=choose_cap(device, vram_cap_bytes, free_bytes),
        notes=place.notes if place is not None else (),
        uncertainty=_keep_uncertainty(profile, device),
    )


def _keep_uncertainty(profile: Profile, device: DeviceSummary) -> Uncertainty | None:
    """What runs say about the profile's figures, except for those that were typed in their place for ``device``."""
    found = profile.uncertainty
    if found is None:
        return None
    prior = derive_uncertainty(profile.facts, profile.rates, device)
    for factor, figure in (("copy", "pinned_bytes_per_s"), ("disk", "disk_bytes_per_s")):
        if figure in device.figures and device.figures[figure].source == GIVEN_BY_USER:
            found = forget_factor(found, factor, prior)
    return found


def choose_cap(device: DeviceSummary, asked_bytes: int | None, free_bytes: int | None = None) -> CapSummary:
    """The smallest of what was asked for, what is free, and what one process can use of the card."""
    limits = [(device.usable_vram_bytes, f"what one process can use of the {device.title}")]
    if free_bytes is not None:
        limits.append((free_bytes, "what is free on this machine's GPU now"))
    if asked_bytes is not None:
        limits.append((asked_bytes, "the cap that was asked for"))
    effective, reason = min(limits)
    text = f"{format_gib(effective)}: {reason}"
    if asked_bytes is not None and effective < asked_bytes:
        text += f" (asked for: {format_gib(asked_bytes)})"
    return CapSummary(asked_bytes=asked_bytes, effective_bytes=effective, reason=text)


def summarize_device(device: DevicePreset, origin: str) -> DeviceSummary:
    """The device with every figure that enters a prediction."""
    figures = {
        name: Figure(value=float(getattr(device, name)), unit=unit, source=device.sources[name])
        for name, unit in (
            ("pinned_bytes_per_s", "bytes/s"),
            ("pageable_bytes_per_s", "bytes/s"),
            ("d2h_pinned_bytes_per_s", "bytes/s"),
            ("memory_bytes_per_s", "bytes/s"),
            ("bandwidth_ratio", "share"),
            ("matmul_ratio", "share"),
            ("attention_ratio", "share"),
            ("float32_matmul_ratio", "share"),
            ("context_bytes", "bytes"),
            ("usable_vram_bytes", "bytes"),
        )
    }
    source = device.sources["matrix_flops_per_s"]
    figures |= {
        f"matrix_flops_per_s.{dtype}": Figure(value=rate, unit="operations/s", source=source)
        for dtype, rate in device.matrix_flops_per_s.items()
    }
    return DeviceSummary(
        name=device.name,
        title=device.title,
        origin=origin,
        memory_bytes=device.memory_bytes,
        usable_vram_bytes=device.usable_vram_bytes,
        figures=figures,
    )


def _apply_disk_rate(rates: Rates, host: HostWish) -> Rates:
    return rates if host.disk_bytes_per_s is None else replace(rates, disk_bytes_per_s=host.disk_bytes_per_s)


def _with_disk_rate(device: DeviceSummary, host: HostWish) -> DeviceSummary:
    """The figures of ``device`` with the disk's, which is the host's but enters predictions as they do."""
    name = "disk_bytes_per_s"
    if host.disk_bytes_per_s is not None:
        return set_figure(device, name, Figure(value=host.disk_bytes_per_s, unit="bytes/s", source=GIVEN_BY_USER))
    if name in device.figures:
        return device
    return set_figure(device, name, Figure(value=DEFAULT_DISK_BYTES_PER_S, unit="bytes/s", source=DEFAULT_DISK_SOURCE))


def set_figure(device: DeviceSummary, name: str, figure: Figure) -> DeviceSummary:
    """``device`` with a figure that was not measured."""
    measured = tuple(other for other in device.measured if other != name)
    return replace(device, figures={**device.figures, name: figure}, measured=measured)
