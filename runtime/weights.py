"""The weights that move: parameters, or the plain tensors inside of them, each shown where it lies at the moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from runtime.errors import SessionError
from runtime.layer_layout import LayerLayout, WeightSize, lay_out_layer


class Weight:
    """One plain tensor of a module: a parameter's data, or an inner tensor of a parameter of a tensor subclass.

    Attributes:
        name: dotted, inside the component.
        owner, attribute: what holds it: a parameter and ``data``, or a tensor of a subclass and the inner name.
        original: the tensor as it was found; None once it was given up for a host copy.
        shape, stride, dtype, device: as found; they never change.
        span: elements of its storage from the first to the last one that belongs to it; 0 if it has none.
    """

    __slots__ = (
        "attribute",
        "device",
        "dtype",
        "name",
        "original",
        "owner",
        "shape",
        "span",
        "stride",
    )

    def __init__(self, name: str, owner: torch.Tensor, attribute: str) -> None:
        tensor: torch.Tensor = getattr(owner, attribute)
        self.name = name
        self.owner, self.attribute = owner, attribute
        self.original: torch.Tensor | None = tensor.detach()
        self.shape, self.stride = tensor.shape, tensor.stride()
        self.dtype, self.device = tensor.dtype, tensor.device
        last = sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
        self.span = last + 1 if tensor.numel() else 0

    @property
    def size(self) -> WeightSize:
        """What a layer's layout needs to know."""
        return WeightSize(dtype=str(self.dtype), element_bytes=self.dtype.itemsize, span=self.span)

    @property
    def size_bytes(self) -> int:
        """Bytes that it spans."""
        return self.span * int(self.dtype.itemsize)

    def current(self) -> torch.Tensor:
        """What the module shows now."""
        shown: torch.Tensor = getattr(self.owner, self.attribute)
        return shown

    def show(self, tensor: torch.Tensor) -> None:
        """Let the module compute with ``tensor``, which has the weight's shape, stride and dtype."""
        setattr(self.owner, self.attribute, tensor)

    def spanned(self, tensor: torch.Tensor) -> torch.Tensor:
        """``tensor``, which has the weight's layout, as the one-dimensional piece of storage that it spans."""
        return tensor.as_strided((self.span,), (1,), tensor.storage_offset())


def list_weights(parameters: Iterable[tuple[str, nn.Parameter]]) -> list[Weight]:
    """The plain tensors of ``parameters``, given with their names; each parameter once."""
    found: list[Weight] = []
    seen: set[int] = set()
    for name, parameter in parameters:
        if id(parameter) not in seen:
            seen.add(id(parameter))
            found += _open_up(name, parameter)
    return found


def _open_up(name: str, tensor: torch.Tensor) -> Iterator[Weight]:
    if tensor.is_meta:
        raise SessionError(
            f"{name} has no data (it is on the meta device): load the weights before they are attached, or detach what "
            "offloads them already"
        )
    if isinstance(tensor, nn.parameter.UninitializedTensorMixin) or tensor.layout is not torch.strided:
        kind = type(tensor).__name__ if tensor.layout is torch.strided else str(tensor.layout)
        raise SessionError(f"{name} is a weight of a kind that is not moved ({kind}): give it plain data first")
    if tensor.is_inference():
        raise SessionError(
            f"{name} was made inside torch.inference_mode(), and torch lets such weights lie nowhere else: load "
            "modules outside of it (under torch.no_grad() if need be)"
        )
    if not is_traceable_wrapper_subclass(tensor):
        yield Weight(name, tensor, "data")
        return
    inner_names, _ = tensor.__tensor_flatten__()
    for inner in inner_names:
        part = getattr(tensor, inner)
        if not isinstance(part, torch.Tensor):  # a distributed tensor's mesh
            continue
        if is_traceable_wrapper_subclass(part):
            yield from _open_up(f"{name}.{inner}", part)
        else:
            yield Weight(f"{name}.{inner}", tensor, inner)


def lay_out_weights(weights: Sequence[Weight]) -> LayerLayout:
    """Where ``weights`` lie in the buffers of their layer."""
    return lay_out_layer(weight.size for weight in weights)
