"""Runs one component of a plan: what is on the device, when its uses begin and end, and what its calls set off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from torch import nn

from runtime.call_gate import CallGate, UseDirector, wrap_first, wrap_last, wrap_table
from runtime.devices.protocol import Label, MemoryKind
from runtime.engines.component_life import ComponentLife
from runtime.engines.host_rules import ComponentHosting
from runtime.engines.lifecycle import Lifecycle
from runtime.errors import PinError
from runtime.execution_context import ExecutionContext
from runtime.fixed_weights import FixedWeights, MovedComponent, image_buffers, image_each
from runtime.forward_wrap import ForwardWrap
from runtime.hosting import COURIER_SLOTS, HostTier
from runtime.layer_guard import LayerGuard
from runtime.layer_image import LayerImage
from runtime.model_spec import PassGroup
from runtime.module_binding import BoundComponent, BoundStack
from runtime.module_layers import OWN_MARK
from runtime.plan import Placement
from runtime.program import Action, Op, StackRef
from runtime.residency import Lifetime, Mode, resident_layers
from runtime.stack_peak import peak_streamed_bytes
from runtime.streamer import StackResidency, Streamer

# Methods by which pipelines call a component.
_ENTRIES = ("forward", "decode", "encode")

_STACK_OPS = frozenset({Op.H2D, Op.H2D_BLOCKING, Op.RELEASE, Op.PLACE, Op.DRAIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all components of a session share."""

    context: ExecutionContext
    lifecycle: Lifecycle
    director: UseDirector[ComponentRunner]


class ComponentRunner:
    """One attached component.

    Attributes:
        index, name: of the component in its model.
        bound: its module.
        life: the host-side state that its engine keeps.
        placement: how it is kept.
        position: which use of the request it is in; None outside of uses, and in one that the request does not name.
        in_use: whether a use of it is open.
        streamers: of its stacks, when it streams.
    """

    def __init__(
        self, index: int, bound: BoundComponent, placement: Placement, hosting: ComponentHosting, around: Surroundings
    ) -> None:
        self.index, self.name, self.placement = index, bound.spec.name, placement
        self.life: ComponentLife = around.lifecycle.make_life(index, placement)
        self._gate = CallGate(self, around.director, around.context)
        self.position: int | None = None
        self.in_use = False
        self.streamers: dict[str, Streamer] = {}
        self.bound, self._hosting, self._around = bound, hosting, around
        self._hosted: dict[int, list[LayerImage]] = {}
        self._fixed: list[FixedWeights] = []
        self._moved: MovedComponent | None = None
        self._guard: LayerGuard | None = None
        self._wraps: list[ForwardWrap] = []
        self._done: list[int] = []
        self._groups: dict[str, int] = {}

    @property
    def depth(self) -> int:
        """Calls of the component that are open."""
        return self._gate.depth

    # Attach and detach.

    def attach(self) -> None:
        """Bring the component to the state after load; what fails half-way is undone by ``detach``.

        Raises:
            DeviceMemoryError: it does not fit.
        """
        bound = self.bound
        _ = bound.aliases  # known only while nothing has moved
        bound.module.__dict__[OWN_MARK] = True
        self._fix(image_buffers(bound.module, self.name), MemoryKind.BUFFERS)
        if self.placement.mode is Mode.LAYERWISE_OFFLOAD:
            self._attach_streamed()
            return
        images = [LayerImage(weights) for stack in bound.stacks for weights in stack.weights]
        images += image_each(bound.rest)
        if self.placement.mode is Mode.RESIDENT:
            self._fix(images, MemoryKind.WEIGHTS)
            self._wraps += [ForwardWrap(part, self._gate.wrap_part) for part in _called_children(bound.module)]
        else:
            self._moved = MovedComponent(Label(self.name), images, self._around.context)
            self._moved.host()
            self._guard = LayerGuard(bound.module, self.before_layer)
            self._guard.close()
        self._wrap_entries()
        for stack in bound.stacks:
            self._wraps.append(ForwardWrap(stack.layers[0], partial(wrap_first, self, stack.spec.name)))
            self._wraps.append(ForwardWrap(stack.layers[-1], partial(wrap_last, self, stack.spec.name)))

    def _attach_streamed(self) -> None:
        bound = self.bound
        # Largest first: a module that lies on the device is emptied before anything else takes room there.
        for index in sorted(range(len(bound.stacks)), key=lambda index: -bound.stacks[index].spec.run_bytes):
            self._hosted[index] = [LayerImage(weights) for weights in bound.stacks[index].weights]
            self._host_stack(bound.stacks[index], self._hosted[index], self._hosting.stacks[index].tiers)
        self._fix(image_each(bound.rest), MemoryKind.WEIGHTS)
        for index, stack in enumerate(bound.stacks):
            images = self._hosted[index]
            with self._around.context.shield.held():
                self.streamers[stack.spec.name] = self._build_streamer(stack, images)
                del self._hosted[index]
            self._open_courier(self.streamers[stack.spec.name], images)
        self.perform(self.life.load())
        for stack in bound.stacks:
            streamer = self.streamers[stack.spec.name]
            for layer, module in enumerate(stack.layers):
                self._wraps.append(ForwardWrap(module, partial(self._gate.wrap_layer, streamer, layer)))
            if stack.owner is not bound.module:
                self._wraps.append(ForwardWrap(stack.owner, partial(self._gate.wrap_owner, [streamer])))
        self._wrap_entries()
        device = self._around.context.device.torch_device
        self._wraps += [ForwardWrap(table, partial(wrap_table, device)) for table in bound.tables]

    def _wrap_entries(self) -> None:
        """See calls of the component itself, by any of the names that it is called by."""
        module = self.bound.module
        owned = [stack.spec.name for stack in self.bound.stacks if stack.owner is module]
        own = [self.streamers[name] for name in owned if name in self.streamers]
        for method in _ENTRIES:
            if callable(getattr(module, method, None)):
                self._wraps.append(ForwardWrap(module, partial(self._gate.wrap_owner, own), method))

    def _host_stack(self, stack: BoundStack, images: list[LayerImage], tiers: Sequence[HostTier | None]) -> None:
        context = self._around.context
        for layer, (image, tier) in enumerate(zip(images, tiers, strict=True)):
            with context.shield.held():
                # A permanent resident is placed straight from where it lies.
                context.store.host(image, tier or HostTier.MAPPED, Label(self.name, stack.spec.name, layer))

    def _build_streamer(self, stack: BoundStack, images: list[LayerImage]) -> Streamer:
        around, count = self._around, len(images)
        name = stack.spec.name
        ref = next(ref for ref in around.lifecycle.stacks if ref.component == self.index and ref.name == name)
        return Streamer(
            stack,
            images,
            ref,
            self.life,
            residency=StackResidency(
                layers=frozenset(resident_layers(count, self.placement.resident, self.placement.policy)),
                is_permanent=self.placement.lifetime is Lifetime.PERMANENT,
                window_bytes=self._window_bytes(ref, images),
            ),
            listener=self,
            context=around.context,
        )

    def _open_courier(self, streamer: Streamer, images: Sequence[LayerImage]) -> None:
        context, permanent = self._around.context, self.placement.permanent_layers(len(images))
        slot_bytes = max(
            (
                image.size_bytes
                for layer, image in enumerate(images)
                if image.tier is HostTier.MAPPED and layer not in permanent
            ),
            default=0,
        )
        if not slot_bytes:
            return
        try:
            with context.shield.held():
                streamer.stack.courier = context.device.open_courier(slot_bytes)
            context.store.courier_bytes += COURIER_SLOTS * slot_bytes
        except PinError as error:  # layers are then copied as pageable ones
            context.store.ledger.refused.append((f"{streamer.stack.label}: courier", str(error)))

    def _window_bytes(self, ref: StackRef, images: Sequence[LayerImage]) -> int:
        fresh = self._around.lifecycle.make_life(self.index, self.placement).schedules[ref.name]
        residents = resident_layers(len(images), self.placement.resident, self.placement.policy)
        sizes = [0 if layer in residents else image.size_bytes for layer, image in enumerate(images)]
        return peak_streamed_bytes(fresh, sizes, ref.first_slot)

    def _fix(self, images: list[LayerImage], kind: MemoryKind) -> None:
        fixed = FixedWeights(Label(self.name), images, self._around.context, kind)
        self._fixed.append(fixed)
        fixed.place()

    def detach(self) -> None:
        """Leave the module as it was found, whatever state the component is in; one failure stops nothing."""
        with ExitStack() as steps:
            steps.callback(self.bound.module.__dict__.pop, OWN_MARK, None)
            steps.callback(self._join_aliases)
            for fixed in self._fixed:
                steps.callback(fixed.restore)
            if self._moved is not None:
                steps.callback(self._moved.restore)
            for image in (image for images in self._hosted.values() for image in images):
                steps.callback(image.restore, lambda _host, _device: None, None)  # attaching did not get far
            for streamer in self.streamers.values():
                steps.callback(streamer.stack.close)
            if self._guard is not None:
                steps.callback(self._guard.open)
            for wrap in self._wraps:
                steps.callback(wrap.remove)
        self._wraps, self._fixed, self._moved, self._guard = [], [], None, None
        self._hosted, self.streamers = {}, {}

    def _join_aliases(self) -> None:
        """Parameters that were one memory are one again."""
        for first, *others in self.bound.aliases:
            for other in others:
                other.show(first.current())

    # The life of a use.

    def perform(self, actions: Iterable[Action]) -> None:
        """Perform actions of this component, in order."""
        for action in actions:
            with self._around.context.shield.held():
                self._perform(action)

    def _perform(self, action: Action) -> None:
        op, argument = action
        if op in _STACK_OPS:
            self._streamer_of(op, argument).stack.perform(action)
            return
        self._around.context.log(action)
        if op == Op.UP and self._moved is not None and self._guard is not None:
            self._moved.up()
            self._guard.open()
        elif op == Op.DOWN and self._moved is not None and self._guard is not None:
            self._guard.close()
            self._moved.down()
        elif op == Op.END_USE:
            for streamer in self.streamers.values():
                streamer.stack.wait_for_copies()
            self._around.context.device.catch_up()

    def start_use(self, position: int | None) -> None:
        """The use at ``position`` of the request has begun."""
        self.position, self.in_use = position, True
        self._done = [0] * len(self._groups_of_use())
        self._groups = {}

    def stop_use(self) -> None:
        """The use is over."""
        self.position, self.in_use = None, False

    def is_complete(self) -> bool:
        """Whether the use has made all the passes that the request has for it."""
        groups = self._groups_of_use()
        return bool(groups) and all(
            done >= group.passes for done, group in zip(self._done, groups, strict=True) if group.stacks
        )

    def abort(self) -> None:
        """After a failure: back to what is on the device between requests."""
        self.stop_use()
        for streamer in self.streamers.values():
            streamer.abort()
        if self._moved is not None and self._guard is not None:
            self._guard.close()
            self._moved.drop()
            self.life.on_device = False

    # What the stacks tell.

    def before_layer(self) -> None:
        """A layer is about to run."""
        self._around.director.enter(self)

    def begin_pass(self, stack: str) -> None:
        """A traversal of ``stack`` begins: perhaps a pass of one of the use's groups."""
        group = self._find_group(stack)
        self._groups[stack] = group
        groups = self._groups_of_use()
        if group >= 0 and groups[group].stacks[0] == stack:
            self._work(group)
            self._around.context.telemetry.begin_pass(groups[group].stacks, group)
        elif group < 0:
            self._around.context.telemetry.begin_pass((stack,), -1)

    def is_last_pass(self, stack: str) -> bool:
        """Whether the traversal of ``stack`` that has begun is the last one of the use, and the engine cares."""
        group = self._groups.get(stack, -1)
        if group < 0 or self.position is None or self._done[group] != self._groups_of_use()[group].passes - 1:
            return False
        return self._around.lifecycle.has_last_pass(self.position, group)

    def end_pass(self, stack: str) -> None:
        """It has ended."""
        group, groups = self._groups.pop(stack, -1), self._groups_of_use()
        if group >= 0 and groups[group].stacks[-1] == stack:
            self._done[group] += 1
        self._around.context.telemetry.end_pass()

    def _work(self, group: int) -> None:
        assert self.position is not None
        for action in self._around.lifecycle.outside(self.position, group).actions:
            self._around.context.log(action)
            self._around.context.device.work(action[1])

    def _find_group(self, stack: str) -> int:
        """The group that a traversal of ``stack`` belongs to: the first that has passes left, else the last."""
        with_stack = [index for index, group in enumerate(self._groups_of_use()) if stack in group.stacks]
        left = [index for index in with_stack if self._done[index] < self._groups_of_use()[index].passes]
        return (left or with_stack[-1:] or [-1])[0]

    def _groups_of_use(self) -> Sequence[PassGroup]:
        uses = self._around.lifecycle.request.uses
        return uses[self.position].groups if self.position is not None else ()

    def _streamer_of(self, op: int, argument: int) -> Streamer:
        if op == Op.DRAIN:
            return self.streamers[self._around.lifecycle.stacks[argument].name]
        return next(
            streamer
            for streamer in self.streamers.values()
            if 0 <= argument - streamer.stack.ref.first_slot < streamer.stack.ref.layer_count
        )


def _called_children(module: nn.Module) -> list[nn.Module]:
    """The modules below ``module`` that it calls itself: lists and containers are looked into."""
    found: list[nn.Module] = []
    for child in module.children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            found += _called_children(child)
        elif any(True for _ in child.parameters()):
            found.append(child)
    return found
