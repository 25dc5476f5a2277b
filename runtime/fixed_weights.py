"""Weights that are not streamed: those that stay on the device, and components that are moved as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import torch
from torch import nn

from runtime.devices.protocol import Device, Label, MemoryKind
from runtime.execution_context import ExecutionContext
from runtime.hosting import HostTier
from runtime.layer_image import DeviceBuffers, LayerImage
from runtime.telemetry import CopyKind
from runtime.weights import Weight


def _allocate(device: Device, images: Iterable[LayerImage], kind: MemoryKind) -> list[DeviceBuffers]:
    """Device memory for all of ``images``, or for none."""
    taken: list[torch.Tensor] = []

    def allocate(numel: int, dtype: torch.dtype) -> torch.Tensor:
        taken.append(device.allocate(numel, dtype, kind))
        return taken[-1]

    try:
        return [image.make_buffers(allocate) for image in images]
    except BaseException:
        for buffer in taken:
            device.free(buffer)
        raise


class FixedWeights:
    """Weights, or buffers of modules, that are on the device from attach to detach and have no host copy meanwhile."""

    def __init__(
        self,
        label: Label,
        images: Sequence[LayerImage],
        context: ExecutionContext,
        kind: MemoryKind = MemoryKind.WEIGHTS,
    ) -> None:
        self._label, self._images, self._context, self._kind = label, images, context, kind
        self._device = context.device
        self._buffers: list[DeviceBuffers] = []

    def place(self) -> None:
        """Bring them up, one image after another, and give up what was on the host.

        Raises:
            DeviceMemoryError: they do not fit; those that are up stay up until ``restore``.
        """
        for image in self._images:
            with self._context.shield.held():
                self._place(image)

    def _place(self, image: LayerImage) -> None:
        (buffers,) = _allocate(self._device, [image], self._kind)
        self._buffers.append(buffers)
        moves = image.moves_to(buffers)
        if moves:
            self._device.wait(self._device.copy_pageable(moves, self._label))
        image.show(buffers)
        image.drop_host()

    def restore(self) -> None:
        """Bring them back to where they were found; one failure stops nothing."""
        with ExitStack() as steps:
            for image, buffers in zip(self._images, self._buffers, strict=False):
                steps.callback(self._restore, image, buffers)
        self._buffers = []

    def _restore(self, image: LayerImage, buffers: DeviceBuffers) -> None:
        image.restore(lambda host, device: self._context.read_back(host, device, self._label), buffers)
        for buffer in buffers:
            self._device.free(buffer)


def image_each(weights: Iterable[Weight]) -> list[LayerImage]:
    """One image per weight: outside of layers nothing is joined."""
    return [LayerImage([weight]) for weight in weights]


def image_buffers(module: nn.Module, name: str) -> list[LayerImage]:
    """The registered buffers of ``module`` that have data."""
    unique = {id(buffer): (path, buffer) for path, buffer in module.named_buffers() if not buffer.is_meta}
    return image_each(Weight(f"{name}.{path}", buffer, "data") for path, buffer in unique.values())


class MovedComponent:
    """A component that is copied up before its use and down again after it, as a whole.

    Like the server's, its host copy is pinned only from its first way down.
    """

    def __init__(self, label: Label, images: Sequence[LayerImage], context: ExecutionContext) -> None:
        self._label, self._images = label, images
        self._device, self._store, self._telemetry = context.device, context.store, context.telemetry
        self._shield = context.shield
        self._buffers: list[DeviceBuffers] | None = None

    def host(self) -> None:
        """Make the host copy."""
        for image in self._images:
            with self._shield.held():
                self._store.host(image, HostTier.PAGEABLE, self._label)

    def up(self) -> None:
        """Copy everything to the device; compute waits for it."""
        device, images = self._device, self._images
        buffers = self._buffers = _allocate(device, images, MemoryKind.WEIGHTS)
        moves = [move for image, own in zip(images, buffers, strict=True) for move in image.moves_to(own)]
        if moves:
            pinned = all(image.tier is HostTier.PINNED for image in images if image.size_bytes)
            before = device.mark()
            copy = (device.copy_pinned if pinned else device.copy_pageable)(moves, self._label)
            device.wait(copy)
            device.catch_up()
            self._telemetry.copy_queued(self._label, copy, CopyKind.UP)
            self._telemetry.waited(self._label, before, device.mark())
        for image, own in zip(images, buffers, strict=True):
            image.show(own)

    def down(self) -> None:
        """Copy everything back to the host."""
        if self._buffers is None:
            return
        device = self._device
        for image in self._images:
            self._store.pin(image, self._label)
        moves = [
            (host, own)
            for image, buffers in zip(self._images, self._buffers, strict=True)
            for host, own in zip(image.host_buffers, buffers, strict=True)
        ]
        if moves:
            before = device.mark()
            copy = device.copy_back(moves, self._label)
            self._telemetry.copy_queued(self._label, copy, CopyKind.DOWN)
            self._telemetry.waited(self._label, before, device.mark())
        self.drop()

    def drop(self) -> None:
        """Give the device memory back; the host copy is what counts from now on."""
        for image, own in zip(self._images, self._buffers or (), strict=False):
            image.show_host()
            for buffer in own:
                self._device.free(buffer)
        self._buffers = None

    def restore(self) -> None:
        """Give back the device memory and leave the weights as they were found."""
        with ExitStack() as steps:
            for image in self._images:
                steps.callback(image.restore, lambda _host, _device: None, None)
            steps.callback(self.drop)
