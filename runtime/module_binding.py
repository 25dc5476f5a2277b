"""Finds the stacks of a plan's component in a live module, and refuses a module that is not the one planned for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from runtime.errors import SessionError
from runtime.model_spec import ComponentSpec, StackSpec
from runtime.module_layers import check_unmanaged, list_layers, split_weights
from runtime.weights import Weight, lay_out_weights, list_weights


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundStack:
    """One stack in a module: its layers in order of registration, each once, and the weights that move with each.

    ``owner`` is the module that holds the list and, as a rule, runs it.
    """

    spec: StackSpec
    path: str
    owner: nn.Module
    layers: tuple[nn.Module, ...]
    weights: tuple[tuple[Weight, ...], ...]


@dataclass(frozen=True, kw_only=True)
class BoundComponent:
    """One component's module.

    Attributes:
        rest: weights outside the stacks, and those that several layers share; tied ones appear once per parameter.
        tables: embeddings that stay on the host while the component streams.
        aliases: weights of ``rest`` that are one memory although their parameters are not one object.
    """

    spec: ComponentSpec
    module: nn.Module
    stacks: tuple[BoundStack, ...]
    rest: tuple[Weight, ...]
    tables: tuple[nn.Embedding, ...]

    @property
    def parameters(self) -> dict[int, str]:
        """Names of all parameters, by the id of their object."""
        return {id(parameter): f"{self.spec.name}.{name}" for name, parameter in self.module.named_parameters()}

    @cached_property
    def aliases(self) -> tuple[tuple[Weight, ...], ...]:
        """See the class; to be asked before anything moves."""
        by_memory: dict[object, list[Weight]] = {}
        for weight in self.rest:
            if weight.span:
                key = (weight.current().data_ptr(), weight.shape, weight.stride, weight.dtype)
                by_memory.setdefault(key, []).append(weight)
        return tuple(tuple(same) for same in by_memory.values() if len(same) > 1)


def bind_component(
    spec: ComponentSpec, module: nn.Module, *, stacks: Mapping[str, str] | None = None, keeps_tables: bool
) -> BoundComponent:
    """Find the stacks of ``spec`` in ``module`` and check every layer's bytes. Nothing is moved or changed.

    Args:
        spec: the component of the plan.
        module: the live module.
        stacks: where a stack's list is, for stacks whose name is no path in ``module``; others are found by name, or as
            the only list with the same number of layers of the same bytes.
        keeps_tables: whether the plan keeps vocabulary tables on the host.

    Raises:
        SessionError: the module is managed already, or it is not the one that was planned for; the message names the
            first layer that differs.
    """
    check_unmanaged(spec.name, module)
    paths = _locate_stacks(spec, module, stacks or {})
    shared, owners = split_weights(spec.name, module, paths)
    bound = []
    for stack in spec.stacks:
        layers = list_layers(spec.name, module, paths[stack.name])
        weights = tuple(tuple(owners.get(id(layer), ())) for layer in layers)
        _check_stack(spec.name, stack, weights)
        parent = paths[stack.name].rpartition(".")[0]
        bound.append(
            BoundStack(
                spec=stack,
                path=paths[stack.name],
                owner=module.get_submodule(parent),
                layers=tuple(layers),
                weights=weights,
            )
        )
    tables = _find_tables(spec, module, paths) if keeps_tables and spec.host_table_bytes else ()
    kept = {id(table.weight) for table in tables}
    rest = tuple(weight for key, weight in shared if key not in kept)
    _check_rest(spec, module, rest, keeps_tables=keeps_tables)
    return BoundComponent(spec=spec, module=module, stacks=tuple(bound), rest=rest, tables=tables)


def _locate_stacks(spec: ComponentSpec, module: nn.Module, given: Mapping[str, str]) -> dict[str, str]:
    unknown = sorted(set(given) - {stack.name for stack in spec.stacks})
    if unknown:
        raise SessionError(f"{spec.name} has no stack {', '.join(unknown)} in the plan")
    paths = dict(given)
    for stack in spec.stacks:
        if stack.name in paths:
            continue
        if _is_path(module, stack.name):
            paths[stack.name] = stack.name
    for stack in spec.stacks:
        if stack.name not in paths:
            paths[stack.name] = _find_equal(spec, module, stack, set(paths.values()))
    return paths


def _is_path(module: nn.Module, path: str) -> bool:
    try:
        return isinstance(module.get_submodule(path), (nn.ModuleList, nn.Sequential))
    except AttributeError:
        return False


def _find_equal(spec: ComponentSpec, module: nn.Module, stack: StackSpec, taken: set[str]) -> str:
    """The one list that has the stack's layers; the one with the likest name if there are several."""
    expected = [layer.run_bytes for layer in stack.layers]
    lists = [
        path
        for path, part in module.named_modules()
        if isinstance(part, (nn.ModuleList, nn.Sequential)) and path and path not in taken
    ]
    equal = [path for path in lists if _layer_bytes(module, path) == expected]
    if len(equal) > 1:
        wanted = set(stack.name.replace(".", "_").split("_"))
        likeness = [len(wanted & set(path.replace(".", "_").split("_"))) for path in equal]
        equal = [path for path, like in zip(equal, likeness, strict=True) if like == max(likeness)]
    if len(equal) == 1:
        return str(equal[0])
    have = ", ".join(f"{path} ({len(list(module.get_submodule(path).children()))})" for path in lists[:12])
    raise SessionError(
        f"{spec.name} ({type(module).__name__}) has {'several lists' if equal else 'no list'} like the plan's "
        f"{stack.name!r} of {len(expected)} layers, {sum(expected):,} bytes: it has {have or 'no lists of layers'}. "
        "Plan for this module, or say where the list is"
    )


def _layer_bytes(module: nn.Module, path: str) -> list[int]:
    layers = dict.fromkeys(module.get_submodule(path).children())
    return [lay_out_weights(list_weights(layer.named_parameters())).size_bytes for layer in layers]


def _check_stack(name: str, stack: StackSpec, weights: tuple[tuple[Weight, ...], ...]) -> None:
    if len(weights) != len(stack.layers):
        raise SessionError(
            f"{name}.{stack.name} has {len(weights)} layers, the plan was made for {len(stack.layers)}: make a plan "
            "for this module"
        )
    for index, (layer, planned) in enumerate(zip(weights, stack.layers, strict=True)):
        size_bytes = lay_out_weights(layer).size_bytes
        if size_bytes == planned.run_bytes:
            continue
        empty = [weight.name for weight in layer if len(weight.shape) == 1 and weight.span <= 1]
        hint = f"; {empty[0]} looks like a placeholder of another runtime" if empty and size_bytes < 1024 else ""
        raise SessionError(
            f"{name}.{stack.name}.{index} has {size_bytes:,} bytes of weights, the plan was made for "
            f"{planned.run_bytes:,}: the module or its dtypes differ from what was planned{hint}"
        )


def _check_rest(spec: ComponentSpec, module: nn.Module, rest: Iterable[Weight], *, keeps_tables: bool) -> None:
    found = sum(weight.size_bytes for weight in rest)
    planned = spec.rest_run_bytes + (0 if keeps_tables else spec.host_table_bytes)
    # A released file may store some buffers beside the weights; a plan counts those.
    stored = sum(buffer.numel() * buffer.element_size() for buffer in module.buffers())
    if not found <= planned <= found + stored:
        raise SessionError(
            f"{spec.name} has {found:,} bytes of weights outside its stacks, the plan was made for {planned:,}: the "
            "module or its dtypes differ from what was planned"
        )


def _find_tables(spec: ComponentSpec, module: nn.Module, paths: Mapping[str, str]) -> tuple[nn.Embedding, ...]:
    """The largest embeddings outside the stacks, as many as the plan keeps on the host."""
    outside = {
        id(part.weight): part
        for path, part in module.named_modules()
        if isinstance(part, nn.Embedding) and not any(path.startswith(f"{stack}.") for stack in paths.values())
    }
    left = spec.host_table_bytes
    tables = []
    for table in sorted(outside.values(), key=lambda table: -table.weight.numel() * table.weight.element_size()):
        size_bytes = table.weight.numel() * table.weight.element_size()
        if size_bytes <= left:
            tables.append(table)
            left -= size_bytes
    if left:
        raise SessionError(
            f"{spec.name} has no vocabulary table of {spec.host_table_bytes:,} bytes that the plan keeps on the host"
        )
    return tuple(tables)
