"""Catalog components with weights, each as one module whose call is one run of the component. Imports torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from autotune.catalog.built_component import BuiltComponent, InputFactory
from autotune.live_components import build_live_component
from runtime.describe_module import describe_module
from runtime.errors import SessionError
from runtime.forward_wrap import Forward, ForwardWrap
from runtime.model_spec import ComponentSpec, LayerSpec, StackSpec, UseSpec

# Where the library's module lies in a ``LiveComponent``.
_MODULE = "module"


class LiveComponent(nn.Module):  # type: ignore[misc] # torch is untyped to mypy here
    """A built component with random weights in host memory; ``forward`` makes one run with inputs from a factory.

    A decoder is not called as a module by those who run it, nor is what follows an encoder's layers. One call around
    all of it shows a session where a run begins and ends.

    Attributes:
        spec: the component of the plan, with the bytes that this module has.
        paths: name of each stack -> path of its list.
    """

    def __init__(self, built: BuiltComponent, planned: ComponentSpec, *, seed: int) -> None:
        super().__init__()
        self.module = build_live_component(built, device="cpu", seed=seed)
        self.paths = {stack: f"{_MODULE}.{_find_list(self.module, layers)}" for stack, layers in built.stacks.items()}
        self.spec = _measure_spec(planned, self)
        self._once = built.once
        self._run: Callable[[InputFactory, Any], object] = built.run

    def forward(self, make_input: InputFactory) -> object:
        """One run; what it makes."""
        return self._run(make_input, None)

    def find_layer(self, stack: str) -> nn.Module:
        """The first layer of ``stack``."""
        return next(self.get_submodule(self.paths[stack]).children())

    def list_parts_run_once(self, use: UseSpec) -> list[tuple[nn.Module, int]]:
        """Parts that a run calls more often in ``use`` than the server does, and how often the server does.

        These are what the component names itself, and the owners of stacks that take part in fewer passes than others.
        """
        most = max(group.passes for group in use.groups)
        found = [(part, 1) for part in self._once]
        for group in use.groups:
            owners = {self.paths[stack].rpartition(".")[0] for stack in group.stacks} - {_MODULE}
            if group.passes < most:
                found += [(self.get_submodule(owner), group.passes) for owner in sorted(owners)]
        return found


def _find_list(module: nn.Module, layers: Any) -> str:  # noqa: ANN401 - a sequence of modules; torch is untyped here
    wanted = list(layers)
    for path, part in module.named_modules():
        children = list(part.children())
        if path and len(children) == len(wanted) and all(map(_is_same, children, wanted)):
            return str(path)
    raise SessionError(f"{type(module).__name__} has no list of the {len(wanted)} layers that were captured")


def _is_same(one: object, other: object) -> bool:
    return one is other


def _measure_spec(planned: ComponentSpec, live: LiveComponent) -> ComponentSpec:
    """``planned`` with the bytes of the live weights: the server casts or leaves out some that the library has."""
    found = describe_module(planned.name, live, stacks=live.paths, is_dit=planned.is_dit)
    rest = found.rest_run_bytes - planned.host_table_bytes

    def take_bytes(stack: StackSpec) -> StackSpec:
        pairs = zip(stack.layers, found.stack(stack.name).layers, strict=True)
        return replace(stack, layers=tuple(_take_layer_bytes(*pair) for pair in pairs))

    return replace(planned, stacks=tuple(map(take_bytes, planned.stacks)), rest_run_bytes=max(0, rest))


def _take_layer_bytes(planned: LayerSpec, found: LayerSpec) -> LayerSpec:
    transformed = min(planned.transformed_bytes, found.run_bytes)
    return replace(planned, run_bytes=found.run_bytes, transformed_bytes=transformed)


class RunOnce:
    """Lets a part of a module run as often as the server does in a use; later calls give the last answer again."""

    def __init__(self, part: nn.Module, times: int) -> None:
        self._times, self._done = times, 0
        self._answer: object = None
        self._wrap = ForwardWrap(part, self._make)

    def _make(self, forward: Forward) -> Forward:
        def call(*args: object, **kwargs: object) -> object:
            if self._done < self._times:
                self._answer = forward(*args, **kwargs)
                self._done += 1
            return self._answer

        return call

    def begin_use(self) -> None:
        """Forget the answer, and what it holds."""
        self._done, self._answer = 0, None

    def remove(self) -> None:
        """Leave the module as it was found."""
        self.begin_use()
        self._wrap.remove()
