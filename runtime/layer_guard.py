"""Loads a streamed layer when its weights are read outside of its own call, as a tied head does that calls F.linear."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import nn


class _GuardedParameters(dict[str, nn.Parameter | None]):
    """A module's parameters while its layer waits on the host: reading one by name brings the layer up first."""

    def __init__(self, parameters: dict[str, nn.Parameter | None], on_access: Callable[[], None]) -> None:
        super().__init__(parameters)
        self._on_access = on_access

    def __getitem__(self, name: str) -> nn.Parameter | None:
        self._on_access()
        return super().__getitem__(name)


class LayerGuard:
    """Stands in for the parameter dictionaries of one layer's modules while the layer is not shown on the device.

    Iterating (``parameters()``, ``state_dict()``) shows the host copies and loads nothing.
    """

    def __init__(self, layer: nn.Module, on_access: Callable[[], None]) -> None:
        self._modules = [(part, part.__dict__["_parameters"]) for part in _holders(layer)]
        self._guards = [_GuardedParameters(parameters, on_access) for _, parameters in self._modules]

    def close(self) -> None:
        """From now on reading a weight calls ``on_access``."""
        for (part, _), guard in zip(self._modules, self._guards, strict=True):
            part.__dict__["_parameters"] = guard

    def open(self) -> None:
        """The layer is shown on the device: its modules have their own dictionaries again."""
        for part, parameters in self._modules:
            part.__dict__["_parameters"] = parameters


def _holders(layer: nn.Module) -> Iterator[nn.Module]:
    for part in layer.modules():
        if any(parameter is not None for parameter in part.__dict__["_parameters"].values()):
            yield part
