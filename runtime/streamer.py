"""Follows the passes of one stack: performs the engine's actions as the layers are called, whatever their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from runtime.device_stack import DeviceStack
from runtime.engines.component_life import ComponentLife
from runtime.engines.protocol import StackSchedule
from runtime.engines.recorded_order import RecordedOrderStack
from runtime.errors import SessionError
from runtime.execution_context import ExecutionContext
from runtime.layer_image import LayerImage
from runtime.module_binding import BoundStack
from runtime.program import Action, Op, StackRef

_RUN, _RELEASE, _H2D_BLOCKING = int(Op.RUN), int(Op.RELEASE), int(Op.H2D_BLOCKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackResidency:
    """What of a stack may be on the device.

    Attributes:
        layers: those that stay.
        is_permanent: whether they stay between uses, too.
        window_bytes: most bytes of the others at one time.
    """

    layers: frozenset[int]
    is_permanent: bool
    window_bytes: int


class PassListener(Protocol):
    """What a stack tells its component.

    Attributes:
        name: of the component.
        in_use: whether the component is in use.
    """

    name: str
    in_use: bool

    def before_layer(self) -> None:
        """A layer is about to run: the component's use begins, if it has not."""
        ...

    def begin_pass(self, stack: str) -> None:
        """A traversal of ``stack`` begins."""
        ...

    def is_last_pass(self, stack: str) -> bool:
        """Whether the traversal of ``stack`` that has begun is the last one of the use, and the engine cares."""
        ...

    def end_pass(self, stack: str) -> None:
        """It has ended."""
        ...


class Streamer:
    """One stack of a streamed component.

    The engine's schedule says what the host does in a pass over the layers in their natural order. Layers that are left
    out are stepped over. A layer that comes out of order is loaded when it is called, and counted as a miss; from the
    next pass on the stream follows the order that was seen.

    Attributes:
        stack: the layers on the device.
        misses: layers that had to be loaded because they came out of order.
    """

    def __init__(
        self,
        bound: BoundStack,
        images: Sequence[LayerImage],
        ref: StackRef,
        life: ComponentLife,
        *,
        residency: StackResidency,
        listener: PassListener,
        context: ExecutionContext,
    ) -> None:
        self.stack = DeviceStack(
            bound.layers, images, ref, component=listener.name, on_access=self.fetch, context=context
        )
        self.misses = 0
        self._first_slot, self._name = ref.first_slot, ref.name
        self._life, self._residency, self._listener, self._context = life, residency, listener, context
        self._own_schedule = life.schedules[ref.name]
        self._layer_bytes = [image.size_bytes for image in images]
        self._natural = tuple(range(len(images)))
        self._running: int | None = None
        # The pass that is open, or was last.
        self._is_open = False
        self._owner_depth = 0
        self._actions: list[Action] = []
        self._at = 0
        self._order: tuple[int, ...] = self._natural
        self._next = 0
        self._is_off = False
        self._visited: list[int] = []
        self._last_visited: tuple[int, ...] = ()

    # Calls.

    def enter_owner(self) -> None:
        """The module that holds the layers is called: what comes is one traversal, or several whole ones."""
        self._owner_depth += 1

    def leave_owner(self) -> None:
        """Its call is over, and so is a traversal that is still open."""
        self._owner_depth = max(0, self._owner_depth - 1)
        if self._is_open and self._running is None:
            self._finish_pass()

    def enter(self, layer: int, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """``layer`` is about to be called: perform what precedes it and let it compute on the device.

        Raises:
            SessionError: the layer is being called already, or gradients are recorded.
            DeviceError: a copy failed, or memory ran out.
        """
        labels, context = self.stack.labels, self._context
        if self._running is not None:
            raise SessionError(
                f"{labels[layer]} is called while {labels[self._running]} runs: a stack streams one layer at a time"
            )
        if torch.is_grad_enabled() and (self.stack.records_gradients(layer) or _record_gradients(args, kwargs)):
            raise SessionError(
                f"{labels[layer]} is called with gradients on: streamed weights are for inference; call under "
                "torch.no_grad() or torch.inference_mode()"
            )
        self._listener.before_layer()
        self._advance_to(layer)
        before, ready = self.stack.make_ready(layer)
        self._running = layer
        context.log((_RUN, self._first_slot + layer))
        context.telemetry.run_begins(labels[layer], before, ready)
        context.device.begin_run(labels[layer])

    def leave(self, layer: int, result: object) -> object:
        """The call has returned: release what is not needed any more; returns what the caller gets.

        A result that is a view of the layer's weights is copied, for these are about to be given back.
        """
        result = self.stack.separate(layer, result)
        device = self._context.device
        device.end_run(self.stack.labels[layer])
        self._context.telemetry.run_ended(device.mark())
        self._running = None
        if self._is_off:
            self._release_streamed(layer)
            return result
        actions = self._actions
        while self._at < len(actions) and actions[self._at][0] == _RELEASE:
            self.stack.perform(actions[self._at])
            self._at += 1
        # Inside the owner's call more may come; where nobody tells, the pass is over with its last layer.
        if not self._owner_depth and self._is_complete:
            self._finish_pass()
        return result

    def fail(self, layer: int) -> None:
        """The call raised: the layer is released, the rest of the pass is loaded as it is called."""
        self._running = None
        if self._is_open:
            self._leave_order()
        self._release_streamed(layer)

    def fetch(self, layer: int) -> None:
        """The layer's weights are read outside of its own call."""
        if not self._listener.in_use or self._running == layer:
            return
        if layer not in self.stack.live:
            self._leave_order()
            self._load_off_order(layer)
            self._schedule.live = set(self.stack.live)
        self.stack.make_ready(layer)

    def abort(self) -> None:
        """After a failure: no pass is open, and only permanent residents are live."""
        self._is_open = False
        self._running = None
        self._owner_depth = 0
        for layer in list(self.stack.live):
            if not (self._residency.is_permanent and layer in self._residency.layers):
                self.stack.perform((_RELEASE, self._first_slot + layer))
        self._schedule.live = set(self.stack.live)
        self.stack.forget_copies()

    # One pass.

    @property
    def _schedule(self) -> StackSchedule:
        """What the next pass, and the beginning of the next use, follow."""
        return self._life.schedules[self._name]

    def _advance_to(self, layer: int) -> None:
        """Perform everything up to the run of ``layer``, which is then live."""
        if self._is_open and self._starts_again(layer):
            self._finish_pass()
        if not self._is_open:
            self._begin_pass()
        self._visited.append(layer)
        position = self._find_position(layer)
        if position is None:
            self._leave_order()
            self._load_off_order(layer)
            return
        skipped = {self._first_slot + other for other in self._order[self._next : position]}
        runs_left = position - self._next
        while True:
            action = self._actions[self._at]
            self._at += 1
            if action[0] != _RUN:
                # A layer that is stepped over is not loaded for its own sake.
                if action[0] != _H2D_BLOCKING or action[1] not in skipped:
                    self.stack.perform(action)
            elif runs_left == 0:
                break
            else:
                runs_left -= 1
        self._next = position + 1
        if layer not in self.stack.live:  # a resident that was stepped over when the others were loaded
            self.stack.perform((_H2D_BLOCKING, self._first_slot + layer))

    @property
    def _is_complete(self) -> bool:
        return not self._is_off and len(self._visited) == len(self._order) == self._next

    def _starts_again(self, layer: int) -> bool:
        """Whether ``layer`` begins another traversal although the last one is open."""
        if self._owner_depth:
            return self._is_complete and layer == self._order[0]
        return bool(self._visited) and layer == self._visited[0]

    def _find_position(self, layer: int) -> int | None:
        """Where ``layer`` comes in what is left of the expected order; None when it does not."""
        if self._is_off:
            return None
        order = self._order
        if self._next < len(order) and order[self._next] == layer:
            return self._next
        return next((at for at in range(self._next, len(order)) if order[at] == layer), None)

    def _begin_pass(self) -> None:
        self._listener.begin_pass(self._name)
        blocks = self._schedule.run_pass(last=self._listener.is_last_pass(self._name))
        self._actions = [action for block in blocks for action in block.actions]
        self._at = self._next = 0
        self._visited = []
        self._is_open, self._is_off = True, False

    def _finish_pass(self) -> None:
        if self._is_off or self._next < len(self._order):
            self._schedule.live = set(self.stack.live)
        self._is_open = False
        visited = tuple(self._visited)
        if visited != self._order and (self._is_off or visited == self._last_visited):
            self._follow(visited)
        self._last_visited = visited
        self._listener.end_pass(self._name)

    def _follow(self, order: tuple[int, ...]) -> None:
        """Let the next pass stream in ``order``."""
        self._order = order
        live = set(self.stack.live)
        if order == self._natural:
            self._own_schedule.live = live
            self._life.schedules[self._name] = self._own_schedule
            return
        self._life.schedules[self._name] = RecordedOrderStack(
            order,
            residents=self._residency.layers,
            permanent=self._residency.is_permanent,
            layer_bytes=self._layer_bytes,
            window_bytes=self._residency.window_bytes,
            first_slot=self._first_slot,
            live=live,
        )

    def _leave_order(self) -> None:
        """The pass does not follow the expected order any more: what is live is the truth."""
        self._is_off = True
        self._schedule.live = set(self.stack.live)

    def _load_off_order(self, layer: int) -> None:
        """Load ``layer`` now; the window is given up for it, so that the plan's peak holds."""
        if layer in self.stack.live:
            return
        for other in list(self.stack.live):
            if other != self._running:
                self._release_streamed(other)
        self.misses += 1
        self.stack.perform((_H2D_BLOCKING, self._first_slot + layer))

    def _release_streamed(self, layer: int) -> None:
        if layer in self.stack.live and layer not in self._residency.layers:
            self.stack.perform((_RELEASE, self._first_slot + layer))
        self._schedule.live = set(self.stack.live)


def _record_gradients(args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    return any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in (*args, *kwargs.values()))
