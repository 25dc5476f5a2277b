"""Where a whole plan's weights wait on the host, component after component, under each engine's rule.

What is left for a component depends on what those before it took, so a rule is a chain of readings: ``start`` gives the
first one, ``host`` one component's part and the reading for the next component of ``order``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from runtime.hosting import (
    HostedLayer,
    HostMemory,
    HostTier,
    PinBudget,
    StackHosting,
    build_stack_hosting,
    host_stack,
    spendable_pin_bytes,
)
from runtime.model_spec import ComponentSpec, ModelSpec, RequestSpec, StackSpec
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComponentHosting:
    """Where one component waits. A rule gives equal answers as one object, so that they can be compared by identity.

    Attributes:
        stacks: one per stack, in the component's order; none unless it streams.
        whole_bytes: pinned memory of a component that is moved whole.
        table_bytes: vocabulary tables that are looked up on the host and are no views of the file.
    """

    stacks: tuple[StackHosting, ...] = ()
    whole_bytes: int = 0
    table_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """Host memory that cannot be dropped."""
        return self.whole_bytes + self.table_bytes + sum(stack.held_bytes for stack in self.stacks)

    @property
    def streamed_mapped_bytes(self) -> int:
        """What is read from the checkpoint file on every pass."""
        return sum(stack.streamed_mapped_bytes for stack in self.stacks)

    def count(self, tier: HostTier) -> int:
        """Layers that wait in ``tier``."""
        return sum(stack.count(tier) for stack in self.stacks)

    @property
    def is_pinned(self) -> bool:
        """Whether every host copy is pinned."""
        return all(tier is None or tier is HostTier.PINNED for stack in self.stacks for tier in stack.tiers)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHosting:
    """Where every component waits, in the model's order.

    Attributes:
        components: one per component.
        budgets: what could be pinned and committed when each was hosted.
        memory: the host.
    """

    components: tuple[ComponentHosting, ...]
    budgets: tuple[PinBudget, ...]
    memory: HostMemory

    @property
    def held_bytes(self) -> int:
        """Host memory of all components that cannot be dropped."""
        return sum(component.held_bytes for component in self.components)

    @property
    def short_bytes(self) -> int:
        """What the host lacks for it; 0 when it has enough.

        Courier slots are left out: the server does not count them either, and runs on hosts that are full without them
        are public (PM131 of the public measurements).
        """
        return max(0, self.held_bytes - self.courier_bytes - self.memory.available_bytes)

    @property
    def cache_bytes(self) -> int:
        """What the page cache can keep of mapped weights: as given, or what the plan leaves free."""
        room = self.memory.page_cache_room_bytes
        return max(0, self.memory.available_bytes - self.held_bytes) if room is None else room

    @property
    def courier_bytes(self) -> int:
        """Pinned slots of all couriers."""
        return sum(stack.courier_bytes for component in self.components for stack in component.stacks)


class HostRule(Protocol):
    """How an engine places the host copies of one model on one host."""

    memory: HostMemory
    order: tuple[int, ...]

    def start(self, on_host: Sequence[bool]) -> PinBudget:
        """The reading before the first component; ``on_host`` says which components are not resident."""
        ...

    def host(self, component: int, placement: Placement, reading: PinBudget) -> tuple[ComponentHosting, PinBudget]:
        """One component's host copies, and what is left for the next one."""
        ...


def host_plan(rule: HostRule, model: ModelSpec, plan: Plan) -> PlanHosting:
    """Follow ``rule`` through ``plan``."""
    placements = [plan.placement(component.name) for component in model.components]
    reading = rule.start([placement.mode is not Mode.RESIDENT for placement in placements])
    found: dict[int, ComponentHosting] = {}
    budgets: dict[int, PinBudget] = {}
    for component in rule.order:
        budgets[component] = reading
        found[component], reading = rule.host(component, placements[component], reading)
    indices = range(len(placements))
    return PlanHosting(
        components=tuple(found[index] for index in indices),
        budgets=tuple(budgets[index] for index in indices),
        memory=rule.memory,
    )


def always_pins(rule: HostRule, model: ModelSpec) -> bool:
    """Whether every layer is pinned under any plan, so that hosting makes no difference."""
    everything = sum(component.stack_run_bytes for component in model.components)
    return rule.memory.pins and rule.start([True] * len(model.components)).spendable_bytes >= everything


def never_runs_short(rule: HostRule, model: ModelSpec) -> bool:
    """Whether the host has memory for the copies of any plan."""
    most = (
        max(component.stack_run_bytes + component.host_table_bytes, whole_bytes(component))
        for component in model.components
    )
    return sum(most) <= rule.memory.available_bytes


class _CachedRule:
    """Remembers what ``_host_once`` answered; the prefetch size makes no difference to where copies wait."""

    def __init__(self, model: ModelSpec, stays_mapped: Callable[[ComponentSpec], bool]) -> None:
        self._known: dict[object, ComponentHosting] = {}
        self._answer = lru_cache(maxsize=65536)(self._ask)
        self._hosted = {
            (index, stack.name): list_hosted(stack, mapped=stays_mapped(component))
            for index, component in enumerate(model.components)
            for stack in component.stacks
        }

    def host(self, component: int, placement: Placement, reading: PinBudget) -> tuple[ComponentHosting, PinBudget]:
        """One component's host copies, and what is left for the next one."""
        return self._answer(
            component, placement.mode, placement.resident, placement.policy, placement.lifetime, reading
        )

    def _ask(
        self,
        component: int,
        mode: Mode,
        resident: int,
        policy: Policy,
        lifetime: Lifetime,
        reading: PinBudget,
    ) -> tuple[ComponentHosting, PinBudget]:
        placement = Placement(component="", mode=mode, resident=resident, policy=policy, lifetime=lifetime)
        hosting, left = self._host_once(component, placement, reading)
        stacks = tuple((stack.tiers, stack.streamed_mapped_bytes) for stack in hosting.stacks)
        key = (component, stacks, hosting.whole_bytes, hosting.table_bytes)
        return self._known.setdefault(key, hosting), left

    def _layers_on_host(self, component: int, stack: str, placement: Placement) -> list[HostedLayer | None]:
        """The layers of one stack that need a host copy; None for permanent residents."""
        found: list[HostedLayer | None] = list(self._hosted[component, stack])
        for index in placement.permanent_layers(len(found)):
            found[index] = None
        return found

    def _host_once(
        self, component: int, placement: Placement, reading: PinBudget
    ) -> tuple[ComponentHosting, PinBudget]:
        raise NotImplementedError


class ServerHostRule(_CachedRule):
    """SGLang-diffusion 0.5.23: components by bytes times expected runs, stacks by bytes, then ``host_stack``.

    The server reads the available memory once weights are loaded. A component that starts on the host holds what the
    loader made itself; where copies of the whole deployment fit, every component but a DiT is copied from the file.
    (The text encoders' loader asks about its own folder only, and each loader asks when it loads. Asked once about the
    whole deployment, as here and as the function says of itself, the DiT of MiniMax-H3 is pinned from 96 GB on, which
    is what is measured: PM141.)
    Source: ``configure_layerwise_offload_modules``, ``keep_checkpoint_mapped`` and the component loaders.
    """

    def __init__(self, model: ModelSpec, memory: HostMemory) -> None:
        self.memory = memory
        self._model = model
        released = sum(component.checkpoint_bytes + component.unread_checkpoint_bytes for component in model.components)
        unread = PinBudget(spendable_bytes=0, available_bytes=memory.available_bytes)
        self._keeps_mapped = unread.would_not_fit(released)
        super().__init__(model, self._stays_mapped)
        steps = model.deployment.default_steps if model.deployment is not None else 1
        benefits = [component.run_bytes * (steps if component.is_dit else 1) for component in model.components]
        self.order = tuple(sorted(range(len(benefits)), key=lambda index: -benefits[index]))
        self._loaded = tuple(map(self._loaded_bytes, model.components))

    def start(self, on_host: Sequence[bool]) -> PinBudget:
        """The reading once every component is loaded."""
        loaded = sum(size for size, waits in zip(self._loaded, on_host, strict=True) if waits)
        available = max(0, self.memory.available_bytes - loaded)
        return PinBudget(spendable_bytes=spendable_pin_bytes(available), available_bytes=available)

    def _host_once(
        self, component: int, placement: Placement, reading: PinBudget
    ) -> tuple[ComponentHosting, PinBudget]:
        spec = self._model.components[component]
        if placement.mode is not Mode.LAYERWISE_OFFLOAD:
            return host_whole(spec, placement), reading
        found: dict[str, StackHosting] = {}
        for stack in sorted(spec.stacks, key=lambda stack: -stack.run_bytes):
            layers = self._layers_on_host(component, stack.name, placement)
            streamed = placement.streamed_layers(len(layers))
            found[stack.name], reading = host_stack(layers, streamed, reading, pins=self.memory.pins)
        tables = 0 if self._stays_mapped(spec) else spec.host_table_bytes
        return ComponentHosting(stacks=tuple(found[stack.name] for stack in spec.stacks), table_bytes=tables), reading

    def _stays_mapped(self, spec: ComponentSpec) -> bool:
        return spec.is_dit or self._keeps_mapped

    def _loaded_bytes(self, spec: ComponentSpec) -> int:
        """Memory that cannot be dropped once ``spec`` is loaded to the host."""
        if not self._stays_mapped(spec):
            return spec.run_bytes
        return spec.transformed_bytes


class TopupHostRule(_CachedRule):
    """Our own executor: pins where they save most copy time per byte, and nothing after the first that does not fit.

    Components by how often a request copies their layers, stacks within a component likewise. Residents are copied once
    per use: they are pinned only where everything can be. A larger budget therefore pins a superset. What is not pinned
    stays mapped.
    """

    def __init__(self, model: ModelSpec, request: RequestSpec, memory: HostMemory) -> None:
        super().__init__(model, lambda _: True)
        self.memory = memory
        self._model = model
        self._copies: dict[tuple[str, str], int] = {}
        for use in request.uses:
            for group in use.groups:
                for stack in group.stacks:
                    key = (use.component, stack)
                    self._copies[key] = self._copies.get(key, 0) + group.passes
        most = [
            max((self._copies.get((component.name, stack.name), 0) for stack in component.stacks), default=0)
            for component in model.components
        ]
        self.order = tuple(sorted(range(len(most)), key=lambda index: -most[index]))
        self._pins_all = always_pins(self, model)

    def start(self, on_host: Sequence[bool]) -> PinBudget:
        """All that is available: the executor maps the file and makes nothing at load but transformed weights."""
        components = zip(self._model.components, on_host, strict=True)
        loaded = sum(spec.transformed_bytes for spec, waits in components if waits)
        available = max(0, self.memory.available_bytes - loaded)
        spendable = spendable_pin_bytes(available) if self.memory.pins else 0
        return PinBudget(spendable_bytes=spendable, available_bytes=available)

    def _host_once(
        self, component: int, placement: Placement, reading: PinBudget
    ) -> tuple[ComponentHosting, PinBudget]:
        spec = self._model.components[component]
        if placement.mode is not Mode.LAYERWISE_OFFLOAD:
            return host_whole(spec, placement), reading
        found: dict[str, StackHosting] = {}
        spendable = reading.spendable_bytes
        for stack in sorted(spec.stacks, key=lambda stack: -self._copies.get((spec.name, stack.name), 0)):
            layers = self._layers_on_host(component, stack.name, placement)
            tiers: list[HostTier | None] = [
                None if layer is None else HostTier.MAPPED if layer.view_bytes else HostTier.PAGEABLE
                for layer in layers
            ]
            for index in range(len(layers)) if self._pins_all else placement.streamed_layers(len(layers)):
                layer = layers[index]
                if layer is None:
                    continue
                if layer.run_bytes > spendable:
                    spendable = 0
                    break
                spendable -= layer.run_bytes
                tiers[index] = HostTier.PINNED
            found[stack.name] = build_stack_hosting(layers, tiers, placement.streamed_layers(len(layers)))
        hosting = ComponentHosting(stacks=tuple(found[stack.name] for stack in spec.stacks))
        left = max(0, reading.available_bytes - hosting.held_bytes)
        return hosting, PinBudget(spendable_bytes=spendable, available_bytes=left)


def host_whole(spec: ComponentSpec, placement: Placement) -> ComponentHosting:
    """A component that does not stream: nothing on the host when resident, else all of it, pinned by the move back."""
    if placement.mode is Mode.RESIDENT:
        return ComponentHosting()
    return ComponentHosting(whole_bytes=whole_bytes(spec))


def held_when_pinned(spec: ComponentSpec, placement: Placement) -> int:
    """Host memory of a component of which every layer that needs a host copy is pinned."""
    if placement.mode is not Mode.LAYERWISE_OFFLOAD:
        return host_whole(spec, placement).held_bytes
    gone = sum(
        stack.layers[layer].run_bytes
        for stack in spec.stacks
        for layer in placement.permanent_layers(len(stack.layers))
    )
    return spec.stack_run_bytes + spec.host_table_bytes - gone


def whole_bytes(spec: ComponentSpec) -> int:
    """Pinned memory of ``spec`` once it has been moved back from the device whole."""
    return max(spec.offload_host_bytes, spec.run_bytes)


def list_hosted(stack: StackSpec, *, mapped: bool) -> tuple[HostedLayer, ...]:
    """The layers of ``stack`` on the host; ``mapped`` says whether they are views of the file once loaded."""
    return tuple(
        HostedLayer(run_bytes=layer.run_bytes, view_bytes=layer.view_bytes if mapped else 0) for layer in stack.layers
    )
