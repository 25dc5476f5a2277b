"""What is planned for: the device, the host memory and the cap, each with how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.detect import DetectedGpu, Detection
from autotune.hardware import GIVEN_BY_USER, DevicePreset, find_device
from autotune.profile import Profile
from autotune.rates import Rates, derive_rates
from runtime.errors import InputError
from runtime.plan_document import CapSummary, DeviceSummary, Figure, HostSummary
from runtime.units import GIB, format_gib

DEFAULT_DEVICE = "rtx-4090"
DEFAULT_HOST_BYTES = 192 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Device, host and cap of one planning run.

    Attributes:
        device: the device with every figure that enters a prediction.
        rates: its effective rates.
        context_bytes: CUDA context and kernel modules of a serving process.
        host, cap: host memory and VRAM cap, each with how it was chosen.
    """

    device: DeviceSummary
    rates: Rates
    context_bytes: int
    host: HostSummary
    cap: CapSummary


def resolve_target(
    *,
    device: str | None,
    detection: Detection | None,
    vram_cap_bytes: int | None,
    host_memory_bytes: int | None,
    pinned_bytes_per_s: float | None,
) -> Target:
    """Choose device, host and cap from what was typed and found.

    Args:
        device: ``--device``; None to use the machine's own GPU, or else the default card.
        detection: what was found on this machine; None when ``device`` was given and nobody looked.
        vram_cap_bytes: ``--vram-cap``; None for all that the card has.
        host_memory_bytes: ``--host-memory``; None for the default, which is printed.
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
    device_summary = summarize_device(preset, origin)
    return Target(
        device=device_summary,
        rates=derive_rates(preset),
        context_bytes=preset.context_bytes,
        host=_choose_host(host_memory_bytes),
        cap=choose_cap(device_summary, vram_cap_bytes, free_bytes),
    )


def _preset_of_machine(gpu: DetectedGpu) -> DevicePreset:
    try:
        return find_device(gpu.title, gpu.memory_bytes)
    except InputError as error:
        raise InputError(f"this machine's GPU has no preset: {error}; name the nearest one with --device") from error


def target_of_profile(
    profile: Profile, *, vram_cap_bytes: int | None, host_memory_bytes: int | None, pinned_bytes_per_s: float | None
) -> Target:
    """The device of a saved profile, with the cap and host memory of this run.

    Raises:
        InputError: as ``resolve_target``.
    """
    rates, figures = profile.rates, dict(profile.device.figures)
    origin = f"{profile.device.title}, from a saved profile"
    if pinned_bytes_per_s is not None:
        rates = replace(rates, pinned_bytes_per_s=pinned_bytes_per_s)
        figures["pinned_bytes_per_s"] = Figure(value=pinned_bytes_per_s, unit="bytes/s", source=GIVEN_BY_USER)
        origin += f"; copies at {pinned_bytes_per_s / 1e9:g} GB/s, given with --link-rate"
    return Target(
        device=replace(profile.device, origin=origin, figures=figures),
        rates=rates,
        context_bytes=profile.context_bytes,
        host=_choose_host(host_memory_bytes),
        cap=choose_cap(profile.device, vram_cap_bytes),
    )


def choose_cap(device: DeviceSummary, asked_bytes: int | None, free_bytes: int | None = None) -> CapSummary:
    """The smallest of what was asked for, what is free, and what one process can use of the card."""
    limits = [(device.usable_vram_bytes, f"what one process can use of a {device.title}")]
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


def _choose_host(asked_bytes: int | None) -> HostSummary:
    if asked_bytes is None:
        return HostSummary(
            memory_bytes=DEFAULT_HOST_BYTES,
            origin=f"{format_gib(DEFAULT_HOST_BYTES, 0)}, assumed (--host-memory changes it)",
        )
    if asked_bytes < GIB:
        raise InputError(f"--host-memory is {format_gib(asked_bytes)}: no server runs in less than 1 GiB")
    return HostSummary(memory_bytes=asked_bytes, origin=f"{format_gib(asked_bytes, 1)}, given with --host-memory")
