"""Copies of the virtual clock whose times are known but whose bytes have not been moved yet, first in, first out."""

from __future__ import annotations

from collections import deque

import torch

from runtime.devices.emulated_copy import EmulatedCopy
from runtime.devices.engine import fill_poison


class PendingCopies:
    """One queue. A copy that fails is added to ``failed``."""

    def __init__(self, failed: list[EmulatedCopy]) -> None:
        self._failed = failed
        self._steps: deque[EmulatedCopy | torch.Tensor] = deque()

    def __bool__(self) -> bool:
        return bool(self._steps)

    def add(self, copy: EmulatedCopy) -> None:
        """Queue a copy."""
        self._steps.append(copy)

    def retire(self, buffer: torch.Tensor) -> bool:
        """Poison ``buffer`` behind a copy into it, if one is pending; returns whether one is."""
        is_pending = any(isinstance(step, EmulatedCopy) and step.writes_into(buffer) for step in self._steps)
        if is_pending:
            self._steps.append(buffer)
        return is_pending

    def make_next(self) -> EmulatedCopy | None:
        """Do the first step; returns the copy that it was."""
        step = self._steps.popleft()
        if not isinstance(step, EmulatedCopy):
            fill_poison(step)
            return None
        step.make()
        step.landed.set()
        if step.has_unreported_error:
            self._failed.append(step)
        return step

    def make_until(self, copy: EmulatedCopy) -> None:
        """Make ``copy`` if it is pending here, with everything before it."""
        if any(step is copy for step in self._steps):
            while self.make_next() is not copy:
                pass

    def make_all(self) -> None:
        """Make every copy."""
        while self._steps:
            self.make_next()

    def drop_all(self, error: Exception) -> None:
        """Make no copy; all of them fail."""
        for step in self._steps:
            if isinstance(step, EmulatedCopy):
                step.fail(error)
            else:
                fill_poison(step)
        self._steps.clear()
