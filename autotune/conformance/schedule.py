"""Reproduces one component's layerwise manager: its actions and what they leave on the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from string import ascii_lowercase

from autotune.conformance.difference import FieldDifference, compare_actions, compare_values
from autotune.conformance.records import ScheduleRecord
from runtime.engines.sglang import SglangStack
from runtime.program import Action, Op

# A permanent resident is placed before the recording begins.
_NOT_RECORDED = frozenset({Op.PLACE})


def check_schedule(record: ScheduleRecord) -> Iterator[FieldDifference]:
    """Walk our stacks through the recorded life and yield what differs."""
    component = _Component(record)
    yield from compare_actions("setup", record.setup, component.load())
    yield from compare_values("setup_live", record.setup_live, component.live())
    for index, recorded in enumerate(record.passes):
        yield from compare_actions(f"passes[{index}]", recorded, component.run_pass())
    yield from compare_values("live_after_passes", record.live_after_passes, component.live())
    yield from compare_actions("finish", record.finish, component.end_use())
    yield from compare_values("live_after_finish", record.live_after_finish, component.live())
    yield from compare_actions("next_request_first_pass", record.next_request_first_pass, component.run_pass())


class _Component:
    """The stacks of one component, named a, b, ... as recorded; they act one after another."""

    def __init__(self, record: ScheduleRecord) -> None:
        placement = record.place("component")
        self._stacks = {
            name: SglangStack(placement, layer_count=count)
            for name, count in zip(ascii_lowercase, record.stacks, strict=False)
        }

    def live(self) -> dict[str, list[int]]:
        return {name: stack.live_layers() for name, stack in self._stacks.items()}

    def load(self) -> list[list[str | int]]:
        return [action for name, stack in self._stacks.items() for action in _spell(name, stack.load())]

    def run_pass(self) -> list[list[str | int]]:
        return [
            action
            for name, stack in self._stacks.items()
            for block in stack.run_pass()
            for action in _spell(name, block.actions)
        ]

    def end_use(self) -> list[list[str | int]]:
        return [action for name, stack in self._stacks.items() for action in _spell(name, stack.end_use())]


def _spell(stack: str, actions: Iterable[Action]) -> Iterator[list[str | int]]:
    """``actions`` of one stack as the recording writes them."""
    for code, argument in actions:
        op = Op(code)
        if op is Op.DRAIN:
            yield [op.name.lower(), stack]
        elif op not in _NOT_RECORDED:
            yield [op.name.lower(), stack, argument]
