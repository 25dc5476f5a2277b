"""Catalog components that can be run for real: random weights on a device, made-up inputs. Imports torch.

What they compute means nothing; shapes, dtypes, layers and calls are those of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from autotune.catalog.built_component import BuiltComponent, ComponentBuilder, InputFactory
from autotune.catalog.registry import find_model
from autotune.workload import Workload

RING_VALUES = 2**22
"""Random values that weights are filled from, over and over: torch draws them on one CPU core, minutes for 60 GiB."""

# Vectors scale norms, add biases and divide activations: positive and off zero, they keep every result finite.
VECTOR_MIDDLE, VECTOR_SPREAD = 0.2, 0.1


def list_component_builders(name: str, workload: Workload | None = None) -> dict[str, ComponentBuilder]:
    """A builder of each component of a catalog model under a workload, in order of use.

    Args:
        name: a catalog name or alias.
        workload: the request; None for the model's default.

    Raises:
        InputError: no such model, or a request that the server cannot run.
    """
    entry = find_model(name)
    return entry.build(entry.configs, entry.settle(workload or entry.default_workload).workload)


def build_components(name: str, workload: Workload | None = None) -> dict[str, BuiltComponent]:
    """Every component of a catalog model on the meta device, none of them captured; see ``list_component_builders``."""
    return {component: build() for component, build in list_component_builders(name, workload).items()}


MakeEmpty: TypeAlias = Callable[[torch.Size, torch.dtype], Tensor]
"""Makes a contiguous tensor of a shape and dtype on one device; its content is undefined."""


def build_live_component(built: BuiltComponent, *, device: torch.device | str, seed: int) -> nn.Module:
    """Give ``built.module`` weights, in place, and return it: from now on ``built.run`` computes on ``device``.

    Values are those of ``fill_module``. A component that was captured cannot be run: its layers are rewired. Build
    another one.
    """
    fill_module(built.module, device=device, seed=seed)
    return built.module.eval()


def fill_module(
    module: nn.Module, *, device: torch.device | str, seed: int, make_empty: MakeEmpty | None = None
) -> None:
    """Give ``module``, or a part of one, random weights on ``device``, in place.

    Every parameter keeps its shape and dtype, and tied ones stay one tensor. Values are so small that activations stay
    finite; the same seed gives the same ones. Buffers are filled likewise, those of integers with zeros: what the
    library had computed into them is lost on the meta device.

    Args:
        module: on the meta device.
        device: where its weights will be.
        seed: of the values.
        make_empty: where the memory comes from; torch's own allocation on ``device`` by default.
    """
    where = torch.device(device)
    filler = _Filler(where, seed, make_empty or (lambda size, dtype: torch.empty(size, dtype=dtype, device=where)))
    for owner in module.modules():
        for name, weight in list(owner.named_parameters(recurse=False, remove_duplicate=False)):
            if weight.is_meta:
                owner.register_parameter(name, filler.make_parameter(weight))
        # Buffers, and the tables that some classes keep as plain attributes.
        for held in (owner._buffers, vars(owner)):
            for name, tensor in held.items():
                if isinstance(tensor, Tensor) and tensor.is_meta:
                    held[name] = filler.make_tensor(tensor)


def synthetic_input(device: torch.device | str, seed: int) -> InputFactory:
    """A factory of inputs on ``device``: floating-point ones are standard normal, all others hold what is asked for.

    Each call draws further values; a factory of the same seed repeats them in the same order.
    """
    generator = torch.Generator(device).manual_seed(seed)

    def make_input(*size: int, dtype: torch.dtype = torch.float32, integers: int | range = 0) -> Tensor:
        if dtype.is_floating_point:
            return torch.randn(size, generator=generator, device=device, dtype=dtype)
        if isinstance(integers, int):
            return torch.full(size, integers, device=device, dtype=dtype)
        along = torch.arange(integers.start, integers.stop, integers.step, device=device, dtype=dtype)
        return along.expand(size).contiguous()

    return make_input


class _Filler:
    """Makes filled tensors on one device; a tensor that is asked for twice is made once."""

    def __init__(self, device: torch.device, seed: int, make_empty: MakeEmpty) -> None:
        self._make_empty = make_empty
        ring = torch.empty(RING_VALUES, device=device)
        ring.uniform_(-1.0, 1.0, generator=torch.Generator(device).manual_seed(seed))
        self._rings: dict[torch.dtype, Tensor] = {torch.float32: ring}
        self._position = 0
        # The originals are kept with what they became: their identity must not be given to another tensor.
        self._made: dict[int, tuple[Tensor, Tensor]] = {}

    def make_parameter(self, original: nn.Parameter) -> nn.Parameter:
        if id(original) not in self._made:
            parameter = nn.Parameter(self._fill(original), requires_grad=False)
            self._made[id(original)] = (original, parameter)
        return self._made[id(original)][1]

    def make_tensor(self, original: Tensor) -> Tensor:
        if id(original) not in self._made:
            self._made[id(original)] = (original, self._fill(original))
        return self._made[id(original)][1]

    def _fill(self, original: Tensor) -> Tensor:
        made = self._make_empty(original.shape, original.dtype)
        if original.is_complex():
            self._spread(torch.view_as_real(made).view(-1), VECTOR_SPREAD)
        elif not original.is_floating_point():
            made.zero_()
        elif original.ndim > 1:
            fan_in = math.prod(original.shape[1:])
            self._spread(made.view(-1), 1.0 / math.sqrt(fan_in))
        else:
            self._spread(made.view(-1), VECTOR_SPREAD)
            made.add_(VECTOR_MIDDLE)
        return made

    def _spread(self, flat: Tensor, bound: float) -> None:
        """Fill with the ring's next values, scaled to plus or minus ``bound``."""
        if flat.dtype not in self._rings:
            self._rings[flat.dtype] = self._rings[torch.float32].to(flat.dtype)
        ring = self._rings[flat.dtype]
        done = 0
        while done < flat.numel():
            count = min(flat.numel() - done, RING_VALUES - self._position)
            torch.mul(ring[self._position : self._position + count], bound, out=flat[done : done + count])
            done += count
            self._position = (self._position + count) % RING_VALUES
