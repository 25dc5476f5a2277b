"""What every stack schedule offers to the life of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runtime.model_spec import ModelSpec
from runtime.program import Action, Block, StackRef


class StackSchedule(Protocol):
    """Host-side state of one stack; each method returns the actions that the host performs."""

    live: set[int]

    @property
    def holds_residents(self) -> bool:
        """Whether any layer of the stack is meant to stay."""
        ...

    def host_state(self) -> tuple[frozenset[int], bool]:
        """All that decides what the host does next."""
        ...

    def load(self) -> Sequence[Action]:
        """Actions at load."""
        ...

    def prepare(self) -> Sequence[Action]:
        """Actions at the beginning of a use."""
        ...

    def run_pass(self, *, last: bool = False) -> Sequence[Block]:
        """One traversal; ``last`` says that no other one follows in the use."""
        ...

    def end_use(self) -> Sequence[Action]:
        """Actions at the end of a use."""
        ...


def list_stacks(model: ModelSpec) -> tuple[StackRef, ...]:
    """All stacks of ``model`` in its order, with their slots; the same for every plan, streamed or not."""
    stacks: list[StackRef] = []
    slot = 0
    for index, component in enumerate(model.components):
        for stack in component.stacks:
            count = len(stack.layers)
            stacks.append(StackRef(component=index, name=stack.name, first_slot=slot, layer_count=count))
            slot += count
    return tuple(stacks)
