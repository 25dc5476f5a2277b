"""Executes a plan on a card with the library's own classes, random weights and made-up inputs. Imports torch.

What is computed means nothing; shapes, dtypes, layers, passes and copies are those of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from autotune.catalog.built_component import BuiltComponent
from autotune.catalog.registry import CATALOG
from autotune.host_memory import HostReading, read_host_memory
from autotune.live_components import build_components, synthetic_input
from autotune.workflows.execution import CountRequests, Execution, run_requests
from autotune.workflows.live_modules import LiveComponent, RunOnce
from autotune.workflows.run_settings import Rounds
from autotune.workload import Recipe, Workload
from runtime.devices.open_device import open_device
from runtime.devices.protocol import Device
from runtime.engines.host_rules import PlanHosting, host_plan
from runtime.engines.registry import find_engine
from runtime.errors import InputError, SessionError, UnsupportedError
from runtime.hosting import HostTier
from runtime.model_spec import ModelSpec, RequestSpec
from runtime.plan_document import PlanDocument
from runtime.session import Executable, executable_of
from runtime.session_report import SessionReport
from runtime.units import format_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTooSmall:
    """The answer when host memory does not hold the weights: what is needed, and what is available."""

    needed_bytes: int
    available_bytes: int

    def describe(self) -> str:
        """Both figures and the remedy."""
        return (
            f"the weights do not fit into host memory: {format_gib(self.needed_bytes)} are needed while they are "
            f"attached, {format_gib(self.available_bytes)} are available; run this plan on a larger host, or with "
            "--device emulated"
        )


def execute_live(
    document: PlanDocument,
    device_name: str,
    rounds: Rounds,
    *,
    seed: int,
    notify: Callable[[str], None] = lambda _: None,
    count: CountRequests = lambda *_: None,
) -> Execution | HostTooSmall:
    """Execute the plan of ``document`` on the card ``device_name``.

    Raises:
        UnsupportedError: there is no such card here, or the plan is for something that the catalog cannot build.
        DeviceMemoryError: the plan takes more device memory than there is.
    """
    device = open_device(device_name)
    try:
        _check_catalog(document)
        shortage = check_host(document.model, read_host_memory())
        if shortage is not None:
            return shortage
        notify(f"building {document.model.name}")
        built = build_components(document.model.name, read_workload(document))
        report, notes = run_built(executable_of(document), built, device, rounds, seed=seed, notify=notify, count=count)
        title = torch.cuda.get_device_name(device.torch_device)
    finally:
        device.close()
    return Execution(report=report, device=title, clock="device", notes=notes)


def _check_catalog(document: PlanDocument) -> None:
    if document.variant:
        raise UnsupportedError(
            f"the plan is for {document.model.name} {document.variant}, which the library's classes do not build: run "
            "it with --device emulated, or plan for the model as released"
        )
    if document.model.name not in {entry.name for entry in CATALOG}:
        raise UnsupportedError(
            f"the plan is for {document.model.name}, which is no catalog model: its classes are unknown; run it with "
            "--device emulated"
        )


def read_workload(document: PlanDocument) -> Workload:
    """The request of ``document``.

    Raises:
        InputError: it is none that this program knows.
    """
    fields = {name: document.workload[name] for name in Workload.__dataclass_fields__}
    try:
        return Workload(**{**fields, "recipe": Recipe(str(fields["recipe"]))})  # type: ignore[arg-type]
    except ValueError as error:
        raise InputError(f"the plan's workload is unknown: {error}") from error


def check_host(model: ModelSpec, reading: HostReading) -> HostTooSmall | None:
    """Whether host memory holds every weight, and one layer twice, while the modules are attached.

    None when it does, and when nobody knows how much there is.
    """
    layers = (layer.run_bytes for part in model.components for stack in part.stacks for layer in stack.layers)
    needed_bytes = sum(component.run_bytes for component in model.components) + max(layers, default=0)
    available_bytes = reading.available_bytes
    if available_bytes is None or needed_bytes <= available_bytes:
        return None
    return HostTooSmall(needed_bytes=needed_bytes, available_bytes=available_bytes)


def run_built(
    executable: Executable,
    built: Mapping[str, BuiltComponent],
    device: Device,
    rounds: Rounds,
    *,
    seed: int,
    notify: Callable[[str], None] = lambda _: None,
    count: CountRequests = lambda *_: None,
) -> tuple[SessionReport, tuple[str, ...]]:
    """Give ``built`` weights, execute requests on ``device``, and say in what the modules differ from the plan.

    Raises:
        InputError: the plan has other components.
    """
    model = executable.model
    names = [component.name for component in model.components]
    if set(names) != set(built):
        raise InputError(f"the plan places {', '.join(sorted(names))}; the model has {', '.join(sorted(built))}")
    rule = find_engine(executable.plan.engine).host_rule(model, executable.request, executable.host)
    hosting = executable.hosting or host_plan(rule, model, executable.plan)
    modules: dict[str, LiveComponent] = {}
    for index, planned in enumerate(model.components):
        notify(f"filling {planned.name} with random weights, {format_gib(planned.run_bytes)}")
        modules[planned.name] = LiveComponent(built[planned.name], planned, seed=seed + index)
    live = replace(model, components=tuple(module.spec for module in modules.values()))
    calls = _LiveCalls(executable.request, modules, seed)
    try:
        report = run_requests(
            replace(executable, model=live, hosting=hosting),
            modules,
            calls,
            device,
            rounds=rounds,
            stacks={name: module.paths for name, module in modules.items()},
            notify=count,
        )
    finally:
        calls.close()
    return report, tuple(_describe_differences(model, live, hosting))


class _LiveCalls:
    """Runs each component until it has made the passes of its use."""

    def __init__(self, request: RequestSpec, modules: Mapping[str, LiveComponent], seed: int) -> None:
        self._request, self._modules, self._seed = request, modules, seed
        self._once: dict[str, list[RunOnce]] = {}
        for use in request.uses:
            if use.groups and use.component not in self._once:
                parts = modules[use.component].list_parts_run_once(use)
                self._once[use.component] = [RunOnce(part, times) for part, times in parts]

    def __call__(self, position: int, device: Device) -> None:
        """See ``PerformUse``."""
        use = self._request.uses[position]
        component = self._modules[use.component]
        make_input = synthetic_input(device.torch_device, self._seed + position)
        longest = max(use.groups, key=lambda group: group.passes)
        counter = _CallCounter(component.find_layer(longest.stacks[0]))
        try:
            while counter.calls < longest.passes:
                before = counter.calls
                component(make_input)
                if counter.calls == before:
                    raise SessionError(f"a run of {use.component} made no pass over {longest.stacks[0]}")
        finally:
            counter.remove()
            for part in self._once[use.component]:
                part.begin_use()

    def close(self) -> None:
        """Leave the modules as they were found."""
        for parts in self._once.values():
            for part in reversed(parts):
                part.remove()


class _CallCounter:
    """Counts the calls of one module."""

    def __init__(self, module: nn.Module) -> None:
        self.calls = 0
        self._hook = module.register_forward_hook(self._count)

    def _count(self, *_: object) -> None:
        self.calls += 1

    def remove(self) -> None:
        """Stop counting."""
        self._hook.remove()


def _describe_differences(planned: ModelSpec, live: ModelSpec, hosting: PlanHosting) -> list[str]:
    notes = ["the library's classes with random weights and made-up inputs; nothing is fused, as a server may do"]
    for one, other in zip(planned.components, live.components, strict=True):
        if one.run_bytes != other.run_bytes:
            notes.append(
                f"{one.name} has {other.run_bytes:,} bytes here, {one.run_bytes:,} in the plan: the server holds some "
                "of its weights otherwise"
            )
    if any(component.count(HostTier.MAPPED) for component in hosting.components):
        notes.append("layers that the plan leaves mapped are read from ordinary memory: there is no checkpoint file")
    return notes
