"""The library's real classes, shrunken, executed under a plan on the emulated device: passes, bytes, parts run once."""

import pytest
from builders import SGLANG, build_plan, kept, moved, streamed
from shrunken_models import FLUX, H3, WAN22
from toy_modules import UNPACED

from autotune.catalog.built_component import capture_component
from autotune.workflows.live_execution import run_built
from autotune.workflows.run_settings import Rounds
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.hosting import HostMemory
from runtime.model_spec import ModelSpec, RequestSpec
from runtime.session import Executable

PLACED = {"streamed": streamed, "moved": moved, "kept": kept}
ONCE = Rounds(warmup=1, repeats=1)


def build(shrunken):
    return {name: make() for name, make in shrunken.list_builders().items()}


def build_executable(shrunken, place):
    """What the shrunken model's capture says, all components placed alike."""
    captured = {name: capture_component(built) for name, built in build(shrunken).items()}
    return Executable(
        plan=build_plan(*(place(name) for name in captured), engine=SGLANG),
        model=ModelSpec(name=shrunken.name, components=tuple(part.spec for part in captured.values())),
        request=RequestSpec(uses=tuple(part.use for part in captured.values())),
        host=HostMemory(available_bytes=2**40),
    )


def execute(shrunken, place, **device):
    executable = build_executable(shrunken, place)
    device = EmulatedDevice(rates=UNPACED, clock=ClockKind.VIRTUAL, poison=True, **device)
    try:
        report, notes = run_built(executable, build(shrunken), device, ONCE, seed=3)
    finally:
        device.close()
    return executable, report, notes


@pytest.mark.parametrize("place", PLACED.values(), ids=PLACED)
@pytest.mark.parametrize("shrunken", [H3, FLUX, WAN22], ids=lambda shrunken: shrunken.name)
def test_every_use_makes_the_passes_of_the_request(shrunken, place):
    executable, report, _ = execute(shrunken, place)
    for request in report.requests:
        assert [use.component for use in request.uses] == [use.component for use in executable.request.uses]
        assert request.misses == 0
        for planned, use in zip(executable.request.uses, request.uses, strict=True):
            made = [sum(one.group == group for one in use.passes) for group in range(len(planned.groups))]
            assert made == [group.passes for group in planned.groups]
