"""What an emulated device asks of the engine that moves its bytes and spends its time, on either clock."""

from __future__ import annotations

from typing import Protocol

import torch

from runtime.devices.emulated_copy import EmulatedCopy
from runtime.devices.protocol import Courier, Label, Moves, QueuedCopy


class Engine(Protocol):
    """One copy engine, one compute lane and one read lane. Durations and times are emulated seconds."""

    def copy(self, moves: Moves, label: Label, took_s: float) -> EmulatedCopy:
        """Queue a copy; returns at once."""
        ...

    def copy_now(self, moves: Moves, label: Label, took_s: float) -> EmulatedCopy:
        """Make a copy that the host and compute wait for.

        Raises:
            DeviceError: it failed.
        """
        ...

    def open_courier(self, slots: tuple[torch.Tensor, torch.Tensor]) -> Courier:
        """A courier with these slots, which belong to the caller again once it is closed."""
        ...

    def wait(self, copy: QueuedCopy) -> None:
        """See ``Device.wait``."""
        ...

    def catch_up(self) -> None:
        """See ``Device.catch_up``."""
        ...

    def begin_run(self) -> None:
        """A layer is about to be called."""
        ...

    def end_run(self, took_s: float | None) -> None:
        """It has returned, and lasts ``took_s`` from its beginning; None for as long as it has taken."""
        ...

    def work(self, took_s: float) -> None:
        """Spend compute time."""
        ...

    def now_s(self) -> float:
        """When all compute that was called so far is done."""
        ...

    def retire(self, buffer: torch.Tensor) -> None:
        """Fill ``buffer`` with bytes 0xFF once no copy into it is on its way."""
        ...

    def release_sources(self) -> None:
        """Return when no copy of the host reads host memory any more."""
        ...

    def synchronize(self) -> None:
        """See ``Device.synchronize``."""
        ...

    def start_clock(self) -> None:
        """See ``Device.start_clock``."""
        ...

    def close(self) -> None:
        """Stop threads; what is still queued is dropped. May be called twice."""
        ...


def poison(buffer: torch.Tensor) -> None:
    """Fill ``buffer`` with bytes 0xFF: NaN in every floating-point format."""
    with torch.inference_mode():
        buffer.view(torch.uint8).fill_(0xFF)
