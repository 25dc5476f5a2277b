"""What SGLang-diffusion 0.5.23 does on the host: layerwise managers and the life of a request.

Notation, per stack: ``n`` layers, ``P`` prefetch clamped to 1..n, streamed layers in ascending order, *head* = the
first layers that the coming pass will have to stream.

Sources: the server's layerwise manager and component manager, release 0.5.23;
``tests/data/sglang_schedule_traces.jsonl`` and ``tests/data/sglang_lifecycle_cases.jsonl`` were recorded from it and
are reproduced record by record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from runtime.engines.host_rules import HostRule, ServerHostRule
from runtime.engines.lifecycle import Habits, Lifecycle
from runtime.hosting import HostMemory
from runtime.model_spec import ModelSpec, RequestSpec
from runtime.plan import Placement
from runtime.program import Action, Block, Op, StackRef
from runtime.residency import Lifetime, Policy, resident_layers, streamed_layers

_H2D, _RUN, _RELEASE, _DRAIN = int(Op.H2D), int(Op.RUN), int(Op.RELEASE), int(Op.DRAIN)
_H2D_BLOCKING, _PLACE = int(Op.H2D_BLOCKING), int(Op.PLACE)


@dataclass(frozen=True, slots=True)
class _Schedule:
    """What never changes while a stack runs under one placement.

    Before layer 0 runs, exactly the residents and the head are live, so from there on every pass is the same ``body``
    and leaves the same layers ``live_after``.
    """

    residents: frozenset[int]
    resident_order: tuple[int, ...]
    cold_head: tuple[int, ...]
    cold_kept: frozenset[int]
    armed_kept: frozenset[int]
    armed_head: tuple[int, ...]
    body: Block
    live_after: frozenset[int]


@lru_cache(maxsize=16384)
def _schedule(layer_count: int, prefetch: int, resident: int, policy: Policy, first_slot: int) -> _Schedule:
    window = min(max(prefetch, 1), layer_count)
    streamed = streamed_layers(layer_count, resident, policy)
    residents = frozenset(resident_layers(layer_count, resident, policy))
    head = streamed[:window]
    live = set(residents.union(head))
    runs, copies, releases = _layer_actions(layer_count, first_slot)
    body: list[Action] = []
    append = body.append
    for layer, ahead in enumerate(_layers_ahead(layer_count, window, streamed, policy)):
        if layer not in live:
            live.add(layer)
            append((_H2D_BLOCKING, first_slot + layer))
        for coming in ahead:
            if coming not in live:
                live.add(coming)
                append(copies[coming])
        append(runs[layer])
        if layer not in residents:
            live.discard(layer)
            append(releases[layer])
    return _Schedule(
        residents=residents,
        resident_order=resident_layers(layer_count, resident, policy),
        cold_head=tuple(range(window)),
        cold_kept=frozenset(range(window)),
        armed_kept=residents.union(head),
        armed_head=head,
        body=Block(body),
        live_after=frozenset(live),
    )


@lru_cache(maxsize=256)
def _layer_actions(
    layer_count: int, first_slot: int
) -> tuple[tuple[Action, ...], tuple[Action, ...], tuple[Action, ...]]:
    """Run, copy and release of every layer: schedules share these instead of making millions of equal pairs."""
    slots = range(first_slot, first_slot + layer_count)
    return (
        tuple((_RUN, slot) for slot in slots),
        tuple((_H2D, slot) for slot in slots),
        tuple((_RELEASE, slot) for slot in slots),
    )


def _layers_ahead(layer_count: int, window: int, streamed: tuple[int, ...], policy: Policy) -> Iterator[Sequence[int]]:
    """Per layer, what the server asks for just before that layer runs."""
    if policy is Policy.STRIDED:
        wrapped = streamed + streamed
        count = min(window, len(streamed))
        start = 0
        for layer in range(layer_count):
            if start < len(streamed) and streamed[start] <= layer:
                start += 1
            yield wrapped[start : start + count]
        return
    for layer in range(layer_count):
        if layer % window:
            yield ()
        else:
            yield [coming % layer_count for coming in range(layer + window, layer + 2 * window)]


class SglangStack:
    """Host-side state of one stack's manager: which layers are live, and whether residency is armed.

    Every method returns the actions that the host performs, with slots counted from ``first_slot``.
    """

    def __init__(self, placement: Placement, *, layer_count: int, stack_index: int = 0, first_slot: int = 0) -> None:
        self._schedule = _schedule(layer_count, placement.prefetch, placement.resident, placement.policy, first_slot)
        self._permanent = placement.lifetime is Lifetime.PERMANENT
        _, self._copies, self._releases = _layer_actions(layer_count, first_slot)
        self._stack_index = stack_index
        self.live: set[int] = set()
        self._armed = False

    @property
    def holds_residents(self) -> bool:
        """Whether any layer of the stack is meant to stay; such a component is not copied ahead of its use."""
        return bool(self._schedule.residents)

    def live_layers(self) -> list[int]:
        """Layers on the device now, ascending."""
        return sorted(self.live)

    def host_state(self) -> tuple[frozenset[int], bool]:
        """All that decides what the host does next; equal states lead to equal actions."""
        return frozenset(self.live), self._armed

    def load(self) -> list[Action]:
        """Place permanent residents, then queue the head. ``forward`` residency is armed only by the first pass."""
        actions: list[Action] = []
        if self._permanent:
            for layer in self._schedule.resident_order:
                self.live.add(layer)
                actions.append((_PLACE, self._copies[layer][1]))
            self._armed = True
        actions.append((_DRAIN, self._stack_index))
        self._queue(self._head(), actions)
        return actions

    def prepare(self) -> list[Action]:
        """Begin a use: release what is outside the head, queue residents and head, without waiting."""
        actions: list[Action] = []
        self._release_outside_head(actions)
        if self._armed and not self._permanent:
            self._queue(self._schedule.resident_order, actions)
        self._queue(self._head(), actions)
        return actions

    def run_pass(self, *, last: bool = False) -> list[Block]:
        """One traversal: what precedes layer 0, then the same body every time."""
        actions: list[Action] = []
        self._armed = True
        self._release_outside_head(actions)
        if not self._permanent:
            self._queue(self._schedule.resident_order, actions, op=_H2D_BLOCKING)
        actions.append((_DRAIN, self._stack_index))
        self._queue(self._schedule.armed_head, actions)
        self.live = set(self._schedule.live_after)
        return [Block(actions), self._schedule.body]

    def end_use(self) -> list[Action]:
        """Release everything but permanent residents."""
        kept = self._schedule.residents if self._permanent else frozenset()
        released = sorted(self.live - kept)
        self.live -= set(released)
        return [self._releases[layer] for layer in released]

    def _head(self) -> tuple[int, ...]:
        return self._schedule.armed_head if self._armed else self._schedule.cold_head

    def _release_outside_head(self, actions: list[Action]) -> None:
        for layer in sorted(self.live - (self._schedule.armed_kept if self._armed else self._schedule.cold_kept)):
            self.live.discard(layer)
            actions.append(self._releases[layer])

    def _queue(self, layers: tuple[int, ...], actions: list[Action], op: int = _H2D) -> None:
        live, copies = self.live, self._copies
        for layer in layers:
            if layer not in live:
                live.add(layer)
                actions.append(copies[layer] if op == _H2D else (op, copies[layer][1]))


class SglangEngine:
    """SGLang-diffusion 0.5.23: bursts or top-ups per pass, a drain before each pass, heads kept between uses."""

    name = "sglang@0.5.23"

    def lifecycle(self, model: ModelSpec, request: RequestSpec) -> Lifecycle:
        """What turns plans for ``model`` and ``request`` into programs."""
        habits = Habits(copies_next_head=True, refills_first_head=True)
        return Lifecycle(model, request, factory=_make_stack, habits=habits)

    def host_rule(self, model: ModelSpec, _request: RequestSpec, memory: HostMemory) -> HostRule:
        """Where the host copies of ``model`` wait on a host with ``memory``."""
        return ServerHostRule(model, memory)


def _make_stack(placement: Placement, index: int, stack: StackRef, _model: ModelSpec) -> SglangStack:
    return SglangStack(placement, layer_count=stack.layer_count, stack_index=index, first_slot=stack.first_slot)
