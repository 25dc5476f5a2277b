"""Applies a plan to live modules: attach, run, detach.

Calls of the modules drive everything. A *use* of a component begins with its first call and ends when it has made the
passes that the request has for it, when another component is called, or when the request ends; a request ends with its
last use. So ``pipeline(...)`` needs no other code; ``Session.request()`` marks a request's limits where calls alone do
not show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import nn

from runtime.component_runner import ComponentRunner, Surroundings
from runtime.components import ComponentSource
from runtime.devices.open_device import open_device
from runtime.devices.protocol import Device
from runtime.engines.host_rules import PlanHosting, host_plan
from runtime.engines.registry import find_engine
from runtime.errors import SessionError
from runtime.execution_context import ExecutionContext
from runtime.host_store import HostStore, PinLedger
from runtime.hosting import HostMemory
from runtime.model_spec import ModelSpec, RequestSpec
from runtime.module_binding import BoundComponent, bind_component
from runtime.plan import Plan
from runtime.plan_document import PlanDocument, check_one_card
from runtime.prediction import Prediction
from runtime.program import Action, Program
from runtime.request_tracker import RequestTracker
from runtime.residency import Mode
from runtime.session_report import SessionReport, build_report
from runtime.telemetry import Telemetry


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
    """What a session needs of ``document``.

    Raises:
        UnsupportedError: the plan is for several cards.
    """
    check_one_card(document)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attached:
    """What a session holds while it is attached; ``scope`` is left when it is detached."""

    context: ExecutionContext
    tracker: RequestTracker
    scope: ExitStack


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
        if not isinstance(plan, (PlanDocument, Executable)):
            raise SessionError(
                f"a session runs a plan document (load_plan) or an Executable, not {type(plan).__name__}"
            )
        self._executable = executable_of(plan) if isinstance(plan, PlanDocument) else plan
        executable = self._executable
        model = executable.model
        for label, given in (("names", names), ("stacks", stacks)):
            if given is not None and not isinstance(given, Mapping):
                raise SessionError(f"{label} is a mapping from the plan's names to yours, not {type(given).__name__}")
        unknown = sorted(set(stacks or ()) - {component.name for component in model.components})
        if unknown:
            raise SessionError(f"stacks names {', '.join(unknown)}, which the plan does not have")
        self._source = ComponentSource(source, model, names or {})
        self._stack_paths = stacks or {}
        self._wanted_device = device
        self._attached: _Attached | None = None
        self._last_report: SessionReport | None = None
        self._records = record_actions
        self._actions: list[Action] = []
        engine = find_engine(executable.plan.engine)
        memory = host or executable.host
        self._lifecycle = engine.lifecycle(model, executable.request)
        rule = engine.host_rule(model, executable.request, memory)
        self._hosting: PlanHosting = executable.hosting or host_plan(rule, model, executable.plan)
        self._pin_budget_bytes = max(0, memory.available_bytes) if memory.pins else 0

    # Attach and detach.

    def __enter__(self) -> Session:
        self.attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.detach()
        else:
            self._detach_after(error)

    def attach(self) -> None:
        """Bring every component that is there to the state after load.

        All modules are checked before anything moves; whatever fails leaves them as they were found.

        Raises:
            SessionError: the session is attached already, or a module is not the one that was planned for.
            DeviceMemoryError: the plan does not fit into what the device has.
        """
        if self._attached is not None:
            raise SessionError("this session is attached already: detach it first, or make another one")
        bound = self._bind(self._source.find_present())
        if not bound:
            names = ", ".join(component.name for component in self._executable.model.components)
            raise SessionError(f"none of the plan's components ({names}) is there: nothing could be attached")
        attached = self._attached = self._open()
        try:
            attached.context.device.reset_peaks()
            for component in bound:
                self._attach_one(component)
            with attached.context.shield.held():
                self._source.on_appearance(self._attach_appeared)
                attached.context.telemetry.end_phase("load")
                attached.scope.enter_context(attached.context.device.compute_scope())
        except BaseException as error:
            self._detach_after(error)
            raise

    def detach(self) -> None:
        """Give all memory back and leave the modules as they were found. Does nothing when nothing is attached.

        Raises:
            DeviceError: the device has failed so badly that some weights could not be read back; all others are.
        """
        attached = self._attached
        if attached is None:
            return
        context = attached.context
        context.shield.hold()
        try:
            if any(phase.phase == "load" for phase in context.telemetry.phases):
                self._last_report = self.report()
            self._source.forget()
            with context.device.host_scope(), ExitStack() as steps:
                steps.callback(context.store.close)
                for runner in attached.tracker.runners:
                    steps.callback(runner.detach)
        finally:
            self._attached = None
            attached.scope.close()
            try:
                context.shield.let_go()
            finally:
                context.shield.remove()

    def _detach_after(self, error: BaseException) -> None:
        """Detach; what fails meanwhile is told with ``error`` instead of in its place."""
        try:
            self.detach()
        except Exception as other:
            error.add_note(f"while the modules were restored: {type(other).__name__}: {other}")

    def _open(self) -> _Attached:
        """Everything that is needed to attach, with nothing attached yet."""
        wanted, scope = self._wanted_device, ExitStack()
        if isinstance(wanted, str):
            device = open_device(wanted)
            scope.callback(device.close)
        elif isinstance(wanted, torch.device):
            device = open_device(str(wanted))
            scope.callback(device.close)
        else:
            device = wanted
        context = ExecutionContext(
            device=device,
            store=HostStore(device, PinLedger(self._pin_budget_bytes)),
            telemetry=Telemetry(device),
            log=self._actions.append if self._records else _log_nothing,
        )
        context.shield.install()
        explicit, look = self._executable.plan.explicit, self._source.look
        tracker = RequestTracker(self._lifecycle, explicit=explicit, context=context, look=look)
        return _Attached(context=context, tracker=tracker, scope=scope)

    def _bind(self, modules: Mapping[str, nn.Module]) -> list[BoundComponent]:
        found = []
        for component in self._executable.model.components:
            if component.name in modules:
                streams = self._executable.plan.streams(component.name)
                paths = self._stack_paths.get(component.name)
                found.append(bind_component(component, modules[component.name], stacks=paths, keeps_tables=streams))
        known = [runner.bound for runner in self._attached.tracker.runners] if self._attached is not None else []
        _check_disjoint([*known, *found], self._executable.plan)
        return found

    def _attach_one(self, bound: BoundComponent) -> None:
        context, tracker = self._present.context, self._present.tracker
        names = [component.name for component in self._executable.model.components]
        index = names.index(bound.spec.name)
        placement = self._executable.plan.placement(bound.spec.name)
        around = Surroundings(context=context, lifecycle=self._lifecycle, director=tracker)
        runner = ComponentRunner(index, bound, placement, self._hosting.components[index], around)
        tracker.add(runner)
        self._source.mark(bound.module, context.device.torch_device)
        try:
            runner.attach()
        except BaseException:
            with context.shield.held():
                runner.detach()
                tracker.remove(runner)
            raise

    def _attach_appeared(self, modules: Mapping[str, nn.Module]) -> None:
        with self.device.host_scope():
            for bound in self._bind(modules):
                self._attach_one(bound)

    @property
    def _present(self) -> _Attached:
        if self._attached is None:
            raise SessionError("this session is not attached: use it in a with statement, or call attach()")
        return self._attached

    # Requests.

    @property
    def device(self) -> Device:
        """The device in use.

        Raises:
            SessionError: the session is not attached.
        """
        return self._present.context.device

    def run(self, component: str, /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - what the module returns
        """Call a component's module.

        Raises:
            SessionError: the session is not attached, or has no such component.
        """
        tracker = self._present.tracker
        self._source.look()
        attached = [runner.name for runner in tracker.runners]
        if component not in attached:
            raise SessionError(f"no component {component!r} is attached: there are {', '.join(attached)}")
        return self._source.module(component)(*args, **kwargs)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Marks one request: it ends where the block ends, however many passes it made."""
        tracker = self._present.tracker
        self.end_request()
        tracker.is_scoped = True
        try:
            yield
        finally:
            tracker.is_scoped = False
            if self._attached is not None:
                self.end_request()

    def end_request(self) -> None:
        """End the request that runs, if one does, and measure it.

        Raises:
            SessionError: a component is being called.
        """
        self._present.tracker.end_request()

    def report(self) -> SessionReport:
        """What every request so far took, beside what was predicted; after ``detach`` what it was until then.

        Raises:
            SessionError: the session was never attached.
        """
        if self._attached is None and self._last_report is not None:
            return self._last_report
        context = self._present.context
        return build_report(
            device=context.device,
            executable_engine=self._executable.plan.engine,
            placements={one.component: one.describe() for one in self._executable.plan.placements},
            prediction=self._executable.prediction,
            requests=tuple(context.telemetry.requests),
            phases=tuple(context.telemetry.phases),
            host=context.store.use(),
        )

    def actions(self) -> list[tuple[str | int, ...]]:
        """Every action so far, with names, if they are recorded."""
        program = self.program()
        return [program.name(action) for action in self._actions]

    def program(self) -> Program:
        """What the engine's program for the plan is."""
        return self._lifecycle.build_program(self._executable.plan)


def _log_nothing(_: Action) -> None:
    """Actions are kept only when they are asked for."""


def _check_disjoint(bound: Sequence[BoundComponent], plan: Plan) -> None:
    """Refuse components that share a weight of which one would take it from the device under the other.

    Raises:
        SessionError: names both.
    """
    owners: dict[int, tuple[BoundComponent, str]] = {}
    for component in bound:
        for key, name in component.parameters.items():
            other, first = owners.setdefault(key, (component, name))
            both = (plan.placement(component.spec.name).mode, plan.placement(other.spec.name).mode)
            if other is not component and both != (Mode.RESIDENT, Mode.RESIDENT):
                raise SessionError(
                    f"{first} and {name} are one weight: components that share weights must both be resident, or be "
                    "one component of the plan"
                )
