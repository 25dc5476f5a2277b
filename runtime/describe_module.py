"""Describes a live module as a component of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import nn

from runtime.model_spec import ComponentSpec, LayerSpec, StackSpec
from runtime.module_layers import check_unmanaged, list_layers, split_weights
from runtime.weights import Weight, lay_out_weights


def describe_module(
    name: str,
    module: nn.Module,
    *,
    stacks: Mapping[str, str] | Iterable[str] | None = None,
    is_dit: bool = False,
    host_tables: Iterable[nn.Embedding] = (),
) -> ComponentSpec:
    """The component that ``module`` is, as a plan needs it; what is on the disk is taken to be what is in memory.

    Args:
        name: of the component.
        module: live, with its weights.
        stacks: name of each stack -> path of its list inside ``module``, or just the paths; None takes every
            ``nn.ModuleList`` that holds weights and lies in no other one.
        is_dit: see ``ComponentSpec``.
        host_tables: embeddings that stay on the host while the component streams.

    Raises:
        SessionError: something else manages the module, a path names no list, or weights have no data.
    """
    check_unmanaged(name, module)
    if stacks is None:
        paths = {path: path for path in _find_lists(module)}
    elif isinstance(stacks, Mapping):
        paths = dict(stacks)
    else:
        paths = {path: path for path in stacks}
    lists = {stack: list_layers(name, module, path) for stack, path in paths.items()}
    shared, owners = split_weights(name, module, paths)
    tables = {id(table.weight) for table in host_tables}
    rest = [weight for key, weight in shared if key not in tables]
    table_bytes = sum(weight.size_bytes for key, weight in shared if key in tables)
    built = tuple(
        StackSpec(name=stack, layers=tuple(_spec_of(owners.get(id(layer), [])) for layer in layers))
        for stack, layers in lists.items()
    )
    rest_bytes = sum(weight.size_bytes for weight in rest)
    return ComponentSpec(
        name=name,
        class_name=type(module).__name__,
        stacks=built,
        rest_run_bytes=rest_bytes,
        rest_checkpoint_bytes=rest_bytes,
        host_table_bytes=table_bytes,
        host_table_checkpoint_bytes=table_bytes,
        run_dtype=str(next((p.dtype for p in module.parameters()), torch.float32)).removeprefix("torch."),
        is_dit=is_dit,
    )


def _find_lists(module: nn.Module) -> list[str]:
    """Paths of the lists that hold weights, outermost first; lists inside of lists move with their layer."""
    found: list[str] = []
    for path, part in module.named_modules():
        is_list = isinstance(part, nn.ModuleList) and any(True for _ in part.parameters())
        if is_list and not any(path.startswith(f"{outer}.") for outer in found):
            found.append(path)
    return found


def _spec_of(weights: Iterable[Weight]) -> LayerSpec:
    size_bytes = lay_out_weights(list(weights)).size_bytes
    return LayerSpec(checkpoint_bytes=size_bytes, run_bytes=size_bytes)
