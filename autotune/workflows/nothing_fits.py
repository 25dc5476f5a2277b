"""That nothing fits, in words: which limit, what is needed, and the plan that comes nearest."""

from __future__ import annotations

from autotune.workflows.planned import NothingFits
from autotune.workflows.target import Target
from runtime.units import format_gib


def describe_nothing_fits(answer: NothingFits, target: Target) -> tuple[str, ...]:
    """Which limit, what is needed, what is available, and the plan that comes nearest."""
    peak = answer.nearest.peak
    placements = "; ".join(f"{item.component}: {item.describe()}" for item in answer.nearest.plan.placements)
    loosen = "or loosen --fix or --base-command, if they are given"
    if not answer.short_bytes:
        return (
            f"nothing fits: the host has {format_gib(target.host_memory.available_bytes)} for weights "
            f"({target.host.origin}); of the plans within the VRAM cap, {format_gib(answer.cap_bytes)}, the one that "
            f"holds least there lacks {format_gib(answer.host_short_bytes)}",
            f"the nearest plan: {placements}",
            "raise --host-memory if the machine has more, or --vram-cap so that more weights stay on the device, "
            + loosen,
        )
    return (
        f"nothing fits: the VRAM cap is {target.cap.reason}; the plan that needs least is charged "
        f"{format_gib(peak.charged_bytes)}, {format_gib(answer.short_bytes)} more",
        f"its peak is in '{peak.phase}': weights {format_gib(peak.streamed_bytes + peak.standing_bytes)}, activations "
        f"and frames {format_gib(peak.activation_bytes)}, {format_gib(peak.kept_free_bytes)} kept free, the rest is "
        "context and allocator",
        f"the nearest plan: {placements}",
        "raise --vram-cap or take a larger card, make the request smaller (--width, --height, --frames), keep less "
        f"free (--peak-quantile, --reserve), {loosen}",
    )
