"""Applies a plan to live modules: attach, run, detach.

Calls of the modules drive everything. A *use* of a component begins with its first call and ends when it has made the
passes that the request has for it, when another component is called, or when the request ends; a request ends with its
last use. So ``pipeline(...)`` needs no other code; ``Session.request()`` marks a request's limits where calls alone do
not show them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from torch import nn

from runtime.component_runner import ComponentRunner, Surroundings
from runtime.components import ComponentSource
from runtime.devices.open_device import open_device
from runtime.devices.protocol import Device
from runtime.engines.host_rules import PlanHosting, host_plan
from runtime.engines.lifecycle import number_work
from runtime.engines.registry import find_engine
from runtime.errors import SessionError
from runtime.execution_context import ExecutionContext
from runtime.host_store import HostStore, PinLedger
from runtime.hosting import HostMemory
from runtime.model_spec import ModelSpec, RequestSpec
from runtime.module_binding import BoundComponent, bind_component
from runtime.plan import Plan
from runtime.plan_document import PlanDocument, Prediction
from runtime.program import Action, Op, Program
from runtime.session_report import SessionReport, build_report
from runtime.telemetry import Telemetry

_NO_POSITION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable:
    """What a session needs of a plan: the decision, what it is for, and what was predicted.

    Attributes:
        plan, model, request: as in a plan document.
        host: what the host can hold.
        hosting: where weights wait, if that is decided already; else the engine's rule decides it for ``host``.
        prediction: what reports compare with; None when there is none.
    """

    plan: Plan
    model: ModelSpec
    request: RequestSpec
    host: HostMemory
    hosting: PlanHosting | None = None
    prediction: Prediction | None = None

    def __post_init__(self) -> None:
        self.plan.check_fits_model(self.model)
        self.request.check_fits_model(self.model)


def executable_of(document: PlanDocument) -> Executable:
    """What a session needs of ``document``."""
    host = document.host
    return Executable(
        plan=document.plan,
        model=document.model,
        request=document.request,
        host=HostMemory(
            available_bytes=host.available_bytes, pins=host.pins, page_cache_room_bytes=host.page_cache_bytes
        ),
        prediction=document.prediction,
    )


class Session:
    """Live modules under a plan, from ``__enter__`` (or ``attach``) to ``__exit__`` (or ``detach``).

    Weights of streamed layers are shown on the host while they are not on the device; ask ``session.device`` where
    inputs belong. Pipelines of diffusers are told by themselves.

    Args:
        source: a pipeline of diffusers, a mapping of component names to modules, or one module. A component that is
            missing is attached when it appears.
        plan: a plan document, or an ``Executable``.
        device: a name (``cuda``, ``cuda:0``, ``emulated``) or a device, which then stays open.
        names: name of the component in the plan -> its name in ``source``, where they differ.
        stacks: component -> name of the stack in the plan -> path of its list in the module, where it is not found by
            itself.
        host: what the host can hold, if not what the plan was made for.
        record_actions: keep the list of all actions that were performed, for ``actions``.
    """

    def __init__(
        self,
        source: object,
        plan: PlanDocument | Executable,
        *,
        device: str | Device = "cuda:0",
        names: Mapping[str, str] | None = None,
        stacks: Mapping[str, Mapping[str, str]] | None = None,
        host: HostMemory | None = None,
        record_actions: bool = False,
    ) -> None:
        self._executable = executable_of(plan) if isinstance(plan, PlanDocument) else plan
        executable = self._executable
        model = executable.model
        self._source = ComponentSource(source, model, names or {})
        self._stack_paths = stacks or {}
        self._device_name = device
        self._device: Device | None = None
        self._last_report: SessionReport | None = None
        self._records = record_actions
        self._actions: list[Action] = []
        engine = find_engine(executable.plan.engine)
        memory = host or executable.host
        self._lifecycle = engine.lifecycle(model, executable.request)
        rule = engine.host_rule(model, executable.request, memory)
        self._hosting: PlanHosting = executable.hosting or host_plan(rule, model, executable.plan)
        self._pin_budget_bytes = max(0, memory.available_bytes) if memory.pins else 0
        self._works = number_work(executable.request)
        self._runners: dict[str, ComponentRunner] = {}
        self._current: ComponentRunner | None = None
        self._outer: list[ComponentRunner] = []
        self._position = _NO_POSITION
        self._is_requesting = False
        self._is_scoped = False
        self._request_count = 0
        self._thread = 0
        self._scope = ExitStack()

    # Attach and detach.

    def __enter__(self) -> Session:
        self.attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def attach(self) -> None:
        """Bring every component that is there to the state after load.

        All modules are checked before anything moves; whatever fails leaves them as they were found.

        Raises:
            SessionError: the session is attached already, or a module is not the one that was planned for.
            DeviceMemoryError: the plan does not fit into what the device has.
        """
        if self._device is not None:
            raise SessionError("this session is attached already: detach it first, or make another one")
        bound = self._bind(self._source.find_present())
        if not bound:
            names = ", ".join(component.name for component in self._executable.model.components)
            raise SessionError(f"none of the plan's components ({names}) is there: nothing could be attached")
        given = self._device_name
        self._device = open_device(given) if isinstance(given, str) else given
        if isinstance(given, str):
            self._scope.callback(self._device.close)
        self._store = HostStore(self._device, PinLedger(self._pin_budget_bytes))
        self._telemetry = Telemetry(self._device)
        self._context = ExecutionContext(
            device=self._device,
            store=self._store,
            telemetry=self._telemetry,
            log=self._actions.append if self._records else _log_nothing,
        )
        try:
            self._device.reset_peaks()
            for component in bound:
                self._attach_one(component)
            self._source.on_appearance(self._attach_appeared)
            self._telemetry.end_phase("load")
            self._scope.enter_context(self._device.compute_scope())
        except BaseException:
            self.detach()
            raise

    def detach(self) -> None:
        """Give all memory back and leave the modules as they were found. Does nothing when nothing is attached."""
        if self._device is None:
            return
        if any(phase.phase == "load" for phase in self._telemetry.phases):
            self._last_report = self.report()
        self._source.forget()
        try:
            with self._device.host_scope():
                for runner in reversed(self._runners.values()):
                    runner.detach()
                self._store.close()
        finally:
            self._runners = {}
            self._current, self._position, self._is_requesting = None, _NO_POSITION, False
            self._outer = []
            self._device = None
            self._scope.close()

    def _bind(self, modules: Mapping[str, nn.Module]) -> list[BoundComponent]:
        found = []
        for component in self._executable.model.components:
            if component.name in modules:
                streams = self._executable.plan.streams(component.name)
                paths = self._stack_paths.get(component.name)
                found.append(bind_component(component, modules[component.name], stacks=paths, keeps_tables=streams))
        return found

    def _attach_one(self, bound: BoundComponent) -> None:
        names = [component.name for component in self._executable.model.components]
        index = names.index(bound.spec.name)
        placement = self._executable.plan.placement(bound.spec.name)
        around = Surroundings(context=self._context, lifecycle=self._lifecycle, director=self)
        runner = ComponentRunner(index, bound, placement, self._hosting.components[index], around)
        self._runners[bound.spec.name] = runner
        self._source.mark(bound.module, self._context.device.torch_device)
        runner.attach()

    def _attach_appeared(self, modules: Mapping[str, nn.Module]) -> None:
        with self.device.host_scope():
            for bound in self._bind(modules):
                self._attach_one(bound)
        self._runners = {
            component.name: self._runners[component.name]
            for component in self._executable.model.components
            if component.name in self._runners
        }

    # Requests.

    @property
    def device(self) -> Device:
        """The device in use.

        Raises:
            SessionError: the session is not attached.
        """
        if self._device is None:
            raise SessionError("this session is not attached: use it in a with statement, or call attach()")
        return self._device

    def run(self, component: str, /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - what the module returns
        """Call a component's module.

        Raises:
            SessionError: the session is not attached, or has no such component.
        """
        _ = self.device
        self._source.look()
        if component not in self._runners:
            raise SessionError(f"no component {component!r} is attached: there are {', '.join(self._runners)}")
        return self._source.module(component)(*args, **kwargs)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Marks one request: it ends where the block ends, however many passes it made."""
        _ = self.device
        self.end_request()
        self._is_scoped = True
        try:
            yield
        finally:
            self._is_scoped = False
            self.end_request()

    def end_request(self) -> None:
        """End the request that runs, if one does, and measure it."""
        if not self._is_requesting:
            return
        if any(runner.depth for runner in self._runners.values()):
            raise SessionError("the request cannot end inside a component's call")
        self._end_current()
        if self._only_empty_uses_left():
            for position in range(self._position + 1, len(self._executable.request.uses)):
                self._make_empty_use(position)
        label = self._request_label
        for runner in self._runners.values():
            refills = self._lifecycle.refills(runner.index, explicit=self._executable.plan.explicit)
            if refills and not runner.life.holds_residents:
                runner.perform(runner.life.prepare())
        self._context.log((int(Op.END_REQUEST), 0))
        self._telemetry.end_phase(f"{label}: idle")
        self._is_requesting, self._position = False, _NO_POSITION
        self._request_count += 1
        self._telemetry.end_request(sum(s.misses for r in self._runners.values() for s in r.streamers.values()))

    def report(self) -> SessionReport:
        """What every request so far took, beside what was predicted; after ``detach`` what it was until then.

        Raises:
            SessionError: the session was never attached.
        """
        if self._device is None and self._last_report is not None:
            return self._last_report
        return build_report(
            device=self.device,
            executable_engine=self._executable.plan.engine,
            placements={one.component: one.describe() for one in self._executable.plan.placements},
            prediction=self._executable.prediction,
            requests=tuple(self._telemetry.requests),
            phases=tuple(self._telemetry.phases),
            host=self._store.use(),
        )

    def actions(self) -> list[tuple[str | int, ...]]:
        """Every action so far, with names, if they are recorded."""
        program = self.program()
        return [program.name(action) for action in self._actions]

    def program(self) -> Program:
        """What the engine's program for the plan is."""
        return self._lifecycle.build_program(self._executable.plan)

    # What components tell (UseDirector).

    def enter(self, runner: ComponentRunner) -> None:
        """``runner`` is called: its use begins if it has not."""
        thread = threading.get_ident()
        if self._current is not None and self._current.depth and self._thread != thread:
            raise SessionError("two threads call components of one session: it serves one request at a time")
        self._thread = thread
        if self._current is runner and runner.in_use:
            return
        self._source.look()
        if self._current is not None and self._current.depth:
            # Called from inside another component: that one's use goes on afterwards.
            self._outer.append(self._current)
            self._current = None
        else:
            self._end_current()
        position = self._find_position(runner)
        if position is not None and position <= self._position:
            if self._outer or self._is_scoped:
                position = None
            else:
                self.end_request()
        if not self._is_requesting:
            self._begin_request()
        if position is not None:
            for skipped in range(self._position + 1, position):
                self._make_empty_use(skipped)
            self._position = position
        self._begin(runner, position)

    def leave(self, runner: ComponentRunner) -> None:
        """The outermost call of ``runner`` is over."""
        if runner is not self._current:
            return
        if self._outer:
            self._end_current()
            self._current = self._outer.pop()
        elif runner.is_complete():
            self._end_current()
            if self._only_empty_uses_left() and not self._is_scoped:
                self.end_request()

    def failed(self) -> None:
        """A call has failed: the request is over, and what it held is given back."""
        for runner in self._runners.values():
            runner.abort()
        self._current, self._outer = None, []
        self._position, self._is_requesting = _NO_POSITION, False
        self._telemetry.drop_request()

    @property
    def _request_label(self) -> str:
        return "later request" if self._request_count else "first request"

    def _begin_request(self) -> None:
        self._is_requesting, self._position = True, _NO_POSITION
        self._telemetry.begin_request()

    def _only_empty_uses_left(self) -> bool:
        return not any(use.groups for use in self._executable.request.uses[self._position + 1 :])

    def _find_position(self, runner: ComponentRunner) -> int | None:
        """The next use of the request that is of ``runner``: after the present one, else from the beginning."""
        own = [
            position
            for position, use in enumerate(self._executable.request.uses)
            if use.component == runner.name and use.groups
        ]
        own = own or [p for p, use in enumerate(self._executable.request.uses) if use.component == runner.name]
        if not self._is_requesting:
            return own[0] if own else None
        return next((position for position in own if position > self._position), own[0] if own else None)

    def _make_empty_use(self, position: int) -> None:
        """A use in which nothing is called, as an engine makes it whether or not there is anything to do."""
        use = self._executable.request.uses[position]
        if use.groups or use.component not in self._runners:
            return
        self._position = position
        self._begin(self._runners[use.component], position)
        self._end_current()

    def _begin(self, runner: ComponentRunner, position: int | None) -> None:
        title = runner.name if position is None else self._executable.request.uses[position].title
        self._telemetry.begin_use(runner.name, title)
        self._current = runner
        runner.perform(runner.life.begin())
        if position is not None:
            for other in self._others_at(position):
                if not other.life.is_moved:
                    other.perform(other.life.copy_ahead())
        self._context.log((int(Op.IN_USE), runner.index))
        runner.start_use(position)
        if position is not None:
            work = self._works[position, -1]
            self._context.log((int(Op.WORK), work))
            self.device.work(work)

    def _end_current(self) -> None:
        runner, self._current = self._current, None
        if runner is None:
            return
        position = runner.position
        runner.perform(runner.life.end())
        runner.stop_use()
        self._telemetry.end_use()
        if position is None:
            return
        title = self._executable.request.uses[position].title
        self._telemetry.end_phase(f"{self._request_label}: {title}")
        if self._lifecycle.moves_ahead_after(position):
            for other in self._others_at(position):
                if other.life.is_moved:
                    other.perform(other.life.copy_ahead())
        self._telemetry.end_phase(f"{self._request_label}: after {title}")

    def _others_at(self, position: int) -> list[ComponentRunner]:
        """Components that act while another one is in use at ``position``."""
        return [
            runner for runner in self._runners.values() if (position, False) in self._lifecycle.parts_of(runner.index)
        ]


def _log_nothing(_: Action) -> None:
    """Actions are kept only when they are asked for."""
