"""The library's real classes, shrunken, executed under a plan on the emulated device: passes, bytes, parts run once."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from builders import SGLANG, build_plan, moved, streamed
from shrunken_models import FLUX, H3
from toy_modules import UNPACED

from autotune.catalog.built_component import capture_component
from autotune.host_memory import read_host_memory
from autotune.workflows.live_execution import HostTooSmall, check_host, run_built
from autotune.workflows.live_modules import LiveComponent, RunOnce
from autotune.workflows.run_settings import Rounds
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.errors import InputError
from runtime.hosting import HostMemory
from runtime.model_spec import ModelSpec, RequestSpec
from runtime.session import Executable

ONCE = Rounds(warmup=1, repeats=1)
PLACED = {"text_encoder": streamed, "transformer": streamed, "audio_vae": moved, "video_vae": streamed}


def build(shrunken):
    return {name: make() for name, make in shrunken.list_builders().items()}


def capture(shrunken):
    return {name: capture_component(built) for name, built in build(shrunken).items()}


@cache
def build_executable():
    """What the capture of the shrunken H3 says; all but its audio decoder stream."""
    captured = capture(H3)
    return Executable(
        plan=build_plan(*(PLACED[name](name) for name in captured), engine=SGLANG),
        model=ModelSpec(name="H3", components=tuple(part.spec for part in captured.values())),
        request=RequestSpec(uses=tuple(part.use for part in captured.values())),
        host=HostMemory(available_bytes=2**40),
    )


@cache
def execute():
    device = EmulatedDevice(rates=UNPACED, clock=ClockKind.VIRTUAL, poison=True, tracks_activations=True)
    try:
        return run_built(build_executable(), build(H3), device, ONCE, seed=3)
    finally:
        device.close()


def test_every_use_makes_the_passes_of_the_request():
    request, (report, _) = build_executable().request, execute()
    for measured in report.requests:
        assert [use.component for use in measured.uses] == [use.component for use in request.uses]
        assert measured.misses == 0
        for planned, use in zip(request.uses, measured.uses, strict=True):
            made = [sum(one.group == group for one in use.passes) for group in range(len(planned.groups))]
            assert made == [group.passes for group in planned.groups]


def count_runs(report, stack):
    return sum(run.stack == stack for run in report.typical.runs)


def test_parts_that_the_server_runs_once_run_once_in_a_use():
    report, _ = execute()
    (use,) = (use for use in build_executable().request.uses if use.component == "transformer")
    assert [group.passes for group in use.groups] == [1, H3.workload.steps - 1]
    assert count_runs(report, "token_refiner.blocks") == 2
    assert count_runs(report, "blocks") == 4 * (H3.workload.steps - 1)


def test_a_part_run_once_gives_its_last_answer_until_the_next_use():
    part = torch.nn.Linear(2, 2)
    calls = []
    part.forward = lambda x: calls.append(x) or torch.full((1,), float(len(calls)))
    found = part.__dict__["forward"]
    once = RunOnce(part, times=2)
    assert [part(x).item() for x in torch.zeros(4, 1)] == [1, 2, 2, 2]
    once.begin_use()
    assert part(torch.zeros(1)).item() == 3
    once.remove()
    assert part.__dict__["forward"] is found


def test_modules_are_described_with_the_bytes_that_they_have():
    spec = build_executable().model.component("text_encoder")
    live = LiveComponent(build(H3)["text_encoder"], spec, seed=1)
    # The server keeps the norm of 64 elements that it does not apply.
    assert spec.rest_run_bytes - live.spec.rest_run_bytes == 64 * 2
    assert all(part.run_bytes == other.run_bytes for part, other in zip(spec.stacks, live.spec.stacks, strict=True))
    assert any(note.startswith("text_encoder has ") for note in execute()[1])


def test_a_table_that_stays_on_the_host_is_no_part_of_the_rest():
    built = build(FLUX)["text_encoder_2"]
    table_bytes = built.module.shared.weight.nbytes
    rest_bytes = built.spec.rest_run_bytes - table_bytes
    planned = replace(built.spec, host_table_bytes=table_bytes, rest_run_bytes=rest_bytes)
    assert LiveComponent(built, planned, seed=1).spec == planned


def test_weights_are_those_of_the_seed():
    built = [build(FLUX)["vae"] for _ in range(3)]
    modules = [LiveComponent(one, one.spec, seed=seed) for one, seed in zip(built, (1, 1, 2), strict=True)]
    weights = [next(module.parameters()) for module in modules]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_activations_are_counted_where_the_device_can():
    assert execute()[0].peak_phases()["later request: transformer"].peak_activation_bytes > 0


def test_a_plan_of_other_components_is_refused():
    built = build(FLUX)
    device = EmulatedDevice(rates=UNPACED, clock=ClockKind.VIRTUAL)
    with pytest.raises(InputError, match="the plan places audio_vae, text_encoder, transformer, video_vae"):
        run_built(build_executable(), built, device, ONCE, seed=0)


def test_host_memory_is_compared_with_all_weights_and_one_layer_more():
    model = build_executable().model
    needed = sum(part.run_bytes for part in model.components)
    needed += max(layer.run_bytes for part in model.components for stack in part.stacks for layer in stack.layers)
    reading = read_host_memory()
    assert check_host(model, replace(reading, available_bytes=needed)) is None
    assert check_host(model, replace(reading, available_bytes=None)) is None
    short = check_host(model, replace(reading, available_bytes=needed - 1))
    assert short == HostTooSmall(needed_bytes=needed, available_bytes=needed - 1)
    large = HostTooSmall(needed_bytes=3 * 2**30, available_bytes=2**30)
    assert "3.00 GiB are needed" in large.describe()
    assert "1.00 GiB are available" in large.describe()
