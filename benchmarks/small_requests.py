"""Requests with which a processor can profile models of the catalog at full layer size: the smallest each takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import toy_models  # noqa: F401 - makes the packages importable

from autotune.catalog.entry import CatalogEntry, SettledWorkload
from autotune.catalog.registry import find_model
from autotune.workload import Workload


@dataclass(frozen=True, kw_only=True)
class SmallRequest:
    """A request for one model.

    Attributes:
        workload: what is asked for.
        why_unsettled: why it is one that the server refuses; empty where it is none.
    """

    workload: Workload
    why_unsettled: str = ""


def _image(width: int, *, steps: int = 1) -> SmallRequest:
    return SmallRequest(workload=Workload(width=width, height=width, frames=1, steps=steps, prompt_tokens=1))


REQUESTS = {
    "H3": SmallRequest(
        workload=Workload(width=64, height=64, frames=22, steps=2, prompt_tokens=16),
        why_unsettled="the server makes at least 4 seconds (107 frames), whose sound takes a processor many minutes",
    ),
    "Qwen-Image": _image(16),
    "FLUX.1-dev": _image(16),
    "Wan2.2-T2V-A14B": _image(16, steps=3),  # fewer do not reach the second expert
    "Wan2.1-T2V-1.3B": _image(16),
    "LTX-2": _image(64),  # with fewer latents its video decoder pads by more than it has
    "Z-Image-Turbo": _image(16),
    "HunyuanVideo": _image(16),
}


REDUCED = "reduced H3"
"""What stands for the catalog with ``--quick``."""


def ask_small(name: str) -> CatalogEntry:
    """The model with its small request as the default one, taken as it is where the server would refuse it."""
    if name == REDUCED:
        from small_h3 import SMALL_H3  # noqa: PLC0415 - its classes take seconds to import

        return SMALL_H3
    entry, request = find_model(name), REQUESTS[name]
    small = replace(entry, default_workload=request.workload)
    if not request.why_unsettled:
        return small
    settled = SettledWorkload(workload=request.workload, notes=(f"not settled: {request.why_unsettled}",))
    return replace(small, settle=lambda _: settled)
