"""One component of a catalog model on the meta device, ready for a use to be captured or run. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from autotune.capture import ForwardWork, capture_forward
from autotune.meta_tracker import WorkTracker
from autotune.work import UseWork
from runtime.model_spec import ComponentSpec, UseSpec


class InputFactory(Protocol):
    """Makes the tensors that a component is called with."""

    def __call__(self, *size: int, dtype: torch.dtype = torch.float32, integers: int | range = 0) -> Tensor:
        """An input of the given shape.

        Args:
            size: its shape.
            dtype: its dtype; what a floating-point input holds is up to the factory.
            integers: what an input of any other dtype holds: one value everywhere, or a range along its last dimension.
        """


class CapturedComponent(NamedTuple):
    """One component: its bytes, its use in a request, the work of that use."""

    spec: ComponentSpec
    use: UseSpec
    work: UseWork


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltComponent:
    """One component as the server runs it: bytes, layers, and the calls of one use.

    Attributes:
        spec: its bytes.
        module: the library's module, on the meta device until somebody gives it weights.
        stacks: the server's name of each stack -> its layers, which are submodules of ``module``.
        run: calls the component as often as one captured run does, with inputs from the factory, and returns what it
            made. Finished parts of the request's output are disowned on the tracker if there is one. It keeps nothing
            from call to call.
        finish: makes the component's facts of what a capture of ``run`` booked; valid right after that run.
        once: parts that the library runs in every forward and the server once per use.
        repeated: submodules, beside the layers, whose repeated calls are worth replaying.
    """

    spec: ComponentSpec
    module: nn.Module
    stacks: Mapping[str, Sequence[nn.Module]]
    run: Callable[[InputFactory, WorkTracker | None], object]
    finish: Callable[[ForwardWork], CapturedComponent]
    once: tuple[nn.Module, ...] = ()
    repeated: tuple[nn.Module, ...] = ()


ComponentBuilder: TypeAlias = Callable[[], BuiltComponent]
"""Builds one component on the meta device; each call makes another module."""


def meta_empty(*size: int, dtype: torch.dtype = torch.float32, integers: int | range = 0) -> Tensor:
    """An input without data, so that ``integers`` changes nothing."""
    return torch.empty(size, dtype=dtype, device="meta")


def capture_component(built: BuiltComponent) -> CapturedComponent:
    """Run one use on the meta device. The layers of ``built.module`` are rewired for good."""
    forward = capture_forward(
        built.module,
        lambda tracker: built.run(meta_empty, tracker),
        stacks=built.stacks,
        once=built.once,
        repeated=built.repeated,
    )
    return built.finish(forward)


def capture_components(
    model: str, builders: Mapping[str, ComponentBuilder], progress: Callable[[str], object]
) -> dict[str, CapturedComponent]:
    """Build and capture one component after another, in the order of ``builders``; ``progress`` is told of each."""
    captured: dict[str, CapturedComponent] = {}
    for name, build in builders.items():
        progress(f"reading {name} of {model}")
        captured[name] = capture_component(build())
    return captured
