"""Describes the arguments of a call on the meta device, and makes real ones of the same shapes. Imports torch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch

MakeTensor: TypeAlias = Callable[["TensorTemplate"], torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTemplate:
    """A tensor without its values; ``extent`` is the elements of memory that its shape and strides span."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @property
    def extent(self) -> int:
        """Elements of memory that are spanned; an expanded dimension takes none."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.stride, strict=True))

    def describe(self) -> str:
        """``bfloat16[1, 4096, 3072]``."""
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class _Sequence:
    kind: type
    items: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Mapping:
    kind: type
    items: tuple[tuple[object, object], ...]


@dataclass(frozen=True, slots=True)
class _Holder:
    """An object of some class whose attributes hold tensors."""

    original: object
    attributes: tuple[tuple[str, object], ...]


def make_template(value: object) -> object:
    """``value`` with every tensor replaced by its template; what holds none is kept as it is."""
    if isinstance(value, torch.Tensor):
        return TensorTemplate(shape=tuple(value.shape), stride=tuple(value.stride()), dtype=value.dtype)
    if isinstance(value, Mapping):
        return _Mapping(type(value), tuple((key, make_template(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return _Sequence(type(value), tuple(make_template(item) for item in value))
    held = [(name, item) for name, item in getattr(value, "__dict__", {}).items() if _holds_tensor(item)]
    if held and not isinstance(value, type | torch.nn.Module):
        return _Holder(value, tuple((name, make_template(item)) for name, item in held))
    return value


def fill_template(template: object, make: MakeTensor) -> object:
    """What ``template`` was made of, with tensors from ``make``; lists and mappings are new ones."""
    if isinstance(template, TensorTemplate):
        return make(template)
    if isinstance(template, _Mapping):
        items = {key: fill_template(item, make) for key, item in template.items}
        return items if template.kind is dict else template.kind(items)
    if isinstance(template, _Sequence):
        parts = [fill_template(item, make) for item in template.items]
        if template.kind is list:
            return parts
        return template.kind(*parts) if hasattr(template.kind, "_fields") else template.kind(parts)
    if isinstance(template, _Holder):
        made = copy.copy(template.original)
        for name, item in template.attributes:
            setattr(made, name, fill_template(item, make))
        return made
    return template


def list_tensors(template: object) -> Iterator[TensorTemplate]:
    """Every tensor of ``template``, in order."""
    if isinstance(template, TensorTemplate):
        yield template
    elif isinstance(template, _Mapping):
        for _, item in template.items:
            yield from list_tensors(item)
    elif isinstance(template, _Sequence):
        for item in template.items:
            yield from list_tensors(item)
    elif isinstance(template, _Holder):
        for _, item in template.attributes:
            yield from list_tensors(item)


def describe_template(template: object) -> str:
    """A text that is equal for calls that compute alike, in every process; objects count by their class."""
    if isinstance(template, TensorTemplate):
        return f"{template.describe()}/{list(template.stride)}"
    if isinstance(template, _Mapping):
        inner = ", ".join(f"{key}={describe_template(item)}" for key, item in template.items)
        return f"{template.kind.__name__}({inner})"
    if isinstance(template, _Sequence):
        return f"{template.kind.__name__}({', '.join(describe_template(item) for item in template.items)})"
    if isinstance(template, _Holder):
        inner = ", ".join(f"{name}={describe_template(item)}" for name, item in template.attributes)
        return f"{type(template.original).__qualname__}({inner})"
    if template is None or isinstance(template, bool | int | float | str | torch.dtype | torch.device):
        return repr(template)
    return type(template).__qualname__


def random_tensors(device: torch.device, seed: int) -> MakeTensor:
    """Makes tensors on ``device``: floating-point ones standard normal, integers 0 (every table has a row 0), true.

    A mask that lets everything through is the one that costs most. The same seed gives the same values in order.
    """
    generator = torch.Generator(device).manual_seed(seed)

    def make(template: TensorTemplate) -> torch.Tensor:
        extent, dtype = template.extent, template.dtype
        if dtype.is_floating_point or dtype.is_complex:
            # Formats of fewer than 16 bits have no generator of their own.
            drawn_in = dtype if dtype.itemsize > 1 else torch.float32
            flat = torch.randn(extent, generator=generator, device=device, dtype=drawn_in).to(dtype)
        else:
            flat = torch.full((extent,), dtype is torch.bool, device=device, dtype=dtype)
        return flat.as_strided(template.shape, template.stride)

    return make


def _holds_tensor(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, Mapping):
        return any(map(_holds_tensor, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_tensor, value))
