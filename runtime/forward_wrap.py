"""Stands around a method of a module, so that calls are seen however they end, interrupts included."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import nn

Forward = Callable[..., Any]


class ForwardWrap:
    """Replaces a method on the instance, ``forward`` as a rule; ``remove`` leaves the module as it was found.

    A forward hook would not do: hooks of torch are skipped when a call is interrupted, and when ``forward`` is called
    directly.
    """

    def __init__(self, module: nn.Module, make: Callable[[Forward], Forward], method: str = "forward") -> None:
        self._module, self._method = module, method
        self._found: Forward | None = module.__dict__.get(method)
        original: Forward = getattr(module, method)
        wrapped = make(original)
        self._is_on = True

        @functools.wraps(original)
        def call(*args: object, **kwargs: object) -> object:
            return (wrapped if self._is_on else original)(*args, **kwargs)

        self._call = call
        module.__dict__[method] = call

    def remove(self) -> None:
        """Take the wrap away. If somebody has wrapped it since, theirs stays, and this one only passes calls on."""
        self._is_on = False
        if self._module.__dict__.get(self._method) is not self._call:
            return
        if self._found is None:
            del self._module.__dict__[self._method]
        else:
            self._module.__dict__[self._method] = self._found
