"""The two-engine clock: one copy engine, one compute engine, shared by every stack.

Rules (DESIGN of the server's streams, checked against ``tests/data/sglang_timing_cases.jsonl``):

- a copy starts when the copy engine is free and all compute that was queued before its issue is done;
- a layer runs when the previous one is done and its own copy has landed;
- a drain makes compute wait for the last copy of its stack, the end of a use for the last copies of all its stacks;
- a blocking copy makes everything that is issued later wait for it;
- device memory is taken when a copy is queued and given back at the release, both in host order, so the peak of live
  bytes does not depend on any rate; ``autotune.live_bytes`` walks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from runtime.interference import NO_INTERFERENCE, Interference
from runtime.program import Action, Op

_H2D, _RUN, _RELEASE, _DRAIN = int(Op.H2D), int(Op.RUN), int(Op.RELEASE), int(Op.DRAIN)
_BLOCKING, _PLACE, _WORK, _UP, _DOWN = int(Op.H2D_BLOCKING), int(Op.PLACE), int(Op.WORK), int(Op.UP), int(Op.DOWN)
_END_USE = int(Op.END_USE)


@dataclass(frozen=True, kw_only=True)
class TierCosts:
    """How the copies of every slot differ from those of pinned layers; all zero for a pinned one.

    Attributes:
        sync_s: per slot, the part that the host waits for: from pageable memory.
        is_mapped: per slot, whether a courier reads the rest from the checkpoint file before it copies it.
        read_s: per slot, that read; from the page cache, or from disk where the cache cannot keep the stream.
        first_read_s: per slot, the first such read of a use.
        blocking_s: per slot, a load that the host waits for, first read and copy together.
        disk_bytes, first_disk_bytes: per slot, what such a read, and the first one of a use, take from disk.
        mapped_of_component: per component, its mapped slots.
    """

    sync_s: tuple[float, ...]
    is_mapped: tuple[bool, ...]
    read_s: tuple[float, ...]
    first_read_s: tuple[float, ...]
    blocking_s: tuple[float, ...]
    disk_bytes: tuple[int, ...]
    first_disk_bytes: tuple[int, ...]
    mapped_of_component: tuple[tuple[int, ...], ...]

    @cached_property
    def longest_read_s(self) -> float:
        """The longest read of one layer."""
        return max((*self.read_s, *self.first_read_s), default=0.0)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds and bytes of every action of one program.

    Attributes:
        copy_s: per slot, one host-to-device copy of the layer from pinned memory; of what a courier ships, where the
            layer is mapped; nothing where it is pageable.
        compute_s: per slot, one run of the layer.
        weight_bytes: per slot, device bytes of the layer.
        work_s: per work index, compute outside the streamed stacks.
        up_s, down_s: per component, one move of the whole component.
        first_up_s: per component, its move up before it has ever been moved down: from memory that is not pinned.
        component_bytes: per component, device bytes taken by ``UP``.
        cast_bytes: per component, device bytes that it takes for a moment more than that while it is moved up.
        stack_of_slot: per slot, index of its stack.
        stacks_of_component: per component, indices of its stacks.
        tiers: how layers that are not pinned are copied; None when all are.
        interference: how copies and compute slow each other down; the seconds above are those without it.
    """

    copy_s: tuple[float, ...]
    compute_s: tuple[float, ...]
    weight_bytes: tuple[int, ...]
    work_s: tuple[float, ...]
    up_s: tuple[float, ...]
    first_up_s: tuple[float, ...]
    down_s: tuple[float, ...]
    component_bytes: tuple[int, ...]
    cast_bytes: tuple[int, ...]
    stack_of_slot: tuple[int, ...]
    stacks_of_component: tuple[tuple[int, ...], ...]
    tiers: TierCosts | None = None
    interference: Interference = NO_INTERFERENCE

    @cached_property
    def change_bytes(self) -> tuple[int, ...]:
        """Indexed by a block's moves: ``slot + 1`` takes the layer's bytes, ``-(slot + 1)`` gives them back."""
        return (0, *self.weight_bytes, *(-size for size in reversed(self.weight_bytes)))

    @cached_property
    def stack_count(self) -> int:
        """Stacks of all components."""
        return self.stack_of_slot[-1] + 1 if self.stack_of_slot else 0

    def live_change_bytes(self, action: Action) -> int:
        """Device bytes that ``action`` takes (positive) or gives back."""
        op, argument = action
        if op in (_H2D, _BLOCKING, _PLACE):
            return self.weight_bytes[argument]
        if op == _RELEASE:
            return -self.weight_bytes[argument]
        if op in (_UP, _DOWN):
            return self.component_bytes[argument] if op == _UP else -self.component_bytes[argument]
        return 0


class Clock:
    """Times while a program is replayed. ``run`` advances it; all times are seconds from the last ``settle``.

    Every layer is pinned; ``autotune.tiered_clock`` has the clock for the others. Components that are moved whole are
    pinned from their first move down; ``fresh`` says that none has been moved down yet.

    Attributes:
        now_s: when all compute is done, in the own time of the copy engine, as all attributes are. Here that is the
            time; ``autotune.interfering_clock`` has the clock whose copy engine is slowed now and then.
    """

    __slots__ = ("copy_free_s", "costs", "landed_s", "last_copy_s", "now_s", "stall_s", "unmoved")

    now_s: float
    copy_free_s: float
    landed_s: list[float]
    last_copy_s: list[float]

    def __init__(self, costs: Costs, *, fresh: bool = False) -> None:
        self.costs = costs
        self.stall_s = 0.0
        self.unmoved = set(range(len(costs.up_s))) if fresh else set()
        self.settle()

    def run(self, actions: Iterable[Action]) -> None:  # noqa: PLR0912 - a call per action would triple the hottest code
        """Perform ``actions`` once, in one flat loop."""
        costs = self.costs
        copy_s, compute_s, stack_of_slot = costs.copy_s, costs.compute_s, costs.stack_of_slot
        landed, last_copy = self.landed_s, self.last_copy_s
        compute, copy, stall = self.now_s, self.copy_free_s, self.stall_s
        for op, argument in actions:
            if op == _RUN:
                ready = landed[argument]
                if ready > compute:
                    stall += ready - compute
                    compute = ready
                compute += compute_s[argument]
                continue
            if op == _H2D:
                if copy_s[argument]:  # a layer without weights is never copied, so it waits behind no other copy
                    copy = (copy if copy > compute else compute) + copy_s[argument]
                    landed[argument] = last_copy[stack_of_slot[argument]] = copy
                continue
            if op == _WORK:
                compute += costs.work_s[argument]
                continue
            if op == _DRAIN:
                ready = last_copy[argument]
            elif op == _END_USE:
                ready = max((last_copy[stack] for stack in costs.stacks_of_component[argument]), default=compute)
            elif op == _BLOCKING:
                if not copy_s[argument]:
                    continue
                ready = copy = (copy if copy > compute else compute) + copy_s[argument]
                landed[argument] = last_copy[stack_of_slot[argument]] = copy
            elif op == _UP or op == _DOWN:
                ready = copy = (copy if copy > compute else compute) + self.move(op, argument)
            else:
                continue
            if ready > compute:
                stall += ready - compute
                compute = ready
        self.now_s, self.copy_free_s, self.stall_s = compute, copy, stall

    @property
    def compute_free_s(self) -> float:
        """When all compute is done."""
        return self.now_s

    @property
    def engine_free_s(self) -> float:
        """When the copy engine has nothing left to do."""
        return self.copy_free_s

    def last_spans(self, action: Action, has_moved: bool) -> list[tuple[int, float, float]]:
        """``(lane, start_s, end_s)`` of the copies of ``action``, which has just been run; in own time."""
        op, argument = action
        if op == _UP:
            took_s = (self.costs.up_s if has_moved else self.costs.first_up_s)[argument]
        else:
            took_s = (self.costs.down_s if op == _DOWN else self.costs.copy_s)[argument]
        return [(1, self.copy_free_s - took_s, self.copy_free_s)]

    def last_compute_s(self, action: Action) -> float:
        """How long the compute of ``action`` took, which has just been run; 0 for what does not compute."""
        op, argument = action
        if op == _RUN:
            return self.costs.compute_s[argument]
        return self.costs.work_s[argument] if op == _WORK else 0.0

    def trace_copies(self) -> None:
        """From now on ``time_of`` is asked for when copies were made."""

    def time_of(self, own_s: float) -> float:
        """When the copy engine comes to ``own_s``, as far as is known by now."""
        return own_s

    def move(self, op: int, component: int) -> float:
        """Seconds of a move of a whole component, which is noted."""
        if op == _UP:
            return (self.costs.first_up_s if component in self.unmoved else self.costs.up_s)[component]
        self.unmoved.discard(component)
        return self.costs.down_s[component]

    def settle(self) -> None:
        """Let every queued copy land and begin a new time line at zero: what idling between requests does."""
        self.now_s = self.copy_free_s = 0.0
        self.landed_s = [0.0] * len(self.costs.copy_s)
        self.last_copy_s = [0.0] * self.costs.stack_count

    def relative_state(self) -> tuple[float, ...]:
        """All that decides the times to come, measured from now: the copy engine, then every copy still in flight."""
        now = self.now_s
        if self.copy_free_s <= now:
            return ()
        state = [self.copy_free_s - now]
        for slot, landed in enumerate(self.landed_s):
            if landed > now:
                state += (float(slot), landed - now)
        return tuple(state)

    def shift(self, delta_s: float) -> None:
        """Skip ``delta_s`` in which passes repeat exactly: what is in flight now is in flight then."""
        now = self.now_s
        if self.copy_free_s > now:
            self.landed_s = [landed + delta_s if landed > now else landed for landed in self.landed_s]
            self.last_copy_s = [copy + delta_s if copy > now else copy for copy in self.last_copy_s]
            self.copy_free_s += delta_s
        self.now_s += delta_s
