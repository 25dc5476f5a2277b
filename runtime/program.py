"""A program: the ordered host-side actions of load, of the first request after load, and of any later request.

An engine turns a plan into a program; the replay turns a program into times and live bytes; the executor performs it.
An action is a pair ``(op, argument)``; what the argument counts depends on the op:

===============  ====================================================================================================
op               argument and meaning
===============  ====================================================================================================
``PLACE``        slot: the layer is put on the device at load and never leaves
``H2D``          slot: queue an asynchronous copy; device memory is taken when the copy is queued
``H2D_BLOCKING`` slot: load now; the host waits for the copy
``DRAIN``        stack: compute waits for every copy that this stack has queued
``RUN``          slot: the layer computes, after its own copy has landed
``RELEASE``      slot: the layer's device memory is given back
``BEGIN_USE``    component: a use begins; ``IN_USE`` marks that what precedes its first layer has been queued
``IN_USE``       component
``WORK``         work index: compute outside the stacks
``UP``           component: the whole component is copied to the device, not overlapped
``DOWN``         component: the whole component is copied back to the host, not overlapped
``END_USE``      component: a use ends; compute waits for every copy that the component has queued
``END_REQUEST``  0: the request ends; copies queued before it may still be running
===============  ====================================================================================================

A *slot* is the index of a layer counted over all stacks of the program, in the order of its ``stacks``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TypeAlias


class Op(IntEnum):
    """Kinds of actions; see the module's table."""

    H2D = 0
    RUN = 1
    RELEASE = 2
    DRAIN = 3
    H2D_BLOCKING = 4
    PLACE = 5
    BEGIN_USE = 6
    IN_USE = 7
    WORK = 8
    UP = 9
    DOWN = 10
    END_USE = 11
    END_REQUEST = 12


Action: TypeAlias = tuple[int, int]

_H2D, _RUN, _RELEASE = int(Op.H2D), int(Op.RUN), int(Op.RELEASE)
_H2D_BLOCKING, _PLACE = int(Op.H2D_BLOCKING), int(Op.PLACE)
_TIMELESS = frozenset({int(Op.BEGIN_USE), int(Op.IN_USE), int(Op.END_REQUEST)})
_COMPONENT_MOVES = frozenset({int(Op.UP), int(Op.DOWN)})


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRef:
    """Where one stack's layers lie among the slots."""

    component: int
    name: str
    first_slot: int
    layer_count: int


class Block:
    """A run of actions with what the replay needs of it, derived once; schedules share blocks between passes and plans.

    Attributes:
        actions: what the host does, in order.
        timed: the actions among them that can take or wait for time.
        moves: device memory taken and given back, in order: ``slot + 1`` takes, ``-(slot + 1)`` gives back. Moves of
            whole components are not among them.
        moved_components: the moves of whole components; no block mixes both kinds in an order that matters.
    """

    __slots__ = ("actions", "moved_components", "moves", "timed")

    def __init__(self, actions: Sequence[Action]) -> None:
        self.actions = tuple(actions)
        timed: list[Action] = []
        moves: list[int] = []
        moved_components: list[Action] = []
        for action in actions:
            op, argument = action
            if op == _RUN:
                timed.append(action)
            elif op == _H2D or op == _H2D_BLOCKING:
                timed.append(action)
                moves.append(argument + 1)
            elif op == _RELEASE:
                moves.append(-1 - argument)
            elif op == _PLACE:
                moves.append(argument + 1)
            elif op not in _TIMELESS:
                timed.append(action)
                if op in _COMPONENT_MOVES:
                    moved_components.append(action)
        self.timed = timed
        self.moves = moves
        self.moved_components = moved_components


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Blocks performed one after another, ``repeat`` times in a row.

    Attributes:
        blocks: what the host does, in order.
        repeat: how often.
        group: index of the use's pass group whose pass this is; -1 when it is not a pass.
    """

    blocks: tuple[Block, ...]
    repeat: int = 1
    group: int = -1

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions of one repetition, in order."""
        return tuple(action for block in self.blocks for action in block.actions)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseProgram:
    """One use.

    Attributes:
        component: index of the component in use.
        segments: its beginning, its passes, its end, in order.
        after: what the host queues for later uses once this one has ended.
    """

    component: int
    segments: tuple[Segment, ...]
    after: Segment = Segment(blocks=())


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestProgram:
    """The uses of one request and what the host does after the last of them."""

    uses: tuple[UseProgram, ...]
    ending: Segment

    def actions(self) -> Iterator[Action]:
        """Every action in order, repeats written out."""
        for use in self.uses:
            for segment in use.segments:
                for _ in range(segment.repeat):
                    yield from segment.actions
            yield from use.after.actions
        yield from self.ending.actions


@dataclass(frozen=True, kw_only=True)
class Program:
    """What the host does from load on.

    Attributes:
        components: names, in the model's order.
        stacks: all stacks of the model, in order, whether they stream or not.
        load: actions at load.
        first: the first request after load.
        later: any later request; it leaves the device as it found it.
    """

    components: tuple[str, ...]
    stacks: tuple[StackRef, ...]
    load: Segment
    first: RequestProgram
    later: RequestProgram

    @cached_property
    def stack_of_slot(self) -> tuple[int, ...]:
        """Index of the stack that each slot belongs to."""
        return tuple(index for index, stack in enumerate(self.stacks) for _ in range(stack.layer_count))

    def name(self, action: Action) -> tuple[str | int, ...]:
        """The action with names in place of indices: ``("h2d", "transformer", "blocks", 3)``."""
        op, argument = Op(action[0]), action[1]
        label = op.name.lower()
        if op in (Op.H2D, Op.H2D_BLOCKING, Op.RUN, Op.RELEASE, Op.PLACE):
            stack = self.stacks[self.stack_of_slot[argument]]
            return (label, self.components[stack.component], stack.name, argument - stack.first_slot)
        if op is Op.DRAIN:
            stack = self.stacks[argument]
            return (label, self.components[stack.component], stack.name)
        if op in (Op.WORK, Op.END_REQUEST):
            return (label,)
        return (label, self.components[argument])
