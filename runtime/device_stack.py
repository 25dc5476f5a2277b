"""The layers of one stack on the device: copied in, shown to the module, given back, one action at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
from torch import nn

from runtime.devices.protocol import Courier, Label, Mark, QueuedCopy
from runtime.execution_context import ExecutionContext
from runtime.hosting import HostTier
from runtime.layer_guard import LayerGuard
from runtime.layer_image import DeviceBuffers, LayerImage
from runtime.program import Action, Op, StackRef
from runtime.telemetry import CopyKind

_H2D, _RELEASE, _DRAIN = int(Op.H2D), int(Op.RELEASE), int(Op.DRAIN)
_H2D_BLOCKING, _PLACE = int(Op.H2D_BLOCKING), int(Op.PLACE)

_KINDS = {HostTier.PINNED: CopyKind.PINNED, HostTier.PAGEABLE: CopyKind.PAGEABLE, HostTier.MAPPED: CopyKind.MAPPED}


class _LiveLayer:
    """One layer on the device: whether its copy has been waited for, and whether its module shows it."""

    __slots__ = ("buffers", "copy", "is_ready", "is_shown")

    def __init__(self, buffers: DeviceBuffers) -> None:
        self.buffers = buffers
        self.copy: QueuedCopy | None = None
        self.is_ready = False
        self.is_shown = False


class DeviceStack:
    """One stack of a streamed component, without any idea of what comes next.

    Args:
        layers: modules of the stack.
        images: their weights, hosted.
        ref: where the layers lie among the slots of a program.
        component: whose stack it is.
        on_access: called with a layer whose weights are read by name while it is not shown on the device.
        context: see there.

    Attributes:
        live: layers on the device.
        label, labels: of the stack, and of its layers.
        courier: ships the layers that are mapped; without one they are copied as pageable ones.
    """

    def __init__(
        self,
        layers: Sequence[nn.Module],
        images: Sequence[LayerImage],
        ref: StackRef,
        *,
        component: str,
        on_access: Callable[[int], None],
        context: ExecutionContext,
    ) -> None:
        self.ref = ref
        self.live: dict[int, _LiveLayer] = {}
        self.courier: Courier | None = None
        self.labels = [Label(component, ref.name, layer) for layer in range(len(images))]
        self.label = Label(component, ref.name)
        self._images = tuple(images)
        self._context = context
        self._device, self._store = context.device, context.store
        self._telemetry, self._log = context.telemetry, context.log
        self._last_copy: QueuedCopy | None = None
        self._last_shipped: QueuedCopy | None = None
        self._guards = [
            LayerGuard(module, lambda layer=layer: on_access(layer))  # type: ignore[misc]
            for layer, module in enumerate(layers)
        ]
        for guard in self._guards:
            guard.close()

    def perform(self, action: Action) -> None:
        """Perform one action of this stack. Loading what is live, and releasing what is not, does nothing.

        Raises:
            DeviceError: memory ran out, or a copy failed.
        """
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

    def make_ready(self, layer: int) -> tuple[Mark, Mark]:
        """Let compute wait for the copy of ``layer``, which is live, and show it; returns when that began and ended."""
        live, device = self.live[layer], self._device
        before = ready = device.mark()
        if not live.is_ready:
            if live.copy is not None:
                device.wait(live.copy)
                ready = device.mark()
            live.is_ready = True
        if not live.is_shown:
            self._guards[layer].open()
            self._images[layer].show(live.buffers)
            live.is_shown = True
        return before, ready

    def records_gradients(self, layer: int) -> bool:
        """Whether any weight of ``layer`` asks for gradients."""
        return any(weight.owner.requires_grad for weight in self._images[layer].weights)

    def separate(self, layer: int, result: object) -> object:
        """``result``, with tensors that lie in the buffers of ``layer`` replaced by copies."""
        return _separate(result, {buffer.untyped_storage().data_ptr() for buffer in self.live[layer].buffers})

    def wait_for_copies(self) -> None:
        """Compute waits for every copy that was queued; what was read from files is forgotten."""
        self._wait_for(self._last_copy)
        self._wait_for(self._last_shipped)
        if self.courier is not None:
            self.courier.forget_reads()

    def forget_copies(self) -> None:
        """Nobody waits any more for what was queued."""
        self._last_copy = self._last_shipped = None

    def close(self) -> None:
        """Give back device memory, restore weights and the modules' own dictionaries; one failure stops nothing."""
        for guard in self._guards:
            guard.open()
        with ExitStack() as steps:
            if self.courier is not None:
                steps.callback(self.courier.close)
            for layer, image in enumerate(self._images):
                steps.callback(self._restore, layer, image)

    def _restore(self, layer: int, image: LayerImage) -> None:
        live = self.live.pop(layer, None)
        label = self.labels[layer]
        image.restore(
            lambda host, device: self._context.read_back(host, device, label),
            live.buffers if live is not None else None,
        )
        if live is not None:
            self._free(live.buffers)

    def _queue(self, layer: int) -> None:
        if layer in self.live:
            return
        image = self._images[layer]
        live = self._take(layer)
        if not image.size_bytes:
            return
        label, moves = self.labels[layer], image.moves_to(live.buffers)
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
        label, moves, device = self.labels[layer], image.moves_to(live.buffers), self._device
        before = device.mark()
        if image.tier is HostTier.MAPPED and self.courier is not None:
            live.copy = self.courier.load_now(moves, label)
        elif image.tier is HostTier.PINNED:
            live.copy = device.copy_pinned(moves, label)
        else:
            live.copy = device.copy_pageable(moves, label)
        self._last_copy = live.copy
        device.wait(live.copy)
        device.catch_up()
        live.is_ready = True
        self._telemetry.copy_queued(label, live.copy, CopyKind.BLOCKING)
        self._telemetry.waited(label, before, device.mark())

    def _place(self, layer: int) -> None:
        """Load a permanent resident and give up its host copy."""
        image = self._images[layer]
        live = self._take(layer)
        if image.size_bytes:
            live.copy = self._device.copy_pageable(image.moves_to(live.buffers), self.labels[layer])
        self.make_ready(layer)
        self._store.drop(image)

    def _take(self, layer: int) -> _LiveLayer:
        """Device memory for ``layer``, all of it or none."""
        buffers: DeviceBuffers = []

        def allocate(numel: int, dtype: torch.dtype) -> torch.Tensor:
            buffers.append(self._device.allocate(numel, dtype))
            return buffers[-1]

        try:
            self._images[layer].make_buffers(allocate)
        except BaseException:
            self._free(buffers)
            raise
        live = self.live[layer] = _LiveLayer(buffers)
        return live

    def _release(self, layer: int) -> None:
        live = self.live.get(layer)
        if live is None:
            return
        if live.is_shown:
            self._images[layer].show_host()
            self._guards[layer].close()
        self._free(live.buffers)
        del self.live[layer]

    def _free(self, buffers: DeviceBuffers) -> None:
        for buffer in buffers:
            self._device.free(buffer)

    def _wait_for(self, copy: QueuedCopy | None) -> None:
        """Compute waits for ``copy``, for no single layer's sake."""
        if copy is None:
            return
        before = self._device.mark()
        self._device.wait(copy)
        self._telemetry.waited(self.label, before, self._device.mark())


def _separate(result: object, storages: set[int]) -> object:
    if isinstance(result, torch.Tensor):
        if result.layout is torch.strided and not result.is_meta and result.untyped_storage().data_ptr() in storages:
            return result.clone()
        return result
    if type(result) is tuple:
        return tuple(_separate(part, storages) for part in result)
    return [_separate(part, storages) for part in result] if type(result) is list else result
