"""Counts the weights of a component that was built on the meta device, as released and as run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import nn

from runtime.layer_layout import WeightSize, lay_out_layer
from runtime.model_spec import ComponentSpec, LayerSpec, StackSpec
from runtime.pinned import rounded_pin_bytes

# SGLang-diffusion 0.5.23, runtime/managers/memory_managers/layerwise_offload.py: a declared vocabulary table stays on
# the host from 256 MiB on.
HOST_TABLE_MIN_BYTES = 256 * 2**20


def cast_weights(module: nn.Module, dtype: torch.dtype, *, keep_fp32: Sequence[str] = ()) -> None:
    """Give every weight ``dtype``, except those whose name contains one of ``keep_fp32``, which become float32."""
    for name, weight in module.named_parameters():
        kept = any(part in name for part in keep_fp32)
        weight.data = weight.data.to(torch.float32 if kept else dtype)
        weight.requires_grad_(False)


def compute_buffer_bytes(weights: Iterable[torch.Tensor]) -> int:
    """Bytes that the buffers of one layer take, slices aligned."""
    sizes = (
        WeightSize(dtype=str(weight.dtype), element_bytes=weight.element_size(), span=weight.numel())
        for weight in weights
    )
    return lay_out_layer(sizes).size_bytes


def count_bytes(weights: Iterable[torch.Tensor], dtype: torch.dtype | None = None) -> int:
    """Bytes of the weights, in ``dtype`` if one is given and else in their own."""
    return sum(weight.numel() * (dtype or weight.dtype).itemsize for weight in weights)


def _build_stack(
    name: str,
    layers: Iterable[nn.Module],
    checkpoint_dtype: torch.dtype | None,
    is_transformed: Callable[[str], bool],
) -> StackSpec:
    specs = []
    for layer in layers:
        run_bytes = compute_buffer_bytes(layer.parameters())
        made = [
            weight
            for weight_name, weight in layer.named_parameters()
            if is_transformed(weight_name) or (checkpoint_dtype is not None and weight.dtype is not checkpoint_dtype)
        ]
        specs.append(
            LayerSpec(
                checkpoint_bytes=count_bytes(layer.parameters(), checkpoint_dtype),
                run_bytes=run_bytes,
                transformed_bytes=min(count_bytes(made), run_bytes),
            )
        )
    return StackSpec(name=name, layers=tuple(specs))


def build_component(  # noqa: PLR0913 - one keyword per fact of the component
    name: str,
    module: nn.Module,
    *,
    stacks: Mapping[str, Iterable[nn.Module]],
    run_dtype: str,
    default_mode: str,
    is_dit: bool = False,
    checkpoint_dtype: torch.dtype | None = None,
    host_tables: Sequence[torch.Tensor] = (),
    stored_buffers: Sequence[torch.Tensor] = (),
    is_transformed: Callable[[str], bool] = lambda _: False,
    unread_checkpoint_bytes: int = 0,
) -> ComponentSpec:
    """Bytes of one component: its parameters, and the buffers that the released file stores beside them.

    Args:
        name: the server's name for the component.
        module: the real class on the meta device, each parameter in the dtype in which the server runs it.
        stacks: the server's name of each stack -> its layers, in the server's order.
        run_dtype: dtype of the server's matrix products.
        default_mode: see ComponentSpec.
        is_dit: see ComponentSpec.
        checkpoint_dtype: dtype of every weight in the released file; None when the file has the run dtypes.
        host_tables: tables that the server's class declares; those of 256 MiB or more are booked on the host.
        stored_buffers: buffers that are part of the released file.
        is_transformed: whether the server makes the weight of that name inside a layer at load (fused or reordered),
            so that it is in no file; weights that are cast count as such anyway.
        unread_checkpoint_bytes: see ComponentSpec.
    """
    layers = {stack: list(modules) for stack, modules in stacks.items()}
    built = tuple(_build_stack(stack, modules, checkpoint_dtype, is_transformed) for stack, modules in layers.items())
    tables = [table for table in host_tables if count_bytes([table]) >= HOST_TABLE_MIN_BYTES]
    apart = {id(weight) for modules in layers.values() for layer in modules for weight in layer.parameters()}
    apart |= {id(table) for table in tables}
    rest = [*(weight for weight in module.parameters() if id(weight) not in apart), *stored_buffers]
    return ComponentSpec(
        name=name,
        class_name=type(module).__name__,
        stacks=built,
        rest_run_bytes=count_bytes(rest),
        rest_checkpoint_bytes=count_bytes(rest, checkpoint_dtype),
        host_table_bytes=count_bytes(tables),
        host_table_checkpoint_bytes=count_bytes(tables, checkpoint_dtype),
        unread_checkpoint_bytes=unread_checkpoint_bytes,
        offload_host_bytes=sum(rounded_pin_bytes(count_bytes([weight])) for weight in module.parameters()),
        run_dtype=run_dtype,
        is_dit=is_dit,
        default_mode=default_mode,
    )
