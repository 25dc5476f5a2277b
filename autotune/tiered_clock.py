"""The clock for plans of which some layers are not in pinned memory: a third lane, the reads of couriers.

On top of the rules of ``autotune.replay_core``:

- a copy from pageable memory is synchronous: it waits for all compute that was queued before, and later actions of the
  host wait for it;
- a mapped layer is queued with the courier thread of its stack: read into one of two pinned slots as soon as the
  courier and the slot are free and the host has come that far, then copied like a pinned layer. What of it is in no
  file is copied synchronously when it is queued.
- the host runs ahead of compute between the things that it waits for: synchronous copies and ends of uses. It also
  waits for the read of a mapped layer before that layer runs; the courier serves layers in the order in which they run,
  so that wait never delays another read.
- one lane of reads for all stacks: couriers share the disk.

Simplified: a copy that a courier ships also waits for compute queued before its layer was asked for (the device memory
it needs is given back by then); a copy that the host queues goes before it while it is still being read.

Source: SGLang-diffusion 0.5.23, layerwise manager (``MappedLayerCourier``, ``prefetch_layer``).
"""

from __future__ import annotations

from collections.abc import Iterable

from autotune.replay_core import Clock, Costs, TierCosts
from runtime.program import Action, Op

_H2D, _RUN, _DRAIN, _WORK = int(Op.H2D), int(Op.RUN), int(Op.DRAIN), int(Op.WORK)
_BLOCKING, _UP, _DOWN, _END_USE = int(Op.H2D_BLOCKING), int(Op.UP), int(Op.DOWN), int(Op.END_USE)


class TieredClock(Clock):
    """See the module.

    Attributes:
        read_free_s: when the courier's next read may start: the last one is done and the host has come that far.
        slot_free_s: per stack, when its two slots are free, the older one first.
        shipped_s: start and end of the copies that couriers ship and that are not over, in order; ``copy_free_s`` and
            ``last_copy_s`` are about the host's own.
        shipped_of_stack_s: per stack, the end of the last copy that its courier ships.
        was_read: per slot of the program, whether the layer has been read since its component's last use ended.
    """

    __slots__ = ("_last_read_s", "read_free_s", "shipped_of_stack_s", "shipped_s", "slot_free_s", "tiers", "was_read")

    _last_read_s: tuple[float, float]
    shipped_s: list[tuple[float, float]]
    shipped_of_stack_s: list[float]
    read_free_s: float
    slot_free_s: list[tuple[float, float]]

    def __init__(self, costs: Costs, tiers: TierCosts, *, fresh: bool = False) -> None:
        self.tiers = tiers
        self.was_read = bytearray(len(costs.copy_s))
        super().__init__(costs, fresh=fresh)

    def run(self, actions: Iterable[Action]) -> None:  # noqa: PLR0912, PLR0915 - one flat loop, as every clock's
        """Perform ``actions`` once."""
        costs, tiers = self.costs, self.tiers
        copy_s, compute_s, stack_of_slot = costs.copy_s, costs.compute_s, costs.stack_of_slot
        sync_s, is_mapped = tiers.sync_s, tiers.is_mapped
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
            if op == _WORK:
                compute += costs.work_s[argument]
                continue
            if op == _H2D:
                stack = stack_of_slot[argument]
                mapped = is_mapped[argument]
                read_end = self._read(argument, stack) if mapped else 0.0
                end = 0.0
                if sync_s[argument]:
                    end = copy = self._begin_copy(copy, compute, sync_s[argument]) + sync_s[argument]
                    stall += copy - compute
                    compute = copy
                    self.read_free_s = max(self.read_free_s, copy)
                if mapped:
                    begin = max(copy, compute, read_end, self.shipped_s[-1][1] if self.shipped_s else 0.0)
                    landed[argument] = self.shipped_of_stack_s[stack] = begin + copy_s[argument]
                    self.shipped_s.append((begin, begin + copy_s[argument]))
                    self.slot_free_s[stack] = (self.slot_free_s[stack][1], begin + copy_s[argument])
                    if sync_s[argument]:
                        last_copy[stack] = end
                    continue
                if copy_s[argument]:
                    end = copy = self._begin_copy(copy, compute, copy_s[argument]) + copy_s[argument]
                if end:
                    landed[argument] = last_copy[stack] = end
                continue
            if op == _DRAIN:
                ready = last_copy[argument]
                if ready > compute:
                    stall += ready - compute
                    compute = ready
                continue
            if op == _END_USE:
                stacks = costs.stacks_of_component[argument]
                ready = max(
                    (max(last_copy[stack], self.shipped_of_stack_s[stack]) for stack in stacks), default=compute
                )
                for slot in tiers.mapped_of_component[argument]:
                    self.was_read[slot] = 0
            elif op == _BLOCKING:
                took_s = tiers.blocking_s[argument] or copy_s[argument]
                if not took_s:
                    continue
                ready = copy = self._begin_copy(copy, compute, took_s) + took_s
                landed[argument] = last_copy[stack_of_slot[argument]] = copy
                self.was_read[argument] = 1
            elif op == _UP or op == _DOWN:
                took_s = self.move(op, argument)
                ready = copy = self._begin_copy(copy, compute, took_s) + took_s
            else:
                continue
            if ready > compute:
                stall += ready - compute
                compute = ready
            self.read_free_s = max(self.read_free_s, compute)
        self.now_s, self.copy_free_s, self.stall_s = compute, copy, stall

    def last_spans(self, action: Action, has_moved: bool) -> list[tuple[int, float, float]]:
        """As every clock's, with synchronous copies, and with the courier's read."""
        op, argument = action
        if op not in (_H2D, _BLOCKING):
            return super().last_spans(action, has_moved)
        tiers, end = self.tiers, self.copy_free_s
        if op == _BLOCKING:
            return [(1, end - (tiers.blocking_s[argument] or self.costs.copy_s[argument]), end)]
        if not tiers.is_mapped[argument]:
            return [(1, end - (tiers.sync_s[argument] or self.costs.copy_s[argument]), end)]
        spans = [(1, *self.shipped_s[-1]), (2, *self._last_read_s)]
        if tiers.sync_s[argument]:
            spans.append((1, end - tiers.sync_s[argument], end))
        return spans

    @property
    def engine_free_s(self) -> float:
        """As every clock's, couriers included."""
        return max(self.copy_free_s, self.shipped_s[-1][1] if self.shipped_s else 0.0)

    def settle(self) -> None:
        """As every clock's; couriers are idle, too."""
        super().settle()
        self.read_free_s = 0.0
        self._last_read_s = (0.0, 0.0)
        self.shipped_s = []
        self.shipped_of_stack_s = [0.0] * self.costs.stack_count
        self.slot_free_s = [(0.0, 0.0)] * self.costs.stack_count

    def relative_state(self) -> tuple[float, ...]:
        """As every clock's, with the couriers.

        What became free longer ago than two reads take is as good as free for any time: both slots would be filled by
        now.
        """
        now, oldest = self.now_s, -2 * self.tiers.longest_read_s
        state = [max(self.read_free_s - now, oldest), float(sum(self.was_read))]
        state += (max(part - now, 0.0) for span in self.shipped_s if span[1] > now for part in span)
        state += (landed - now for landed in self.landed_s if landed > now)
        for older, newer in self.slot_free_s:
            state += (max(older - now, oldest), max(newer - now, oldest))
        return (*super().relative_state(), *state)

    def shift(self, delta_s: float) -> None:
        """As every clock's; what became free before now stays as long ago."""
        now = self.now_s
        self.landed_s = [landed + delta_s if landed > now else landed for landed in self.landed_s]
        self.last_copy_s = [copy + delta_s if copy > now else copy for copy in self.last_copy_s]
        if self.copy_free_s > now:
            self.copy_free_s += delta_s
        self.now_s += delta_s
        self.read_free_s += delta_s
        self.shipped_s = [(begin + delta_s, end + delta_s) for begin, end in self.shipped_s]
        self.shipped_of_stack_s = [end + delta_s if end > now else end for end in self.shipped_of_stack_s]
        self.slot_free_s = [(older + delta_s, newer + delta_s) for older, newer in self.slot_free_s]

    def _begin_copy(self, copy: float, compute: float, took_s: float) -> float:
        """When a copy of the host starts: in the first gap between those of couriers that holds it."""
        begin = copy if copy > compute else compute
        if self.shipped_s:
            self.shipped_s = [span for span in self.shipped_s if span[1] > begin]
            for shipped_begin, shipped_end in self.shipped_s:
                if begin + took_s <= shipped_begin:
                    break
                begin = max(begin, shipped_end)
        return begin

    def _read(self, slot: int, stack: int) -> float:
        """Queue the read of a mapped layer; returns when it ends."""
        start = max(self.read_free_s, self.slot_free_s[stack][0])
        took_s = (self.tiers.read_s if self.was_read[slot] else self.tiers.first_read_s)[slot]
        self.was_read[slot] = 1
        self.read_free_s = start + took_s
        self._last_read_s = (start, self.read_free_s)
        return self.read_free_s
