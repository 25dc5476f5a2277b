"""Runs one component's forward on the meta device and splits its work by layer, pass and use.

No weight is loaded and nothing is computed: shapes alone give operations and live activations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from autotune.meta_replay import CallReplayer
from autotune.meta_tracker import OUTSIDE, Label, WorkTracker
from autotune.work import GroupWork, Work

ONCE: Label = ("(once per use)", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardWork:
    """What one captured run of a component booked.

    Attributes:
        layers: work of each layer of each stack, over the whole run.
        outside: work that belongs to no layer and to none of the parts that run once per use.
        once: work of those parts.
        activation_bytes: peak of live activations, inputs of the run included, weights and excluded tensors not.
    """

    layers: dict[str, tuple[Work, ...]]
    outside: Work
    once: Work
    activation_bytes: int

    def group(self, stacks: Sequence[str], *, passes: int = 1, with_outside: bool = True) -> GroupWork:
        """Work of one pass over ``stacks`` when the run made ``passes`` equal ones."""
        share = 1.0 / passes
        layers = {stack: tuple(work.scaled(share) for work in self.layers[stack]) for stack in stacks}
        return GroupWork(layers=layers, outside=self.outside.scaled(share) if with_outside else Work())


def capture_forward(
    module: nn.Module,
    run: Callable[[WorkTracker], object],
    *,
    stacks: Mapping[str, Iterable[nn.Module]],
    once: Iterable[nn.Module] = (),
    repeated: Iterable[nn.Module] = (),
    replay: bool = True,
) -> ForwardWork:
    """Run a component under the tracker.

    Args:
        module: the component on the meta device; its layers are rewired for good.
        run: builds the inputs on the meta device and calls the component; what it allocates counts as live.
        stacks: the server's name of each stack -> its layers.
        once: parts that the library runs in every forward and the server once per use.
        repeated: further submodules whose repeated calls are worth replaying (a VAE's decoder over its tiles).
        replay: False walks every repeated call.
    """
    layers = {name: list(modules) for name, modules in stacks.items()}
    tracker = WorkTracker(fixed=[*module.parameters(), *module.buffers()])
    replayer = CallReplayer(tracker, replay=replay)
    replayer.watch_stacks(layers)
    for part in once:
        replayer.watch(part, label=ONCE)
    for part in repeated:
        replayer.watch(part)
    with torch.no_grad(), tracker:
        run(tracker)
    return ForwardWork(
        layers={
            name: tuple(tracker.work_of((name, index)) for index, _ in enumerate(modules))
            for name, modules in layers.items()
        },
        outside=tracker.work_of(OUTSIDE),
        once=tracker.work_of(ONCE),
        activation_bytes=tracker.peak_bytes,
    )
