"""The executor, driven by live modules, does what the server was recorded doing, action by action."""

from itertools import pairwise
from pathlib import Path
from unittest import mock

import msgspec
import pytest
import torch
from builders import SGLANG
from torch import nn
from toy_modules import UNPACED

from autotune.conformance.difference import compare_actions
from autotune.conformance.lifecycle import build_case, spell_as_recorded
from autotune.conformance.records import LifecycleRecord, ScheduleRecord
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.engines.component_life import ComponentLife
from runtime.hosting import HostMemory
from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, PassGroup, RequestSpec, StackSpec, UseSpec
from runtime.plan import Plan
from runtime.session import Executable, Session

DATA = Path(__file__).parents[1] / "data"


def read(name, kind):
    lines = (DATA / name).read_text().splitlines()
    return [msgspec.json.decode(line, type=kind) for line in lines if line.strip()]


class OneByte(nn.Module):
    """A layer of one byte, as the recorded ones count."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, dtype=torch.uint8), requires_grad=False)

    def forward(self, x):
        return x + self.weight


class Stacks(nn.Module):
    """Lists of layers that are called one at a time."""

    def __init__(self, counts):
        super().__init__()
        for name, count in counts.items():
            self.add_module(name, nn.ModuleList(OneByte() for _ in range(count)))

    def run(self, stack, x):
        for layer in getattr(self, stack):
            x = layer(x)
        return x


def open_session(modules, plan, model, request):
    executable = Executable(plan=plan, model=model, request=request, host=HostMemory(available_bytes=2**50))
    device = EmulatedDevice(rates=UNPACED, clock=ClockKind.VIRTUAL, poison=True, delay_seed=1)
    return Session(modules, executable, device=device, record_actions=True)


LIFECYCLES = read("sglang_lifecycle_cases.jsonl", LifecycleRecord)


@pytest.mark.parametrize("record", LIFECYCLES, ids=range(len(LIFECYCLES)))
def test_whole_requests_are_the_recorded_ones(record):
    model, plan, request = build_case(record)
    modules = {component: Stacks(stacks) for component, stacks in record.sizes.items()}
    with open_session(modules, plan, model, request) as session:
        loaded = len(session.actions())
        marks = [loaded]
        for _ in record.requests:
            x = torch.zeros(1, dtype=torch.uint8)
            for use in request.uses:
                for group in use.groups:
                    for _ in range(group.passes):
                        for stack in group.stacks:
                            x = modules[use.component].run(stack, x)
            session.end_request()
            marks.append(len(session.actions()))
        actions = session.actions()
    for (start, end), recorded in zip(pairwise(marks), record.requests, strict=True):
        ours = [list(action) for action in spell_as_recorded(actions[start:end])]
        assert list(compare_actions("actions", recorded.actions, ours)) == []


SCHEDULES = read("sglang_schedule_traces.jsonl", ScheduleRecord)
_RECORDED = {"h2d", "h2d_blocking", "drain", "run", "release"}


@pytest.mark.parametrize("record", SCHEDULES, ids=range(len(SCHEDULES)))
def test_one_components_passes_are_the_recorded_ones(record):
    names = [chr(ord("a") + index) for index in range(len(record.stacks))]
    counts = dict(zip(names, record.stacks, strict=True))
    layer = LayerSpec(checkpoint_bytes=1, run_bytes=1)
    model = ModelSpec(
        name="recorded",
        components=(
            ComponentSpec(
                name="component",
                class_name="Stacks",
                stacks=tuple(StackSpec(name=name, layers=(layer,) * count) for name, count in counts.items()),
                rest_run_bytes=0,
                rest_checkpoint_bytes=0,
                run_dtype="uint8",
            ),
        ),
    )
    plan = Plan(engine=SGLANG, placements=(record.place("component"),))
    request = RequestSpec(uses=(UseSpec(component="component", groups=(PassGroup(stacks=tuple(names), passes=2),)),))
    module = Stacks(counts)
    found = []

    def one_pass():
        for name in names:
            module.run(name, torch.zeros(1, dtype=torch.uint8))

    # The recording is of the manager alone: nobody begins a use for it.
    with (
        mock.patch.object(ComponentLife, "prepare", return_value=[]),
        open_session({"component": module}, plan, model, request) as session,
    ):
        start = 0
        for step in (lambda: None, one_pass, one_pass, session.end_request, one_pass):
            step()
            actions = session.actions()[start:]
            start += len(actions)
            found.append([[action[0], *action[2:]] for action in actions if action[0] in _RECORDED])
    setup, first, second, after, following = found
    # The use ends with its last pass, so the recorded end of the use follows at once.
    recorded = [record.setup, record.passes[0], record.passes[1] + record.finish, record.next_request_first_pass]
    ours = [setup, first, second + after, following]
    for name, expected, got in zip(("setup", "pass 1", "pass 2 and finish", "next"), recorded, ours, strict=True):
        assert list(compare_actions(name, expected, got)) == []
