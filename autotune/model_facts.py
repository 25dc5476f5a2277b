"""Facts about one model under one workload: bytes, order of use, work. The half of a profile that needs no device."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.work import UseWork
from autotune.workload import Workload
from runtime.errors import InputError
from runtime.model_spec import ModelSpec, RequestSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What the planner knows about a model and a workload.

    Attributes:
        model: components, stacks, layer bytes.
        workload: what the request asks for.
        request: uses in order, with passes.
        work: one entry per use, in the same order.
        output_frames_bytes: decoded output that stays on the device (fp32) from the last use to the end of the request.
        source: ``meta`` (shapes of the real classes, no weights), ``checkpoint`` or ``measured``.
        versions: libraries that the figures depend on.
        notes: what was assumed, one sentence each.
    """

    model: ModelSpec
    workload: Workload
    request: RequestSpec
    work: tuple[UseWork, ...]
    output_frames_bytes: int
    source: str = "meta"
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        used = [use.component for use in self.request.uses]
        if used != [work.component for work in self.work]:
            raise InputError(f"work is given for {[w.component for w in self.work]}, the request uses {used}")
        for use, work in zip(self.request.uses, self.work, strict=True):
            component = self.model.component(use.component)
            for group, group_work in zip(use.groups, work.groups, strict=True):
                for stack in group.stacks:
                    if len(group_work.layers[stack]) != len(component.stack(stack).layers):
                        raise InputError(f"work of {use.component}.{stack} does not cover each of its layers")
