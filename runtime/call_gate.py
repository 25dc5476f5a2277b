"""Stands around the calls of one component: opens its use, follows its layers, and cleans up after a failure."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import torch

from runtime.devices.protocol import MemoryKind
from runtime.errors import DeviceMemoryError, SessionError
from runtime.execution_context import ExecutionContext
from runtime.forward_wrap import Forward
from runtime.streamer import PassListener, Streamer

Component = TypeVar("Component", bound=PassListener)
_Component_contra = TypeVar("_Component_contra", bound=PassListener, contravariant=True)


class UseDirector(Protocol[_Component_contra]):
    """What decides, over all components, when a use begins and ends."""

    def enter(self, runner: _Component_contra, /) -> None:
        """``runner`` is called: its use begins if it has not."""
        ...

    def leave(self, runner: _Component_contra, /, *, ends: bool) -> None:
        """The outermost call of ``runner`` is over; ``ends`` says whether its use may be over with it."""
        ...

    def failed(self) -> None:
        """A call has failed, and nobody inside of the outermost one has caught it."""
        ...


class _Follower:
    """What a stack does around a call; nothing, unless it is told of it."""

    def enter(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Before the call."""

    def leave(self, result: object) -> object:
        """After it; returns what the caller gets."""
        return result

    def fail(self) -> None:
        """After it has failed."""


class _OwnerFollower(_Follower):
    def __init__(self, streamers: Sequence[Streamer]) -> None:
        self._streamers = streamers

    def enter(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        for streamer in self._streamers:
            streamer.enter_owner()

    def leave(self, result: object) -> object:
        self.fail()
        return result

    def fail(self) -> None:
        for streamer in self._streamers:
            streamer.leave_owner()


class _LayerFollower(_Follower):
    def __init__(self, streamer: Streamer, layer: int) -> None:
        self._streamer, self._layer = streamer, layer

    def enter(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        self._streamer.enter(self._layer, args, kwargs)

    def leave(self, result: object) -> object:
        return self._streamer.leave(self._layer, result)

    def fail(self) -> None:
        self._streamer.fail(self._layer)


class CallGate(Generic[Component]):
    """Counts the calls of one component that are open, and makes the wraps that count them.

    All that the wraps do themselves is shielded from interrupts; what they call is not.

    Attributes:
        depth: calls that are open.
    """

    def __init__(self, runner: Component, director: UseDirector[Component], context: ExecutionContext) -> None:
        self.depth = 0
        self._thread = 0
        self._runner, self._director = runner, director
        self._device, self._shield = context.device, context.shield

    def wrap_part(self, forward: Forward) -> Forward:
        """A call of a part of the component: it begins a use, but does not end one, for other parts may follow."""
        return self._wrap(forward, _Follower(), ends=False)

    def wrap_owner(self, streamers: Sequence[Streamer], forward: Forward) -> Forward:
        """A call of the component, or of the module that holds, and runs, the layers of ``streamers``."""
        return self._wrap(forward, _OwnerFollower(streamers), ends=True)

    def wrap_layer(self, streamer: Streamer, layer: int, forward: Forward) -> Forward:
        """A call of one streamed layer."""
        return self._wrap(forward, _LayerFollower(streamer, layer), ends=True)

    def _wrap(self, forward: Forward, follower: _Follower, *, ends: bool) -> Forward:
        shield = self._shield

        def call(*args: object, **kwargs: object) -> object:
            shield.hold()
            try:
                self._open()
                try:
                    follower.enter(args, kwargs)
                    try:
                        shield.let_go()
                        try:
                            result = forward(*args, **kwargs)
                        finally:
                            shield.hold()
                        result = follower.leave(result)
                    except BaseException:
                        follower.fail()
                        raise
                except BaseException as error:
                    self._fail(error)
                    raise
                self._close(ends=ends)
            finally:
                shield.let_go()
            return result

        return call

    def _open(self) -> None:
        thread = threading.get_ident()
        if not self.depth:
            self._director.enter(self._runner)
            self._thread = thread
        elif thread != self._thread:
            raise SessionError(f"two threads call {self._runner.name} at once: a session serves one request at a time")
        self.depth += 1

    def _close(self, *, ends: bool) -> None:
        self.depth -= 1
        if not self.depth:
            self._director.leave(self._runner, ends=ends)

    def _fail(self, error: BaseException) -> None:
        """The call has failed; the outermost one gives everything back and says in one sentence what ran out."""
        self.depth -= 1
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
        listener.before_layer()
        listener.begin_pass(stack)
        return forward(*args, **kwargs)

    return call


def wrap_last(listener: PassListener, stack: str, forward: Forward) -> Forward:
    """Its last layer: the pass is over."""

    def call(*args: object, **kwargs: object) -> object:
        try:
            return forward(*args, **kwargs)
        finally:
            if listener.in_use:
                listener.end_pass(stack)

    return call


def wrap_table(device: torch.device, forward: Forward) -> Forward:
    """A table that stays on the host: looks the rows up there and brings only them to the device."""

    def call(*args: Any, **kwargs: Any) -> object:  # noqa: ANN401 - as the module's own
        here = [arg.to("cpu") if isinstance(arg, torch.Tensor) else arg for arg in args]
        named = {name: arg.to("cpu") if isinstance(arg, torch.Tensor) else arg for name, arg in kwargs.items()}
        return forward(*here, **named).to(device)

    return call
