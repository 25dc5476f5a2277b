"""Executes a plan on the emulated device: stand-ins for its modules, paced by the profile that it was made from.

The device has the profile's link rates and the plan's cap; layers and the work outside of them last as long as the cost
model says. So what is measured differs from the prediction by what the executor does otherwise than the replay, and on
the real clock by the time that the host itself takes. Imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from autotune.profile import Profile
from autotune.workflows.emulation_notes import (
    describe_emulation,
    describe_host_work,
    describe_interference,
    explain_differences,
)
from autotune.workflows.execution import CountRequests, Execution, run_requests
from autotune.workflows.pace import Pace
from autotune.workflows.run_settings import Emulation, Rounds
from autotune.workflows.stand_ins import StandIn, build_stand_ins, choose_byte_scale, list_paths, scale_model
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.protocol import Device, MemoryKind
from runtime.engines.host_rules import host_plan
from runtime.engines.registry import find_engine
from runtime.errors import InputError
from runtime.interference import NO_INTERFERENCE
from runtime.model_spec import RequestSpec
from runtime.plan_document import PlanDocument
from runtime.session import Executable, executable_of

REQUEST_WALL_S = 5.0
"""About how long a request takes on the real clock unless a time scale is given."""


def execute_emulated(
    document: PlanDocument,
    profile: Profile,
    emulation: Emulation,
    rounds: Rounds,
    *,
    seed: int,
    count: CountRequests = lambda *_: None,
) -> Execution:
    """Execute the plan of ``document`` at the speed that ``profile`` says.

    Raises:
        InputError: the profile is of another model or request.
        DeviceMemoryError: the plan takes more device memory than there is.
    """
    notes = check_profile(document, profile)
    model, byte_scale = document.model, choose_byte_scale(document.model)
    executable = executable_of(document)
    rule = find_engine(document.plan.engine).host_rule(model, document.request, executable.host)
    hosting = host_plan(rule, model, document.plan)
    time_scale = emulation.time_scale or choose_time_scale(document.prediction.latency_s)
    pace = Pace(profile, document.plan, hosting)
    capacity_bytes = document.cap.effective_bytes if emulation.capacity_bytes is None else emulation.capacity_bytes
    device = EmulatedDevice(
        rates=pace.rates,
        capacity_bytes=capacity_bytes,
        clock=ClockKind(emulation.clock),
        compute_s=pace.layer_s,
        work_s=pace.work_s,
        byte_scale=byte_scale,
        time_scale=time_scale,
        interference=pace.interference if emulation.clock == "virtual" else NO_INTERFERENCE,
    )
    scaled = scale_model(model, byte_scale)
    modules = build_stand_ins(scaled, seed)
    try:
        report = run_requests(
            Executable(
                plan=document.plan,
                model=scaled,
                request=document.request,
                host=executable.host,
                hosting=hosting,
                prediction=document.prediction,
            ),
            modules,
            _UseCalls(document.request, modules, _list_activations(profile), byte_scale),
            device,
            rounds=rounds,
            stacks=list_paths(modules),
            notify=count,
        )
    finally:
        device.close()
    return Execution(
        report=report.scaled(byte_scale),
        device=f"emulated {document.device.title}",
        clock=emulation.clock,
        byte_scale=byte_scale,
        time_scale=time_scale if emulation.clock == "real" else None,
        notes=(
            describe_emulation(emulation.clock, byte_scale, time_scale),
            describe_interference(emulation.clock, pace.interference),
            *notes,
            *explain_differences(document, hosting),
            *(describe_host_work(report.typical, time_scale, pace) if emulation.clock == "real" else ()),
        ),
    )


def choose_time_scale(latency_s: float) -> float:
    """Wall seconds per emulated second at which a request takes about ``REQUEST_WALL_S``; at most 1."""
    return min(1.0, REQUEST_WALL_S / latency_s) if latency_s > 0 else 1.0


def check_profile(document: PlanDocument, profile: Profile) -> tuple[str, ...]:
    """Refuse a profile of another model or request; say when it is not the plan's own.

    Raises:
        InputError: as above.
    """
    facts = profile.facts
    for name, planned, found in (
        ("model", document.model, facts.model),
        ("request", document.request, facts.request),
    ):
        if planned != found:
            raise InputError(
                f"the profile is of another {name} ({facts.model.name}, {facts.workload.describe()}) than the plan "
                f"({document.model.name}): use the profile.json that was written beside the plan"
            )
    if profile.digest == document.profile_id:
        return ()
    return (
        f"the profile {profile.digest} is not the one that the plan was made from, {document.profile_id}: the device "
        "is as fast as the profile says, the prediction is the plan's",
    )


def _list_activations(profile: Profile) -> list[int]:
    """Device bytes of activations and decoded frames in each use, as predictions count them."""
    sizes = [work.activation_bytes for work in profile.facts.work]
    sizes[-1] += profile.facts.output_frames_bytes
    return sizes


class _UseCalls:
    """Calls the stand-ins pass by pass, and holds the activations of a use from its first pass to its last."""

    def __init__(
        self,
        request: RequestSpec,
        modules: Mapping[str, StandIn],
        activation_bytes: Sequence[int],
        byte_scale: int,
    ) -> None:
        self._request, self._modules = request, modules
        self._activations = [round(size / byte_scale) for size in activation_bytes]

    def __call__(self, position: int, device: Device) -> None:
        """See ``PerformUse``."""
        use = self._request.uses[position]
        traversals = [stack for group in use.groups for _ in range(group.passes) for stack in group.stacks]
        held: list[torch.Tensor] = []

        def take() -> None:
            if self._activations[position]:
                held.append(device.allocate(self._activations[position], torch.uint8, MemoryKind.ACTIVATIONS))

        def give_back() -> None:
            while held:
                device.free(held.pop())

        last = len(traversals) - 1
        for index, stack in enumerate(traversals):
            self._modules[use.component](
                stack, take if index == 0 else _do_nothing, give_back if index == last else _do_nothing
            )


def _do_nothing() -> None:
    """Between the first and the last pass activations stay as they are."""
