"""Says when uses and requests begin and end, from nothing but the calls of components."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from runtime.component_runner import ComponentRunner
from runtime.engines.lifecycle import Lifecycle, number_work
from runtime.errors import DeviceError, SessionError
from runtime.execution_context import ExecutionContext
from runtime.program import Op

_NO_POSITION = -1


class RequestTracker:
    """The ``UseDirector`` of a session.

    A use begins with its component's first call. It ends when it has made the passes that the request has for it, when
    another component is called, or with the request; a request ends with its last use, and the first use of the next
    one ends a request that was cut short.

    Args:
        lifecycle: of the model and its request.
        explicit: see ``Plan``.
        context: see there.
        look: called before a use begins: components that have appeared meanwhile are attached.

    Attributes:
        runners: attached components, in the model's order.
        is_scoped: whether the request's limits are marked, so that it does not end by itself.
    """

    def __init__(
        self, lifecycle: Lifecycle, *, explicit: bool, context: ExecutionContext, look: Callable[[], None]
    ) -> None:
        self.runners: list[ComponentRunner] = []
        self.is_scoped = False
        self._lifecycle, self._explicit, self._context, self._look = lifecycle, explicit, context, look
        self._uses = lifecycle.request.uses
        self._works = number_work(lifecycle.request)
        self._current: ComponentRunner | None = None
        self._outer: list[ComponentRunner] = []
        self._position = _NO_POSITION
        self._is_requesting = False
        self._request_count = 0
        self._misses = 0
        self._thread = 0

    def add(self, runner: ComponentRunner) -> None:
        """A component is about to be attached."""
        self.runners = sorted([*self.runners, runner], key=lambda one: one.index)

    def remove(self, runner: ComponentRunner) -> None:
        """It could not be attached."""
        self.runners = [one for one in self.runners if one is not runner]

    # What components tell.

    def enter(self, runner: ComponentRunner) -> None:
        """``runner`` is called: its use begins if it has not.

        Raises:
            SessionError: another thread is inside of a component's call.
            DeviceError: what the use needs could not be brought to the device.
        """
        thread, current = threading.get_ident(), self._current
        if current is not None and current.depth and self._thread != thread:
            raise SessionError("two threads call components of one session: it serves one request at a time")
        self._thread = thread
        if current is runner and runner.in_use:
            return
        try:
            self._look()
            self._change_to(runner)
        except BaseException:
            self.failed()
            raise

    def leave(self, runner: ComponentRunner, *, ends: bool) -> None:
        """The outermost call of ``runner`` is over; ``ends`` says whether its use may be over with it."""
        if runner is not self._current:
            return
        try:
            if self._outer:
                self._end_current()
                self._current = self._outer.pop()
            elif ends and runner.is_complete():
                self._end_current()
                if self._only_empty_uses_left() and not self.is_scoped:
                    self.end_request()
        except BaseException:
            self.failed()
            raise

    def failed(self) -> None:
        """A call has failed: the request is over, and what it held is given back."""
        for runner in self.runners:
            runner.abort()
        # What has failed is known by now: it must not come up again in the next request.
        with suppress(DeviceError):
            self._context.device.synchronize()
        self._current, self._outer = None, []
        self._position, self._is_requesting = _NO_POSITION, False
        self._context.telemetry.drop_request()

    # Requests and uses.

    def end_request(self) -> None:
        """End the request that runs, if one does, and measure it.

        Raises:
            SessionError: a component is being called.
        """
        if not self._is_requesting:
            return
        if any(runner.depth for runner in self.runners):
            raise SessionError("the request cannot end inside a component's call")
        try:
            with self._context.shield.held():
                self._finish_request()
        except BaseException:
            self.failed()
            raise

    def _finish_request(self) -> None:
        self._end_current()
        if self._only_empty_uses_left():
            for position in range(self._position + 1, len(self._uses)):
                self._make_empty_use(position)
        for runner in self.runners:
            if self._lifecycle.refills(runner.index, explicit=self._explicit) and not runner.life.holds_residents:
                runner.perform(runner.life.prepare())
        self._context.log((int(Op.END_REQUEST), 0))
        self._context.telemetry.end_phase(f"{self._label}: idle")
        self._is_requesting, self._position = False, _NO_POSITION
        self._request_count += 1
        misses = sum(streamer.misses for runner in self.runners for streamer in runner.streamers.values())
        self._context.telemetry.end_request(misses - self._misses)
        self._misses = misses

    @property
    def _label(self) -> str:
        return "later request" if self._request_count else "first request"

    def _change_to(self, runner: ComponentRunner) -> None:
        if self._current is not None and self._current.depth:
            # Called from inside another component: that one's use goes on afterwards.
            self._outer.append(self._current)
            self._current = None
        else:
            self._end_current()
        position = self._find_position(runner)
        if position is not None and position <= self._position:
            if self._outer or self.is_scoped:
                position = None
            else:
                self.end_request()
        if not self._is_requesting:
            self._is_requesting, self._position = True, _NO_POSITION
            self._context.telemetry.begin_request()
        if position is not None:
            for skipped in range(self._position + 1, position):
                self._make_empty_use(skipped)
            self._position = position
        self._begin(runner, position)

    def _only_empty_uses_left(self) -> bool:
        return not any(use.groups for use in self._uses[self._position + 1 :])

    def _find_position(self, runner: ComponentRunner) -> int | None:
        """The next use of the request that is of ``runner``: after the present one, else from the beginning."""
        own = [position for position, use in enumerate(self._uses) if use.component == runner.name]
        own = [position for position in own if self._uses[position].groups] or own
        present = self._position if self._is_requesting else _NO_POSITION
        return next((position for position in own if position > present), own[0] if own else None)

    def _make_empty_use(self, position: int) -> None:
        """A use in which nothing is called, as an engine makes it whether or not there is anything to do."""
        use = self._uses[position]
        runner = next((one for one in self.runners if one.name == use.component), None)
        if use.groups or runner is None:
            return
        self._position = position
        self._begin(runner, position)
        self._end_current()

    def _begin(self, runner: ComponentRunner, position: int | None) -> None:
        title = runner.name if position is None else self._uses[position].title
        self._context.telemetry.begin_use(runner.name, title)
        self._current = runner
        runner.perform(runner.life.begin())
        for other in self._others_at(position):
            if not other.life.is_moved:
                other.perform(other.life.copy_ahead())
        self._context.log((int(Op.IN_USE), runner.index))
        runner.start_use(position)
        if position is not None:
            work = self._works[position, -1]
            self._context.log((int(Op.WORK), work))
            self._context.device.work(work)

    def _end_current(self) -> None:
        runner, self._current = self._current, None
        if runner is None:
            return
        position, telemetry = runner.position, self._context.telemetry
        runner.perform(runner.life.end())
        runner.stop_use()
        telemetry.end_use()
        if position is None:
            return
        title = self._uses[position].title
        telemetry.end_phase(f"{self._label}: {title}")
        if self._lifecycle.moves_ahead_after(position):
            for other in self._others_at(position):
                if other.life.is_moved:
                    other.perform(other.life.copy_ahead())
        telemetry.end_phase(f"{self._label}: after {title}")

    def _others_at(self, position: int | None) -> list[ComponentRunner]:
        """Components that act while another one is in use at ``position``."""
        if position is None:
            return []
        return [runner for runner in self.runners if (position, False) in self._lifecycle.parts_of(runner.index)]
