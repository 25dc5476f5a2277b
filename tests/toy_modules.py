"""Live modules of the toy models of ``builders``: as many bytes as planned, and every bit of them has a part in the
result."""

import torch
from builders import RATES
from torch import nn

from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates
from runtime.session import Executable, Session

WIDTH = 8
UNPACED = LinkRates(
    pinned_bytes_per_s=float("inf"),
    pageable_bytes_per_s=float("inf"),
    d2h_bytes_per_s=float("inf"),
    disk_bytes_per_s=float("inf"),
    page_cache="all",
)
TOY_LINK = LinkRates(
    pinned_bytes_per_s=RATES.pinned_bytes_per_s,
    pageable_bytes_per_s=RATES.pageable_bytes_per_s,
    d2h_bytes_per_s=RATES.d2h_bytes_per_s,
    disk_bytes_per_s=RATES.disk_bytes_per_s,
    page_cache="nothing",
)


def random_weights(size_bytes, generator):
    """A float32 parameter of ``size_bytes``."""
    return nn.Parameter(torch.randn(size_bytes // 4, generator=generator), requires_grad=False)


class ToyLayer(nn.Module):
    """Mixes its input with every one of its weights."""

    def __init__(self, size_bytes, generator):
        super().__init__()
        self.weight = random_weights(size_bytes, generator)

    def forward(self, x):
        if not self.weight.numel():
            return x + 1
        mixed = self.weight.reshape(1, -1).repeat(1, 1).sin().sum() / self.weight.numel()
        return torch.tanh(x * (1 + mixed) + self.weight[: x.numel()].sum() / 16)


class ToyModule(nn.Module):
    """A component of ``ComponentSpec`` with equal bytes; ``forward(x, stack)`` is one pass of one stack."""

    def __init__(self, spec, generator):
        super().__init__()
        self.stacks = nn.ModuleDict()
        for stack in spec.stacks:
            layers = [ToyLayer(layer.run_bytes, generator) for layer in stack.layers]
            self.add_module(stack.name, nn.ModuleList(layers))
        self.rest = random_weights(spec.rest_run_bytes, generator)

    def forward(self, x, stack=None):
        if self.rest.numel():
            x = x + self.rest.sum() / self.rest.numel()
        if stack is not None:
            for layer in getattr(self, stack):
                x = layer(x)
        return x


def build_modules(model, seed=0):
    """Modules of every component of a toy model."""
    generator = torch.Generator().manual_seed(seed)
    return {component.name: ToyModule(component, generator) for component in model.components}


def build_executable(evaluator, plan):
    """What a session needs to run ``plan``."""
    lifecycle = evaluator.lifecycle
    return Executable(plan=plan, model=lifecycle.model, request=lifecycle.request, host=evaluator.host_rule.memory)


def run_request(modules, request, x=None):
    """One request of plain calls; returns the output of its last use."""
    x = torch.ones(WIDTH) if x is None else x
    with torch.no_grad():
        for use in request.uses:
            for group in use.groups:
                for _ in range(group.passes):
                    for stack in group.stacks:
                        x = modules[use.component](x, stack)
    return x


def virtual_device(evaluator, plan, **options):
    """An emulated device on a virtual clock that spends what the cost model expects."""
    costs = evaluator.costs_of(plan)
    stacks = {(ref.component, ref.name): ref for ref in evaluator.lifecycle.stacks}
    names = [component.name for component in evaluator.lifecycle.model.components]

    def compute_s(label):
        return costs.compute_s[stacks[names.index(label.component), label.stack].first_slot + label.layer]

    return EmulatedDevice(
        rates=options.pop("rates", TOY_LINK),
        clock=ClockKind.VIRTUAL,
        compute_s=compute_s,
        work_s=lambda index: costs.work_s[index],
        **options,
    )


def run_on_device(evaluator, plan, device, *, requests=2, seed=0):
    """Two requests under ``plan``; returns their outputs, the session's report, and the recorded actions."""
    modules = build_modules(evaluator.lifecycle.model, seed)
    session = Session(modules, build_executable(evaluator, plan), device=device, record_actions=True)
    outputs = []
    with session:
        for _ in range(requests):
            outputs.append(run_request(modules, evaluator.lifecycle.request))
            session.end_request()
        report, actions = session.report(), session.actions()
    return outputs, report, actions
