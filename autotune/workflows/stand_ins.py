"""Stand-in modules: as many stacks and layers as a model has, with a fraction of its bytes, computing nothing.

An emulated device that counts each byte as many, and lets each layer last as long as it is told, runs them as the real
ones. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import nn

from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, StackSpec

MOST_REAL_BYTES = 64 * 2**20
"""What all weights of a model's stand-ins take at the most, up to a byte for each."""

# torch copies more elements than these with several threads, which on a busy machine wait for each other a hundred
# times as long as the copy takes.
_MOST_LAYER_BYTES = 2**15


def choose_byte_scale(model: ModelSpec) -> int:
    """The smallest power of two that makes all weights small enough, and every layer quick to copy."""
    total = sum(component.run_bytes for component in model.components)
    layers = (layer.run_bytes for part in model.components for stack in part.stacks for layer in stack.layers)
    largest, scale = max(layers, default=0), 1
    while total > MOST_REAL_BYTES * scale or largest > _MOST_LAYER_BYTES * scale:
        scale *= 2
    return scale


def scale_model(model: ModelSpec, byte_scale: int) -> ModelSpec:
    """``model`` with every weight's bytes divided by ``byte_scale`` and rounded; what is there keeps a byte."""

    def scale(size_bytes: int) -> int:
        return max(1, round(size_bytes / byte_scale)) if size_bytes else 0

    def scale_stack(stack: StackSpec) -> StackSpec:
        layers = (scale(layer.run_bytes) for layer in stack.layers)
        return replace(stack, layers=tuple(LayerSpec(checkpoint_bytes=size, run_bytes=size) for size in layers))

    def scale_component(component: ComponentSpec) -> ComponentSpec:
        rest, tables = scale(component.rest_run_bytes), scale(component.host_table_bytes)
        return replace(
            component,
            stacks=tuple(map(scale_stack, component.stacks)),
            rest_run_bytes=rest,
            rest_checkpoint_bytes=rest,
            host_table_bytes=tables,
            host_table_checkpoint_bytes=tables,
        )

    return replace(model, components=tuple(map(scale_component, model.components)))


class StandIn(nn.Module):  # type: ignore[misc] # torch is untyped to mypy here
    """A component of ``spec``, whose bytes are taken as they are; a call is one traversal of one stack.

    Attributes:
        paths: name of each stack -> path of its list.
    """

    def __init__(self, spec: ComponentSpec, generator: torch.Generator) -> None:
        super().__init__()
        self.paths: dict[str, str] = {}
        for number, stack in enumerate(spec.stacks):
            path = self.paths[stack.name] = f"stack_{number}"
            layers = (_StandInLayer(layer.run_bytes, generator) for layer in stack.layers)
            self.add_module(path, nn.ModuleList(layers))
        self.rest = _make_weight(spec.rest_run_bytes, generator)
        if spec.host_table_bytes:
            table = _make_weight(spec.host_table_bytes, generator)
            self.table = nn.Embedding.from_pretrained(table.view(-1, 1), freeze=True)

    def forward(self, stack: str | None, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Traverse ``stack``; ``begin`` and ``end`` are called around it, while the component is in use."""
        begin()
        if stack is not None:
            for layer in self.get_submodule(self.paths[stack]):
                layer()
        end()


class _StandInLayer(nn.Module):  # type: ignore[misc] # torch is untyped to mypy here
    def __init__(self, size_bytes: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = _make_weight(size_bytes, generator)

    def forward(self) -> None:
        """Nothing: the device lets it last as long as it should."""


def _make_weight(size_bytes: int, generator: torch.Generator) -> nn.Parameter:
    # Random, because pages that hold nothing but zeros are not all copied alike.
    data = torch.empty(size_bytes, dtype=torch.uint8).random_(generator=generator)
    return nn.Parameter(data, requires_grad=False)


def build_stand_ins(model: ModelSpec, seed: int) -> dict[str, StandIn]:
    """A stand-in for every component of ``model``, whose bytes are taken as they are."""
    generator = torch.Generator().manual_seed(seed)
    return {component.name: StandIn(component, generator) for component in model.components}


def list_paths(modules: Mapping[str, StandIn]) -> dict[str, dict[str, str]]:
    """Where the stacks of each component lie, as a session wants to be told."""
    return {name: module.paths for name, module in modules.items()}
