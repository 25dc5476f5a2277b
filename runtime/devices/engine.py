"""What an emulated device asks of the engine that moves its bytes and spends its time, on either clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import torch

from runtime.devices.protocol import Courier, Label, Moves, QueuedCopy

Slots: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""The two pinned slots of a courier: bytes, equally many."""


class Engine(Protocol):
    """One copy engine each way, one compute lane and one read lane. Durations and times are emulated seconds."""

    def tick(self) -> None:
        """Another call of the device begins."""
        ...

    def copy(self, moves: Moves, label: Label, took_s: float) -> QueuedCopy:
        """Queue a copy; returns at once."""
        ...

    def copy_now(self, moves: Moves, label: Label, took_s: float) -> QueuedCopy:
        """Make a copy that the host and compute wait for.

        Raises:
            DeviceError: it failed.
        """
        ...

    def copy_back(self, moves: Moves, label: Label, took_s: float) -> QueuedCopy:
        """Queue a copy to the host; returns at once."""
        ...

    def open_courier(self, slots: Slots, give_back: Callable[[], None]) -> Courier:
        """A courier with these slots; ``give_back`` is called once, when it is closed and uses them no more."""
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
        """Poison ``buffer`` after the copies of the host into it."""
        ...

    def finish_copies(self) -> None:
        """Return when no copy that the host queued is on its way; spends no time on the virtual clock."""
        ...

    def synchronize(self) -> None:
        """See ``Device.synchronize``."""
        ...

    def start_clock(self) -> None:
        """See ``Device.start_clock``."""
        ...

    def close(self) -> None:
        """Stop threads and close couriers; what is still queued is dropped. May be called twice."""
        ...


def fill_poison(buffer: torch.Tensor) -> None:
    """Fill ``buffer`` with bytes 0xFF: NaN in every floating-point format."""
    with torch.inference_mode():
        buffer.view(torch.uint8).fill_(0xFF)
