"""A toy model on a toy card: what workflows plan for."""

from dataclasses import replace

from builders import RATES

from autotune.memory_model import WORKSPACE_BYTES
from autotune.space import SearchSpace
from autotune.workflows.host import HostWish
from autotune.workflows.planning import PlanningSettings
from autotune.workflows.target import resolve_target
from runtime.target_summary import CapSummary, HostSummary

SETTINGS = PlanningSettings(space=SearchSpace(max_prefetch=2), reserve_bytes=0, peak_quantile=0.5)
AMPLE_BYTES = 2**50


def build_target(cap_bytes, *, host_bytes=AMPLE_BYTES, pins=True):
    """A card of toy rates that grants ``cap_bytes`` besides what is charged in any case."""
    target = resolve_target(
        device="rtx-4090", detection=None, vram_cap_bytes=None, host=HostWish(), pinned_bytes_per_s=None
    )
    size = cap_bytes + WORKSPACE_BYTES
    device = replace(target.device, usable_vram_bytes=size, memory_bytes=size)
    return replace(
        target,
        device=device,
        rates=RATES,
        context_bytes=0,
        free_bytes=size,
        host=HostSummary(memory_bytes=host_bytes, origin="toy", available_bytes=host_bytes, pins=pins),
        cap=CapSummary(asked_bytes=None, effective_bytes=size, reason="toy"),
    )
