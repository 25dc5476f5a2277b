"""Stands around a module's ``forward``, so that calls are seen however they end, interrupts included."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import nn

Forward = Callable[..., Any]


class ForwardWrap:
    """Replaces ``module.forward`` on the instance; ``remove`` leaves the module as it was found.

    A forward hook would not do: hooks of torch are skipped when a call is interrupted, and when ``forward`` is called
    directly.
    """

    def __init__(self, module: nn.Module, make: Callable[[Forward], Forward]) -> None:
        self._module = module
        self._found: Forward | None = module.__dict__.get("forward")
        forward: Forward = module.forward
        self._wrapped = functools.wraps(forward)(make(forward))
        module.__dict__["forward"] = self._wrapped

    def remove(self) -> None:
        """Take the wrap away, unless somebody has wrapped it again since: theirs would be lost."""
        if self._module.__dict__.get("forward") is not self._wrapped:
            return
        if self._found is None:
            del self._module.__dict__["forward"]
        else:
            self._module.__dict__["forward"] = self._found
