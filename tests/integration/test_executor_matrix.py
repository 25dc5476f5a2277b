"""Every way to keep a stack gives the plain module's bits: toy stacks of 1 to 8 layers, and reduced real models."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from executor_builders import AMPLE, Chain, emulated, executable_for, inputs, seeded
from reduced_models import REDUCED_MODELS

from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator
from autotune.memory_model import MemoryModel, MemorySettings
from autotune.model_facts import ModelFacts
from autotune.rates import Rates
from autotune.work import GroupWork, UseWork, Work
from autotune.workload import Workload
from runtime.describe_module import describe_module
from runtime.engines.host_rules import ComponentHosting, PlanHosting, list_hosted
from runtime.engines.registry import find_engine, list_engines
from runtime.hosting import HostTier, build_stack_hosting
from runtime.model_spec import ModelSpec, PassGroup, RequestSpec, UseSpec
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy
from runtime.session import Executable, Session

PASSES, REQUESTS = 3, 2
RATES = Rates(
    pinned_bytes_per_s=1e6,
    pageable_bytes_per_s=1e6,
    d2h_bytes_per_s=1e6,
    matmul_flops_per_s={"bfloat16": 1e6, "float16": 1e6, "float32": 1e6},
    attention_flops_per_s={"bfloat16": 1e6, "float16": 1e6, "float32": 1e6},
    memory_bytes_per_s=1e6,
)


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


def every_placement(component, most_layers):
    """Every placement of a component whose longest stack has ``most_layers`` layers."""
    for prefetch, resident, policy, lifetime in product(
        range(1, most_layers + 3), range(most_layers + 1), Policy, Lifetime
    ):
        yield Placement(
            component=component,
            mode=Mode.LAYERWISE_OFFLOAD,
            prefetch=prefetch,
            resident=resident,
            policy=policy,
            lifetime=lifetime,
        )
    yield Placement(component=component, mode=Mode.COMPONENT_OFFLOAD)
    yield Placement(component=component, mode=Mode.RESIDENT)


def every_tier(placement):
    """The tiers that all layers of a stack can wait in together, and a mixture of them."""
    return (*HostTier, None) if placement.mode is Mode.LAYERWISE_OFFLOAD else (HostTier.PINNED,)


def host_in(spec, placement, tier):
    """All layers of ``spec`` hosted in ``tier``; in turns in each for None."""
    if placement.mode is not Mode.LAYERWISE_OFFLOAD:
        hosting = ComponentHosting()
    else:
        stacks = []
        for stack in spec.stacks:
            count = len(stack.layers)
            gone = placement.permanent_layers(count)
            tiers = [
                None if layer in gone else tier or tuple(HostTier)[layer % len(HostTier)] for layer in range(count)
            ]
            layers = [None if layer in gone else hosted for layer, hosted in enumerate(list_hosted(stack, mapped=True))]
            stacks.append(build_stack_hosting(layers, tiers, placement.streamed_layers(count)))
        hosting = ComponentHosting(stacks=tuple(stacks))
    return PlanHosting(components=(hosting,), budgets=(), memory=AMPLE)


def build_evaluator(model, request, engine):
    """Predicts bytes; times are of no interest here."""
    use = request.uses[0]
    spec = model.components[0]
    work = UseWork(
        component=use.component,
        compute_dtype="float32",
        groups=tuple(
            GroupWork(layers={name: (Work(),) * len(spec.stack(name).layers) for name in group.stacks})
            for group in use.groups
        ),
    )
    facts = ModelFacts(
        model=model,
        workload=Workload(width=64, height=64, frames=1, steps=1, prompt_tokens=1),
        request=request,
        work=(work,),
        output_frames_bytes=0,
    )
    memory = MemoryModel(facts, MemorySettings(context_bytes=0, reserve_bytes=0))
    return Evaluator(CostModel(facts, RATES), memory, find_engine(engine))


def check_every_plan(module, executable, engine, call, *, calls=PASSES, stacks=None):
    """Run ``module`` under every plan; equal programs from equal memory are run once."""
    (spec,) = executable.model.components
    evaluator = build_evaluator(executable.model, executable.request, engine)
    plain = [call(module, step).clone() for step in range(calls)]
    seen = set()
    for placement in every_placement(spec.name, spec.max_layers):
        plan = Plan(engine=engine, placements=(placement,))
        program = evaluator.lifecycle.build_program(plan)
        actions = (program.load.actions, tuple(program.first.actions()), tuple(program.later.actions()))
        phases = evaluator.evaluate(plan).phases
        most = max(phase.streamed_bytes + phase.standing_bytes for phase in phases)
        for tier in every_tier(placement):
            key = (placement.mode, placement.lifetime, actions, tier)
            if key in seen:
                continue
            seen.add(key)
            buffers = sum(buffer.nbytes for buffer in module.buffers())
            device = emulated(capacity_bytes=most + buffers, delay_seed=len(seen))
            session = Session(
                {spec.name: module},
                replace(executable, plan=plan, hosting=host_in(spec, placement, tier)),
                device=device,
                stacks={spec.name: dict(stacks)} if stacks else None,
            )
            with session:
                for _ in range(REQUESTS):
                    with session.request():
                        for step in range(calls):
                            output = call(module, step)
                            assert torch.equal(output, plain[step]), (placement.describe(), tier, step)
                report = session.report()
            assert sum(request.misses for request in report.requests) == 0
            measured = {phase.phase: phase.peak_weight_bytes for phase in report.phases}
            for phase in phases:
                planned = phase.streamed_bytes + phase.standing_bytes
                assert measured[phase.phase] == planned, (placement.describe(), tier, phase.phase)
            assert all(size == 0 for size in device.memory().live_bytes.values())
    assert torch.equal(call(module, 0), plain[0])
    return len(seen)


@pytest.mark.parametrize("engine", list_engines())
@pytest.mark.parametrize("count", range(1, 9))
def test_toy_stacks(engine, count):
    module = seeded(Chain, count)
    plans = check_every_plan(
        module, executable_for(module, passes=PASSES), engine, lambda module, step: module(inputs(step))
    )
    assert plans >= 10 * count


@pytest.mark.parametrize("engine", list_engines())
@pytest.mark.parametrize("build", REDUCED_MODELS, ids=lambda build: build.__name__.removeprefix("build_"))
def test_reduced_real_models(engine, build):
    reduced = build()
    spec = describe_module(reduced.component, reduced.module, stacks=reduced.stacks, is_dit=True)
    calls = -(-PASSES // reduced.passes)
    group = PassGroup(stacks=reduced.run_order, passes=calls * reduced.passes)
    request = RequestSpec(uses=(UseSpec(component=reduced.component, groups=(group,)),))
    executable = Executable(
        plan=Plan(engine=engine, placements=(Placement(component=reduced.component, mode=Mode.LAYERWISE_OFFLOAD),)),
        model=ModelSpec(name="reduced", components=(spec,)),
        request=request,
        host=AMPLE,
    )
    check_every_plan(reduced.module, executable, engine, reduced.call, calls=calls, stacks=reduced.stacks)
