"""Live modules with what a session needs to run them, from the one thing that a test cares about."""

import torch
from torch import nn
from toy_modules import UNPACED

from runtime.describe_module import describe_module
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.hosting import HostMemory, HostTier
from runtime.model_spec import ModelSpec, PassGroup, RequestSpec, UseSpec
from runtime.plan import Placement, Plan
from runtime.residency import Mode, Policy
from runtime.session import Executable, Session

WIDTH = 16
SGLANG = "sglang@0.5.23"
AMPLE = HostMemory(available_bytes=2**50)


class Block(nn.Module):
    """Two matrices around a nonlinearity, as blocks are."""

    def __init__(self, width=WIDTH, hidden=24):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Chain(nn.Module):
    """A projection, a list of blocks, and another projection."""

    def __init__(self, count=6, width=WIDTH):
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(count))
        self.order = list(range(count))

    def forward(self, x):
        x = self.first(x)
        for index in self.order:
            x = self.blocks[index](x)
        return self.last(x)


def seeded(make, *args, **kwargs):
    """A module with the same weights every time, without gradients."""
    torch.manual_seed(7)
    return make(*args, **kwargs).requires_grad_(False)


def executable_for(module, *, passes=3, stacks=("blocks",), engine=SGLANG, mode=Mode.LAYERWISE_OFFLOAD, **knobs):
    """A plan for one live module as ``transformer``."""
    spec = describe_module("transformer", module, stacks=stacks, is_dit=True)
    host = knobs.pop("host", AMPLE)
    placement = Placement(component="transformer", mode=mode, **knobs)
    return Executable(
        plan=Plan(engine=engine, placements=(placement,)),
        model=ModelSpec(name="toy", components=(spec,)),
        request=RequestSpec(
            uses=(UseSpec(component="transformer", groups=(PassGroup(stacks=tuple(stacks), passes=passes),)),)
        ),
        host=host,
    )


def pipeline_executable(modules, *, engine=SGLANG, passes=2, modes=None, **knobs):
    """A plan that streams every module of a pipeline, used one after another."""
    specs = tuple(
        describe_module(name, module, stacks=["blocks"], is_dit=name == "transformer")
        for name, module in modules.items()
    )
    modes = modes or {}
    placements = tuple(
        Placement(component=name, mode=modes[name])
        if name in modes
        else Placement(component=name, mode=Mode.LAYERWISE_OFFLOAD, **knobs)
        for name in modules
    )
    return Executable(
        plan=Plan(engine=engine, placements=placements),
        model=ModelSpec(name="toy", components=specs),
        request=RequestSpec(
            uses=tuple(
                UseSpec(component=name, groups=(PassGroup(stacks=("blocks",), passes=passes),)) for name in modules
            )
        ),
        host=AMPLE,
    )


def emulated(**options):
    """An emulated device whose copies are late and whose freed buffers are poisoned."""
    options = {"rates": UNPACED, "clock": ClockKind.VIRTUAL, "poison": True, "delay_seed": 3, **options}
    return EmulatedDevice(**options)


def open_session(module, *, device=None, executable=None, **plan):
    """A session of one module; its plan streams everything unless told otherwise."""
    executable = executable or executable_for(module, **plan)
    return Session({"transformer": module}, executable, device=device or emulated(), record_actions=True)


def inputs(step=0, batch=2, width=WIDTH):
    """An input that differs from step to step."""
    generator = torch.Generator().manual_seed(100 + step)
    return torch.randn(batch, width, generator=generator)


def snapshot(module):
    """Everything about a module that a session must leave as it was."""
    weights = {
        name: (tensor.detach().clone(), tensor.stride(), tensor.dtype, tensor.device)
        for name, tensor in module.state_dict().items()
    }
    modules = {
        name: (set(part.__dict__), part.__dict__["_parameters"], list(part._parameters.items()))
        for name, part in module.named_modules()
    }
    return weights, modules


def _bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def assert_as_found(module, before):
    """``module`` is what ``snapshot`` saw."""
    weights, modules = before
    after = module.state_dict()
    assert after.keys() == weights.keys()
    for name, (value, stride, dtype, device) in weights.items():
        found = after[name]
        assert (found.stride(), found.dtype, found.device) == (stride, dtype, device), name
        assert torch.equal(_bits(found), _bits(value)), name
    for name, part in module.named_modules():
        names, dictionary, parameters = modules[name]
        assert set(part.__dict__) == names, name
        assert part.__dict__["_parameters"] is dictionary, name
        for (key, parameter), (known, same) in zip(part._parameters.items(), parameters, strict=True):
            assert key == known, name
            assert parameter is same, f"{name}.{key}"


TIERS = tuple(HostTier)
POLICIES = tuple(Policy)
