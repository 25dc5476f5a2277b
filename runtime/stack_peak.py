"""The most bytes of streamed layers that an engine's own schedule of one stack holds at one time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runtime.engines.protocol import StackSchedule
from runtime.program import Action, Op

_TAKES = frozenset({Op.H2D, Op.H2D_BLOCKING, Op.PLACE})


def peak_streamed_bytes(schedule: StackSchedule, streamed_bytes: Sequence[int], first_slot: int) -> int:
    """Walk ``schedule``, which is fresh and is used up, through load and two uses of two passes.

    Args:
        schedule: of the stack.
        streamed_bytes: per layer; 0 for residents.
        first_slot: slot of its first layer.
    """
    live = peak = 0
    for action in _life_of(schedule):
        op, argument = action
        if op in _TAKES:
            live += streamed_bytes[argument - first_slot]
            peak = max(peak, live)
        elif op == Op.RELEASE:
            live -= streamed_bytes[argument - first_slot]
    return max(peak, *streamed_bytes, 0)


def _life_of(schedule: StackSchedule) -> Iterable[Action]:
    yield from schedule.load()
    for _ in range(2):
        yield from schedule.prepare()
        for _ in range(2):
            for block in schedule.run_pass():
                yield from block.actions
        yield from schedule.end_use()
