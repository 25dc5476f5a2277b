"""Streams one stack: performs the engine's actions as the layers are called, whatever the order of the calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from runtime.devices.protocol import Courier, Label, QueuedCopy
from runtime.engines.component_life import ComponentLife
from runtime.engines.protocol import StackSchedule
from runtime.engines.recorded_order import RecordedOrderStack
from runtime.errors import SessionError
from runtime.execution_context import ExecutionContext
from runtime.hosting import HostTier
from runtime.layer_guard import LayerGuard
from runtime.layer_image import DeviceBuffers, LayerImage
from runtime.module_binding import BoundStack
from runtime.program import Action, Op, StackRef
from runtime.telemetry import CopyKind

_H2D, _RUN, _RELEASE, _DRAIN = int(Op.H2D), int(Op.RUN), int(Op.RELEASE), int(Op.DRAIN)
_H2D_BLOCKING, _PLACE = int(Op.H2D_BLOCKING), int(Op.PLACE)

_KINDS = {HostTier.PINNED: CopyKind.PINNED, HostTier.PAGEABLE: CopyKind.PAGEABLE, HostTier.MAPPED: CopyKind.MAPPED}


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
    """

    name: str

    @property
    def in_use(self) -> bool:
        """Whether the component is in use."""
        ...

    def before_layer(self) -> None:
        """A layer is about to run: the component's use begins, if it has not."""
        ...

    def begin_pass(self, stack: str) -> None:
        """A traversal of ``stack`` begins."""
        ...

    def end_pass(self, stack: str) -> None:
        """It has ended."""
        ...


class _LiveLayer:
    """One layer on the device."""

    __slots__ = ("buffers", "copy", "is_ready", "is_shown")

    def __init__(self, buffers: DeviceBuffers) -> None:
        self.buffers = buffers
        self.copy: QueuedCopy | None = None
        self.is_ready = False
        self.is_shown = False


class Streamer:
    """One stack of a streamed component.

    The engine's schedule says what the host does in a pass over the layers in their natural order. Layers that are left
    out are stepped over. A layer that comes out of order is loaded when it is called, and counted as a miss; from the
    next pass on the stream follows the order that was seen.

    Attributes:
        live: layers on the device.
        misses: layers that had to be loaded because they came out of order.
        ref: where the stack's layers lie among the slots of the program.
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
        self.ref = ref
        self.live: dict[int, _LiveLayer] = {}
        self.misses = 0
        self.courier: Courier | None = None
        self._images = tuple(images)
        self._labels = [Label(listener.name, ref.name, layer) for layer in range(len(images))]
        self._own_label = Label(listener.name, ref.name)
        self._life = life
        self._own_schedule = life.schedules[ref.name]
        self._residency, self._listener = residency, listener
        self._device, self._store = context.device, context.store
        self._telemetry, self._log = context.telemetry, context.log
        self._last_copy: QueuedCopy | None = None
        self._last_shipped: QueuedCopy | None = None
        self._natural = tuple(range(len(images)))
        self._needs_grad = [any(weight.requires_grad for weight in image.weights) for image in images]
        self._guards = [
            LayerGuard(module, lambda layer=layer: self.fetch(layer))  # type: ignore[misc]
            for layer, module in enumerate(bound.layers)
        ]
        for guard in self._guards:
            guard.close()
        # One pass.
        self._is_open = False
        self._owner_depth = 0
        self._actions: list[Action] = []
        self._at = 0
        self._order: tuple[int, ...] = self._natural
        self._next = 0
        self._is_off = False
        self._visited: list[int] = []
        self._last_visited: tuple[int, ...] = ()
        self._running: int | None = None

    @property
    def _schedule(self) -> StackSchedule:
        """What the next pass, and the beginning of the next use, follow."""
        return self._life.schedules[self.ref.name]

    # Actions.

    def perform(self, action: Action) -> None:
        """Perform one action of this stack; the program's order is the caller's matter."""
        op, argument = action
        self._log(action)
        if op == _H2D:
            self._queue(argument - self.ref.first_slot)
        elif op == _RELEASE:
            self._release(argument - self.ref.first_slot)
        elif op == _H2D_BLOCKING:
            self._load_now(argument - self.ref.first_slot)
        elif op == _DRAIN:
            self._wait_for(self._last_copy)
        elif op == _PLACE:
            self._place(argument - self.ref.first_slot)

    def wait_for_copies(self) -> None:
        """Compute waits for every copy that the stack has queued; what was read is forgotten."""
        self._wait_for(self._last_copy)
        self._wait_for(self._last_shipped)
        if self.courier is not None:
            self.courier.forget_reads()

    def abort(self) -> None:
        """After a failure: no pass is open, and only permanent residents are live."""
        self._is_open = False
        self._running = None
        self._owner_depth = 0
        for layer in list(self.live):
            if not (self._residency.is_permanent and layer in self._residency.layers):
                self._release(layer)
        self._schedule.live = set(self.live)
        self._last_copy = self._last_shipped = None

    def close(self) -> None:
        """Detach: give back device memory, restore every weight and the modules' own dictionaries."""
        for guard in self._guards:
            guard.open()
        if self.courier is not None:
            self.courier.close()
        for layer, image in enumerate(self._images):
            live = self.live.pop(layer, None)
            image.restore(
                lambda host, device, layer=layer: self._read_back(layer, host, device),  # type: ignore[misc]
                live.buffers if live is not None else None,
            )
            if live is not None:
                self._free(live.buffers)

    # Calls.

    def enter_owner(self) -> None:
        """The module that holds the layers is called: what comes is one traversal, or several whole ones."""
        self._owner_depth += 1

    def leave_owner(self) -> None:
        """Its call is over, and so is a traversal that is still open."""
        self._owner_depth = max(0, self._owner_depth - 1)
        if self._is_open and self._running is None:
            self._finish_pass()

    def enter(self, layer: int) -> None:
        """``layer`` is about to be called: perform what precedes it and let it compute on the device.

        Raises:
            SessionError: the layer is being called already, or gradients are recorded.
            DeviceError: a copy failed, or memory ran out.
        """
        if self._running is not None:
            raise SessionError(
                f"{self._labels[layer]} is called while {self._labels[self._running]} runs: a stack streams one layer "
                "at a time"
            )
        if self._needs_grad[layer] and torch.is_grad_enabled():
            raise SessionError(
                f"{self._labels[layer]} is called with gradients on: streamed weights are for inference; call under "
                "torch.no_grad() or torch.inference_mode(), or clear requires_grad before attaching"
            )
        self._listener.before_layer()
        self._advance_to(layer)
        live, device = self.live[layer], self._device
        before = device.mark()
        ready = before
        if not live.is_ready:
            if live.copy is not None:
                device.wait(live.copy)
                ready = device.mark()
            live.is_ready = True
        if not live.is_shown:
            self._show(layer, live)
        self._running = layer
        self._log((_RUN, self.ref.first_slot + layer))
        label = self._labels[layer]
        self._telemetry.run_begins(label, before, ready)
        device.begin_run(label)

    def leave(self, layer: int) -> None:
        """The call has returned: release what is not needed any more."""
        self._device.end_run(self._labels[layer])
        self._telemetry.run_ended(self._device.mark())
        self._running = None
        if self._is_off:
            self._release_streamed(layer)
            return
        actions = self._actions
        while self._at < len(actions) and actions[self._at][0] == _RELEASE:
            self.perform(actions[self._at])
            self._at += 1
        # Inside the owner's call more may come; where nobody tells, the pass is over with its last layer.
        if not self._owner_depth and self._is_complete:
            self._finish_pass()

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
        if layer not in self.live:
            self._leave_order()
            self._load_off_order(layer)
            self._schedule.live = set(self.live)
        live = self.live[layer]
        if not live.is_ready and live.copy is not None:
            self._device.wait(live.copy)
        live.is_ready = True
        if not live.is_shown:
            self._show(layer, live)

    # One pass.

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
        if self._is_off:
            self._load_off_order(layer)
            return
        assert position is not None
        skipped = {self.ref.first_slot + other for other in self._order[self._next : position]}
        runs_left = position - self._next
        while True:
            action = self._actions[self._at]
            self._at += 1
            if action[0] != _RUN:
                # A layer that is stepped over is not loaded for its own sake.
                if action[0] != _H2D_BLOCKING or action[1] not in skipped:
                    self.perform(action)
            elif runs_left == 0:
                break
            else:
                runs_left -= 1
        self._next = position + 1
        if layer not in self.live:  # a resident that was stepped over when the others were loaded
            self.perform((_H2D_BLOCKING, self.ref.first_slot + layer))

    @property
    def _is_complete(self) -> bool:
        return not self._is_off and len(self._visited) == len(self._order) == self._next

    def _starts_again(self, layer: int) -> bool:
        """Whether ``layer`` begins another traversal although the last one is open."""
        if self._owner_depth:
            return self._is_complete and layer == self._order[0]
        return bool(self._visited) and layer == self._visited[0]

    def _find_position(self, layer: int) -> int | None:
        if self._is_off:
            return None
        order = self._order
        if self._next < len(order) and order[self._next] == layer:
            return self._next
        return next((at for at in range(self._next, len(order)) if order[at] == layer), None)

    def _begin_pass(self) -> None:
        self._listener.begin_pass(self.ref.name)
        self._actions = [action for block in self._schedule.run_pass() for action in block.actions]
        self._at = self._next = 0
        self._visited = []
        self._is_open, self._is_off = True, False

    def _finish_pass(self) -> None:
        complete = not self._is_off and self._next == len(self._order)
        if not complete:
            self._schedule.live = set(self.live)
        self._is_open = False
        visited = tuple(self._visited)
        if visited != self._order and (self._is_off or visited == self._last_visited):
            self._follow(visited)
        self._last_visited = visited
        self._listener.end_pass(self.ref.name)

    def _follow(self, order: tuple[int, ...]) -> None:
        """Let the next pass stream in ``order``."""
        self._order = order
        live = set(self.live)
        if order == self._natural:
            self._own_schedule.live = live
            self._life.schedules[self.ref.name] = self._own_schedule
            return
        self._life.schedules[self.ref.name] = RecordedOrderStack(
            order,
            residents=self._residency.layers,
            permanent=self._residency.is_permanent,
            layer_bytes=[image.size_bytes for image in self._images],
            window_bytes=self._residency.window_bytes,
            first_slot=self.ref.first_slot,
            live=live,
        )

    def _leave_order(self) -> None:
        """The pass does not follow the expected order any more: what is live is the truth."""
        self._is_off = True
        self._schedule.live = set(self.live)

    def _load_off_order(self, layer: int) -> None:
        """Load ``layer`` now; the window is given up for it, so that the plan's peak holds."""
        if layer in self.live:
            return
        for other in list(self.live):
            if other != self._running:
                self._release_streamed(other)
        self.misses += 1
        self.perform((_H2D_BLOCKING, self.ref.first_slot + layer))

    def _release_streamed(self, layer: int) -> None:
        if layer in self.live and layer not in self._residency.layers:
            self.perform((_RELEASE, self.ref.first_slot + layer))
        self._schedule.live = set(self.live)

    # Layers on the device.

    def _wait_for(self, copy: QueuedCopy | None) -> None:
        """Compute waits for ``copy``, for no single layer's sake."""
        if copy is None:
            return
        before = self._device.mark()
        self._device.wait(copy)
        self._telemetry.waited(self._own_label, before, self._device.mark())

    def _queue(self, layer: int) -> None:
        if layer in self.live:
            return
        image = self._images[layer]
        live = self._take(layer)
        if not image.size_bytes:
            return
        label, moves = self._labels[layer], image.moves_to(live.buffers)
        assert image.tier is not None
        if image.tier is HostTier.MAPPED and self.courier is not None:
            live.copy = self._last_shipped = self.courier.ship(moves, label)
        elif image.tier is HostTier.PINNED:
            live.copy = self._last_copy = self._device.copy_pinned(moves, label)
        else:
            live.copy = self._last_copy = self._device.copy_pageable(moves, label)
        self._telemetry.copy_queued(label, live.copy, _KINDS[image.tier])

    def _load_now(self, layer: int) -> None:
        if layer in self.live:
            return
        image = self._images[layer]
        live = self._take(layer)
        if not image.size_bytes:
            return
        label, moves = self._labels[layer], image.moves_to(live.buffers)
        if image.tier is HostTier.MAPPED and self.courier is not None:
            live.copy = self.courier.load_now(moves, label)
        elif image.tier is HostTier.PINNED:
            live.copy = self._device.copy_pinned(moves, label)
        else:
            live.copy = self._device.copy_pageable(moves, label)
        self._last_copy = live.copy
        before = self._device.mark()
        self._device.wait(live.copy)
        self._device.catch_up()
        live.is_ready = True
        self._telemetry.copy_queued(label, live.copy, CopyKind.BLOCKING)
        self._telemetry.waited(label, before, self._device.mark())

    def _place(self, layer: int) -> None:
        """Load a permanent resident and give up its host copy."""
        image = self._images[layer]
        live = self._take(layer)
        if image.size_bytes:
            self._device.wait(self._device.copy_pageable(image.moves_to(live.buffers), self._labels[layer]))
        live.is_ready = True
        self._show(layer, live)
        self._store.drop(image)

    def _take(self, layer: int) -> _LiveLayer:
        """Device memory for ``layer``, all of it or none."""
        buffers: DeviceBuffers = []
        try:
            self._images[layer].make_buffers(lambda numel, dtype: self._keep(buffers, numel, dtype))
        except BaseException:
            self._free(buffers)
            self._schedule.live.discard(layer)
            raise
        live = self.live[layer] = _LiveLayer(buffers)
        return live

    def _keep(self, buffers: DeviceBuffers, numel: int, dtype: torch.dtype) -> torch.Tensor:
        buffer = self._device.allocate(numel, dtype)
        buffers.append(buffer)
        return buffer

    def _show(self, layer: int, live: _LiveLayer) -> None:
        self._guards[layer].open()
        self._images[layer].show(live.buffers)
        live.is_shown = True

    def _release(self, layer: int) -> None:
        live = self.live.pop(layer, None)
        if live is None:
            return
        if live.is_shown:
            self._images[layer].show_host()
            self._guards[layer].close()
        self._free(live.buffers)

    def _free(self, buffers: DeviceBuffers) -> None:
        for buffer in buffers:
            self._device.free(buffer)

    def _read_back(self, layer: int, host: DeviceBuffers, device: DeviceBuffers) -> None:
        pairs = list(zip(host, device, strict=True))
        if pairs:
            self._device.copy_back(pairs, self._labels[layer])
