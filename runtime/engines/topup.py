"""Our own executor's schedule: the stream is topped up before every layer, under both policies.

Differences from the server's: the window ahead is limited by bytes instead of by a count, nothing drains before a pass,
and the stream runs on across pass boundaries, up to the last pass of a use. Residents and the first window of a use are
queued in the order in which they will run.

The window of a placement with prefetch ``P`` is the most bytes that any ``P + 1`` streamed layers have which follow one
another: the executing layer and ``P`` ahead of it always fit, and several small layers may take the room of a large
one. The last layers and the first ones follow one another where layer 0 streams; where it stays, the next pass begins
with residents, and what does not fit before them is copied while they run.

Copies are queued in running order, each as soon as the window has room. For equal layers no schedule within the same
bytes is faster; for unequal ones none that copies in running order is (``benchmarks/schedules.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from runtime.engines.host_rules import HostRule, TopupHostRule
from runtime.engines.lifecycle import Habits, Lifecycle
from runtime.hosting import HostMemory
from runtime.model_spec import ModelSpec, RequestSpec
from runtime.plan import Placement
from runtime.program import Action, Block, Op, StackRef
from runtime.residency import Lifetime, resident_layers, streamed_layers


class TopupStack:
    """Host-side state of one stack under the top-up schedule."""

    def __init__(
        self, placement: Placement, *, layer_bytes: tuple[int, ...], stack_index: int = 0, first_slot: int = 0
    ) -> None:
        count = len(layer_bytes)
        self._layer_bytes = layer_bytes
        self._streamed = streamed_layers(count, placement.resident, placement.policy)
        self._residents = frozenset(resident_layers(count, placement.resident, placement.policy))
        self._permanent = placement.lifetime is Lifetime.PERMANENT
        self._stack_index = stack_index
        self._first_slot = first_slot
        self.window_bytes = _most_bytes(
            [layer_bytes[layer] for layer in self._streamed], placement.prefetch + 1, wraps=0 in self._streamed[:1]
        )
        self.live: set[int] = set()

    @property
    def holds_residents(self) -> bool:
        """Whether any layer of the stack is meant to stay."""
        return bool(self._residents)

    def host_state(self) -> tuple[frozenset[int], bool]:
        """All that decides what the host does next."""
        return frozenset(self.live), True

    def load(self) -> list[Action]:
        """Place permanent residents; nothing is streamed before a use begins."""
        if not self._permanent:
            return []
        self.live |= self._residents
        return [(int(Op.PLACE), self._first_slot + layer) for layer in sorted(self._residents)]

    def prepare(self) -> list[Action]:
        """Queue residents and the first window in running order."""
        window = self._top_up(after=-1)
        missing = sorted(self._residents - self.live)
        self.live |= self._residents
        return [(int(Op.H2D), self._first_slot + layer) for layer in sorted([*missing, *window])]

    def run_pass(self, *, last: bool = False) -> list[Block]:
        """One traversal; the window runs on into the next one, if there is one."""
        actions: list[Action] = []
        for layer in range(len(self._layer_bytes)):
            if layer not in self.live:
                self.live.add(layer)
                actions.append((int(Op.H2D_BLOCKING), self._first_slot + layer))
            actions += [(int(Op.H2D), self._first_slot + ahead) for ahead in self._top_up(after=layer, wraps=not last)]
            actions.append((int(Op.RUN), self._first_slot + layer))
            if layer not in self._residents:
                self.live.discard(layer)
                actions.append((int(Op.RELEASE), self._first_slot + layer))
        return [Block(actions)]

    def end_use(self) -> list[Action]:
        """Release everything but permanent residents."""
        released = sorted(self.live - (self._residents if self._permanent else frozenset()))
        self.live -= set(released)
        return [(int(Op.RELEASE), self._first_slot + layer) for layer in released]

    def _top_up(self, *, after: int, wraps: bool = True) -> list[int]:
        """Mark as live, and return in running order, the next streamed layers that the window has room for."""
        coming = [layer for layer in self._streamed if layer > after]
        if wraps:
            coming += [layer for layer in self._streamed if layer <= after]
        room = self.window_bytes - sum(self._layer_bytes[layer] for layer in self._streamed if layer in self.live)
        queued: list[int] = []
        for layer in coming:
            if layer in self.live:
                continue
            room -= self._layer_bytes[layer]
            if room < 0:
                break
            self.live.add(layer)
            queued.append(layer)
        return queued


def _most_bytes(sizes: Sequence[int], count: int, *, wraps: bool) -> int:
    """The most that ``count`` of ``sizes`` in a row add up to; with ``wraps`` the first follows the last."""
    if count >= len(sizes):
        return sum(sizes)
    row = (*sizes, *sizes[: count - 1]) if wraps else sizes
    ends = list(accumulate(row, initial=0))
    return max(end - begin for begin, end in zip(ends, ends[count:], strict=False))


class TopupEngine:
    """The schedule of this project's own executor."""

    name = "topup"

    def lifecycle(self, model: ModelSpec, request: RequestSpec) -> Lifecycle:
        """What turns plans for ``model`` and ``request`` into programs."""
        habits = Habits(copies_next_head=False, refills_first_head=False, knows_last_pass=True)
        return Lifecycle(model, request, factory=_make_stack, habits=habits)

    def host_rule(self, model: ModelSpec, request: RequestSpec, memory: HostMemory) -> HostRule:
        """Where the host copies of ``model`` wait on a host with ``memory``."""
        return TopupHostRule(model, request, memory)


def _make_stack(placement: Placement, index: int, stack: StackRef, model: ModelSpec) -> TopupStack:
    layers = model.components[stack.component].stack(stack.name).layers
    return TopupStack(
        placement,
        layer_bytes=tuple(layer.run_bytes for layer in layers),
        stack_index=index,
        first_slot=stack.first_slot,
    )
