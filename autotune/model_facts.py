"""Facts about one model under one workload: bytes, order of use, work. The half of a profile that needs no device."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.work import UseWork
from autotune.workload import Workload
from runtime.errors import InputError
from runtime.model_spec import ModelSpec, RequestSpec
from runtime.units import MAX_BYTES

# A thousand years of the fastest device: anything larger is no work but damage.
_MOST_WORK = 1e26


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
        variant: the catalog's variant of the model that these facts describe; empty for the model as released.
        tp_size: ranks of tensor parallelism, of one of which these facts are.
    """

    model: ModelSpec
    workload: Workload
    request: RequestSpec
    work: tuple[UseWork, ...]
    output_frames_bytes: int
    source: str = "meta"
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    variant: str = ""
    tp_size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.output_frames_bytes <= MAX_BYTES:
            raise InputError(f"output_frames_bytes is {self.output_frames_bytes}: bytes lie between 0 and 2^60")
        if self.tp_size < 1:
            raise InputError(f"tp_size is {self.tp_size}: at least one rank runs a model")
        self.request.check_fits_model(self.model)
        used = [use.component for use in self.request.uses]
        if used != [work.component for work in self.work]:
            raise InputError(f"work is given for {[w.component for w in self.work]}, the request uses {used}")
        for use, work in zip(self.request.uses, self.work, strict=True):
            _check_work(work)
            component = self.model.component(use.component)
            if len(use.groups) != len(work.groups):
                raise InputError(f"{use.component} has {len(use.groups)} pass groups and work for {len(work.groups)}")
            layer_counts = {stack.name: len(stack.layers) for stack in component.stacks}
            for group, group_work in zip(use.groups, work.groups, strict=True):
                for stack in group.stacks:
                    if len(group_work.layers.get(stack, ())) != layer_counts[stack]:
                        raise InputError(f"work of {use.component}.{stack} does not cover each of its layers")


def _check_work(use: UseWork) -> None:
    groups = [group.outside for group in use.groups]
    layers = [work for group in use.groups for stack in group.layers.values() for work in stack]
    for work in (use.outside, *groups, *layers):
        counts = (work.matmul_flops, work.attention_flops, work.matmul_bytes, work.other_bytes)
        amounts = (*counts, work.measured_s, work.exchange_bytes)
        if not all(0 <= amount <= _MOST_WORK for amount in amounts):
            raise InputError(f"{use.component} has work of {amounts}: each amount lies between 0 and {_MOST_WORK:g}")
