"""Stands around the calls of one component: opens its use, follows its layers, and cleans up after a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import torch

from runtime.devices.protocol import Device, MemoryKind
from runtime.errors import DeviceMemoryError
from runtime.forward_wrap import Forward
from runtime.streamer import PassListener, Streamer

Component = TypeVar("Component", bound=PassListener)
_Component_contra = TypeVar("_Component_contra", bound=PassListener, contravariant=True)


class UseDirector(Protocol[_Component_contra]):
    """What decides, over all components, when a use begins and ends."""

    def enter(self, runner: _Component_contra, /) -> None:
        """``runner`` is called: its use begins if it has not."""
        ...

    def leave(self, runner: _Component_contra, /) -> None:
        """The outermost call of ``runner`` is over."""
        ...

    def failed(self) -> None:
        """A call has failed, and nobody inside of the outermost one has caught it."""
        ...


class CallGate(Generic[Component]):
    """Counts the calls of one component that are open, and makes the wraps that count them.

    Attributes:
        depth: calls that are open.
    """

    def __init__(self, runner: Component, director: UseDirector[Component], device: Device) -> None:
        self.depth = 0
        self._runner, self._director, self._device = runner, director, device

    def wrap_call(self, forward: Forward) -> Forward:
        """A call of the component, or of a part of it."""

        def call(*args: object, **kwargs: object) -> object:
            self._open()
            try:
                result = forward(*args, **kwargs)
            except BaseException as error:
                self._fail(error)
                raise
            self._close()
            return result

        return call

    def wrap_owner(self, streamers: Sequence[Streamer], forward: Forward) -> Forward:
        """A call of the module that holds, and runs, the layers of ``streamers``."""

        def call(*args: object, **kwargs: object) -> object:
            self._open()
            for streamer in streamers:
                streamer.enter_owner()
            try:
                result = forward(*args, **kwargs)
            except BaseException as error:
                for streamer in streamers:
                    streamer.leave_owner()
                self._fail(error)
                raise
            for streamer in streamers:
                streamer.leave_owner()
            self._close()
            return result

        return call

    def wrap_layer(self, streamer: Streamer, layer: int, forward: Forward) -> Forward:
        """A call of one streamed layer."""

        def call(*args: object, **kwargs: object) -> object:
            self._open()
            try:
                streamer.enter(layer)
                try:
                    result = forward(*args, **kwargs)
                except BaseException:
                    streamer.fail(layer)
                    raise
                streamer.leave(layer)
            except BaseException as error:
                self._fail(error)
                raise
            self._close()
            return result

        return call

    def _open(self) -> None:
        if not self.depth:
            self._director.enter(self._runner)
        self.depth += 1

    def _close(self) -> None:
        self.depth -= 1
        if not self.depth:
            self._director.leave(self._runner)

    def _fail(self, error: BaseException) -> None:
        """The call has failed; the outermost one gives everything back and says in one sentence what ran out."""
        self.depth = max(0, self.depth - 1)
        if self.depth:
            return
        peak_bytes = self._device.memory().peak_bytes[MemoryKind.WEIGHTS]
        self._director.failed()
        if isinstance(error, torch.OutOfMemoryError):
            raise DeviceMemoryError(
                f"device memory ran out while {self._runner.name} computed ({error}); the session held at most "
                f"{peak_bytes:,} bytes of weights: plan with a larger reserve, or for a smaller request"
            ) from error


def wrap_first(listener: PassListener, stack: str, forward: Forward) -> Forward:
    """The first layer of a stack that does not stream: a pass begins."""

    def call(*args: object, **kwargs: object) -> object:
        if listener.in_use:
            listener.begin_pass(stack)
        return forward(*args, **kwargs)

    return call


def wrap_last(listener: PassListener, stack: str, forward: Forward) -> Forward:
    """Its last layer: the pass is over."""

    def call(*args: object, **kwargs: object) -> object:
        result = forward(*args, **kwargs)
        if listener.in_use:
            listener.end_pass(stack)
        return result

    return call


def wrap_table(device: torch.device, forward: Forward) -> Forward:
    """A table that stays on the host: looks the rows up there and brings only them to the device."""

    def call(ids: torch.Tensor, *args: object, **kwargs: object) -> object:
        return forward(ids.to("cpu"), *args, **kwargs).to(device)

    return call
