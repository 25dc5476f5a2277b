"""From facts and rates to the seconds and bytes of every action of a program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from autotune.model_facts import ModelFacts
from autotune.rates import Rates
from autotune.replay_core import Costs
from runtime.engines.lifecycle import number_work
from runtime.engines.protocol import list_stacks
from runtime.errors import UnsupportedError
from runtime.plan import Placement, Plan
from runtime.residency import Mode


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
        self._costs_when = lru_cache(maxsize=256)(self._compute_costs_when)
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

    def costs_of(self, plan: Plan) -> Costs:
        """Costs of the actions of any program for ``plan``; only the work outside the streamed stacks depends on it."""
        return self._costs_when(tuple(plan.streams(component.name) for component in self.facts.model.components))

    def costs_of_one(self, component: int, placement: Placement) -> Costs:
        """Costs for replaying one component by itself; work of the others is not to be used."""
        streams = placement.mode is Mode.LAYERWISE_OFFLOAD
        return self._costs_when(tuple(streams and index == component for index in range(self._component_count)))

    def _compute_costs_when(self, streams: tuple[bool, ...]) -> Costs:
        work_s = tuple(
            outside if streams[component] else outside + layers
            for outside, layers, component in zip(self._outside_s, self._layers_s, self._component_of_work, strict=True)
        )
        return replace(self.stack_costs, work_s=work_s)

    def layer_costs(self, component: str, stack: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Copy and compute seconds per layer of one stack."""
        names = [item.name for item in self.facts.model.components]
        costs = self._stacks[names.index(component), stack]
        return costs.copy_s, costs.compute_s

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
            down_s=tuple(component.run_bytes / self.rates.d2h_bytes_per_s for component in components),
            component_bytes=tuple(component.run_bytes for component in components),
            cast_bytes=tuple(max(component.cast_bytes - component.run_bytes, 0) for component in components),
            stack_of_slot=tuple(index for index, stack in enumerate(stacks) for _ in range(stack.layer_count)),
            stacks_of_component=tuple(
                tuple(index for index, stack in enumerate(stacks) if stack.component == component)
                for component in range(len(components))
            ),
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
