"""From facts and rates to the seconds and bytes of every action of a program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate, chain

from autotune.model_facts import ModelFacts
from autotune.rates import Rates
from autotune.replay_core import Costs, TierCosts
from runtime.engines.host_rules import ComponentHosting, PlanHosting
from runtime.engines.lifecycle import number_work
from runtime.engines.protocol import list_stacks
from runtime.errors import UnsupportedError
from runtime.hosting import HostTier
from runtime.model_spec import LayerSpec
from runtime.plan import Placement, Plan
from runtime.residency import Mode


class Cached(IntEnum):
    """What the page cache keeps of a component's mapped layers: nothing, its stream within a use, or always all."""

    NOTHING = 0
    STREAM = 1
    ALL = 2


Hostings = tuple[tuple[ComponentHosting, Cached] | None, ...]
"""Per component where its layers wait on the host; None where every layer is pinned, or where it does not matter."""


def read_cache(hosting: ComponentHosting, room_bytes: int, all_mapped_bytes: int) -> Cached:
    """What a page cache of ``room_bytes`` keeps of one component, if ``all_mapped_bytes`` are mapped in all.

    A stream larger than the room is gone before it is read again; what one use has read may be gone before the next.
    """
    if all_mapped_bytes <= room_bytes:
        return Cached.ALL
    return Cached.STREAM if hosting.streamed_mapped_bytes <= room_bytes else Cached.NOTHING


def view_hosting(hosting: PlanHosting) -> Hostings:
    """``hosting`` of a whole plan, with what the page cache keeps of it."""
    mapped_bytes = sum(stack.mapped_bytes for component in hosting.components for stack in component.stacks)
    room = hosting.cache_bytes
    return tuple((component, read_cache(component, room, mapped_bytes)) for component in hosting.components)


# How a layer is copied; a mapped one in three ways, by what the page cache keeps.
_PINNED, _PAGEABLE, _MAPPED = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SlotCosts:
    """Copies of one layer from where it waits; see ``TierCosts``."""

    copy_s: float
    sync_s: float = 0.0
    is_mapped: bool = False
    read_s: float = 0.0
    first_read_s: float = 0.0
    blocking_s: float = 0.0
    disk_bytes: int = 0
    first_disk_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComponentSlots:
    """The copies of all layers of one component, column by column; ``mapped`` names its mapped slots."""

    copy_s: tuple[float, ...]
    sync_s: tuple[float, ...]
    is_mapped: tuple[bool, ...]
    read_s: tuple[float, ...]
    first_read_s: tuple[float, ...]
    blocking_s: tuple[float, ...]
    disk_bytes: tuple[int, ...]
    first_disk_bytes: tuple[int, ...]
    mapped: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _StackCosts:
    copy_s: tuple[float, ...]
    compute_s: tuple[float, ...]
    weight_bytes: tuple[int, ...]


class CostModel:
    """Costs of one model and workload on one device; computed once, then put together for each program."""

    def __init__(self, facts: ModelFacts, rates: Rates) -> None:
        self.facts = facts
        self.rates = rates
        counts = [sum(len(stack.layers) for stack in part.stacks) for part in facts.model.components]
        self._first_slots = tuple(accumulate(counts, initial=0))
        self._slots_by_kind = lru_cache(maxsize=None)(self._list_slots)
        self._stacks = {
            (index, stack.name): _StackCosts(
                copy_s=tuple(layer.run_bytes / rates.pinned_bytes_per_s for layer in stack.layers),
                compute_s=self._layer_compute_s(component.name, stack.name, len(stack.layers)),
                weight_bytes=tuple(layer.run_bytes for layer in stack.layers),
            )
            for index, component in enumerate(facts.model.components)
            for stack in component.stacks
        }
        self.stack_costs = self._compute_stack_costs()
        self._component_count = len(facts.model.components)
        self._all_pinned: Hostings = (None,) * self._component_count
        self._costs_when = lru_cache(maxsize=1024)(self._compute_costs_when)
        self._slots_when = lru_cache(maxsize=4096)(self._compute_slots_when)
        numbers = number_work(facts.request)
        self._outside_s = [0.0] * len(numbers)
        self._layers_s = [0.0] * len(numbers)
        self._component_of_work = [0] * len(numbers)
        names = [component.name for component in facts.model.components]
        for (use_index, group_index), number in numbers.items():
            work = facts.work[use_index]
            self._component_of_work[number] = names.index(work.component)
            if group_index < 0:
                self._outside_s[number] = self._seconds(use_index, -1)
                continue
            self._outside_s[number] = self._seconds(use_index, group_index)
            self._layers_s[number] = sum(
                rates.estimate_work_s(layer, work.compute_dtype)
                for layers in work.groups[group_index].layers.values()
                for layer in layers
            )

    def costs_of(self, plan: Plan, hostings: Hostings | None = None) -> Costs:
        """Costs of the actions of any program for ``plan`` under ``hostings``; None means that all layers are pinned.

        Only the work outside the streamed stacks depends on the plan.
        """
        streams = tuple(plan.streams(component.name) for component in self.facts.model.components)
        return self._costs_when(streams, hostings or self._all_pinned)

    def costs_of_one(self, component: int, placement: Placement, hostings: Hostings | None = None) -> Costs:
        """Costs for replaying one component by itself; work of the others is not to be used."""
        streams = placement.mode is Mode.LAYERWISE_OFFLOAD
        alone = tuple(streams and index == component for index in range(self._component_count))
        return self._costs_when(alone, hostings or self._all_pinned)

    def _compute_costs_when(self, streams: tuple[bool, ...], hostings: Hostings) -> Costs:
        work_s = tuple(
            outside if streams[component] else outside + layers
            for outside, layers, component in zip(self._outside_s, self._layers_s, self._component_of_work, strict=True)
        )
        costs = replace(self.stack_costs, work_s=work_s)
        if all(hosting is None or hosting[0].is_pinned for hosting in hostings):
            return costs
        parts = [self._slots_when(component, hosting) for component, hosting in enumerate(hostings)]
        tiers = TierCosts(
            sync_s=tuple(chain.from_iterable(part.sync_s for part in parts)),
            is_mapped=tuple(chain.from_iterable(part.is_mapped for part in parts)),
            read_s=tuple(chain.from_iterable(part.read_s for part in parts)),
            first_read_s=tuple(chain.from_iterable(part.first_read_s for part in parts)),
            blocking_s=tuple(chain.from_iterable(part.blocking_s for part in parts)),
            disk_bytes=tuple(chain.from_iterable(part.disk_bytes for part in parts)),
            first_disk_bytes=tuple(chain.from_iterable(part.first_disk_bytes for part in parts)),
            mapped_of_component=tuple(part.mapped for part in parts),
        )
        return replace(costs, copy_s=tuple(chain.from_iterable(part.copy_s for part in parts)), tiers=tiers)

    def _compute_slots_when(self, component: int, hosting: tuple[ComponentHosting, Cached] | None) -> _ComponentSlots:
        """Copies of every layer of one component."""
        kinds = self._kinds_of(component, hosting)
        if not any(kinds):
            return self._slots_by_kind(component, _PINNED)
        picked = [self._slots_by_kind(component, kind) for kind in kinds]
        first_slot = self._first_slots[component]
        return _ComponentSlots(
            copy_s=tuple([slots.copy_s[layer] for layer, slots in enumerate(picked)]),
            sync_s=tuple([slots.sync_s[layer] for layer, slots in enumerate(picked)]),
            is_mapped=tuple([slots.is_mapped[layer] for layer, slots in enumerate(picked)]),
            read_s=tuple([slots.read_s[layer] for layer, slots in enumerate(picked)]),
            first_read_s=tuple([slots.first_read_s[layer] for layer, slots in enumerate(picked)]),
            blocking_s=tuple([slots.blocking_s[layer] for layer, slots in enumerate(picked)]),
            disk_bytes=tuple([slots.disk_bytes[layer] for layer, slots in enumerate(picked)]),
            first_disk_bytes=tuple([slots.first_disk_bytes[layer] for layer, slots in enumerate(picked)]),
            mapped=tuple([first_slot + layer for layer, kind in enumerate(kinds) if kind >= _MAPPED]),
        )

    def _kinds_of(self, component: int, hosting: tuple[ComponentHosting, Cached] | None) -> list[int]:
        """How each layer of one component is copied."""
        if hosting is None or not hosting[0].stacks:
            stacks = self.facts.model.components[component].stacks
            return [_PINNED] * sum(len(stack.layers) for stack in stacks)
        mapped = _MAPPED + hosting[1]
        kinds = {None: _PINNED, HostTier.PINNED: _PINNED, HostTier.PAGEABLE: _PAGEABLE, HostTier.MAPPED: mapped}
        return [kinds[tier] for stack in hosting[0].stacks for tier in stack.tiers]

    def _list_slots(self, component: int, kind: int) -> _ComponentSlots:
        """Copies of every layer of one component, if all are copied alike."""
        layers = [layer for stack in self.facts.model.components[component].stacks for layer in stack.layers]
        slots = [self._slot_costs(layer, kind) for layer in layers]
        return _ComponentSlots(
            copy_s=tuple(slot.copy_s for slot in slots),
            sync_s=tuple(slot.sync_s for slot in slots),
            is_mapped=tuple(slot.is_mapped for slot in slots),
            read_s=tuple(slot.read_s for slot in slots),
            first_read_s=tuple(slot.first_read_s for slot in slots),
            blocking_s=tuple(slot.blocking_s for slot in slots),
            disk_bytes=tuple(slot.disk_bytes for slot in slots),
            first_disk_bytes=tuple(slot.first_disk_bytes for slot in slots),
            mapped=(),
        )

    def _slot_costs(self, layer: LayerSpec, kind: int) -> _SlotCosts:
        rates, is_kept, keeps_all = self.rates, kind >= _MAPPED + Cached.STREAM, kind >= _MAPPED + Cached.ALL
        if kind == _PINNED:
            return _SlotCosts(copy_s=layer.run_bytes / rates.pinned_bytes_per_s)
        if kind == _PAGEABLE:
            sync_s = layer.run_bytes / rates.pageable_bytes_per_s
            return _SlotCosts(copy_s=0.0, sync_s=sync_s, blocking_s=sync_s)
        cached_s = layer.view_bytes / rates.pageable_bytes_per_s
        disk_s = layer.view_bytes / rates.disk_bytes_per_s
        # The first load after start-up is not the courier's: the host faults the pages in, then copies as if pageable.
        blocking_s = layer.run_bytes / rates.pageable_bytes_per_s + (0.0 if keeps_all else disk_s)
        return _SlotCosts(
            copy_s=layer.view_bytes / rates.pinned_bytes_per_s,
            sync_s=layer.transformed_bytes / rates.pageable_bytes_per_s,
            is_mapped=True,
            read_s=cached_s if is_kept else disk_s,
            first_read_s=cached_s if keeps_all else disk_s,
            blocking_s=blocking_s,
            disk_bytes=0 if is_kept else layer.view_bytes,
            first_disk_bytes=0 if keeps_all else layer.view_bytes,
        )

    def compute_s(self) -> float:
        """Seconds of compute of a whole request: what no placement can save."""
        return sum(self.use_compute_s(index) for index in range(len(self.facts.request.uses)))

    def use_compute_s(self, use_index: int) -> float:
        """Seconds of compute of one use, inside and outside the stacks."""
        work = self.facts.work[use_index]
        total = self._seconds(use_index, -1)
        for index, group in enumerate(self.facts.request.uses[use_index].groups):
            layers = (layer for stack in work.groups[index].layers.values() for layer in stack)
            layers_s = sum(self.rates.estimate_work_s(layer, work.compute_dtype) for layer in layers)
            total += group.passes * (self._seconds(use_index, index) + layers_s)
        return total

    def _compute_stack_costs(self) -> Costs:
        components = self.facts.model.components
        stacks = list_stacks(self.facts.model)
        parts = [self._stacks[stack.component, stack.name] for stack in stacks]
        return Costs(
            copy_s=tuple(value for part in parts for value in part.copy_s),
            compute_s=tuple(value for part in parts for value in part.compute_s),
            weight_bytes=tuple(value for part in parts for value in part.weight_bytes),
            work_s=(),
            up_s=tuple(component.run_bytes / self.rates.pinned_bytes_per_s for component in components),
            first_up_s=tuple(component.run_bytes / self.rates.pageable_bytes_per_s for component in components),
            down_s=tuple(component.run_bytes / self.rates.d2h_bytes_per_s for component in components),
            component_bytes=tuple(component.run_bytes for component in components),
            cast_bytes=tuple(max(component.cast_bytes - component.run_bytes, 0) for component in components),
            stack_of_slot=tuple(index for index, stack in enumerate(stacks) for _ in range(stack.layer_count)),
            stacks_of_component=tuple(
                tuple(index for index, stack in enumerate(stacks) if stack.component == component)
                for component in range(len(components))
            ),
            interference=self.rates.interference,
        )

    def _seconds(self, use_index: int, group_index: int) -> float:
        work = self.facts.work[use_index]
        outside = work.outside if group_index < 0 else work.groups[group_index].outside
        return self.rates.estimate_work_s(outside, work.compute_dtype)

    def _layer_compute_s(self, component: str, stack: str, layer_count: int) -> tuple[float, ...]:
        found: tuple[float, ...] | None = None
        for use in self.facts.work:
            if use.component != component:
                continue
            for group in use.groups:
                if stack not in group.layers:
                    continue
                times = tuple(self.rates.estimate_work_s(layer, use.compute_dtype) for layer in group.layers[stack])
                if found is not None and found != times:
                    raise UnsupportedError(
                        f"{component}.{stack} computes differently in two uses of one request: not modelled yet"
                    )
                found = times
        return found if found is not None else (0.0,) * layer_count
