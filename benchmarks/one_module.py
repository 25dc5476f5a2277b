"""One live module as a whole model: what a session needs to run it, and what the replay predicts for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn
from toy_models import builders

from autotune.cost_model import CostModel
from autotune.evaluate import Evaluation, Evaluator
from autotune.memory_model import MemoryModel, MemorySettings
from autotune.model_facts import ModelFacts
from autotune.rates import Rates
from autotune.work import GroupWork, UseWork, Work
from autotune.workload import Workload
from runtime.describe_module import describe_module
from runtime.engines.registry import find_engine
from runtime.hosting import HostMemory
from runtime.model_spec import ModelSpec, PassGroup, RequestSpec, UseSpec
from runtime.plan import Placement, Plan
from runtime.session import Executable

AMPLE = HostMemory(available_bytes=2**50)
_OPERATIONS_PER_S = 1e12


def plan_module(
    module: nn.Module,
    placement: Placement,
    *,
    stacks: Mapping[str, str],
    passes: int,
    run_order: Sequence[str] | None = None,
    engine: str = builders.SGLANG,
    host: HostMemory = AMPLE,
) -> Executable:
    """A plan for ``module`` alone; a request is ``passes`` passes.

    Args:
        module: live, with its weights.
        placement: of the component.
        stacks: name of each stack -> path of its list in the module.
        passes: of a request.
        run_order: the stacks that run in a pass, in order; None for all of them.
        engine: whose schedule is followed.
        host: what the host can hold.
    """
    component = describe_module(placement.component, module, stacks=stacks, is_dit=True)
    running = tuple(stacks if run_order is None else run_order)
    use = UseSpec(component=component.name, groups=(PassGroup(stacks=running, passes=passes),))
    return Executable(
        plan=Plan(engine=engine, placements=(placement,)),
        model=ModelSpec(name=component.class_name, components=(component,)),
        request=RequestSpec(uses=(use,)),
        host=host,
    )


def predict(executable: Executable, *, layer_s: float, copy_bytes_per_s: float) -> Evaluation:
    """Times and bytes of a plan of ``plan_module`` whose layers all compute for ``layer_s``, on one link rate."""
    (component,) = executable.model.components
    (use,) = executable.request.uses
    work = Work(matmul_flops=layer_s * _OPERATIONS_PER_S)
    layers = {stack.name: (work,) * len(stack.layers) for stack in component.stacks}
    facts = ModelFacts(
        model=executable.model,
        workload=Workload(width=64, height=64, frames=1, steps=1, prompt_tokens=1),
        request=executable.request,
        work=(UseWork(component=use.component, compute_dtype="bfloat16", groups=(GroupWork(layers=layers),)),),
        output_frames_bytes=0,
    )
    rates = Rates(
        pinned_bytes_per_s=copy_bytes_per_s,
        pageable_bytes_per_s=copy_bytes_per_s,
        d2h_bytes_per_s=copy_bytes_per_s,
        matmul_flops_per_s={"bfloat16": _OPERATIONS_PER_S},
        attention_flops_per_s={"bfloat16": _OPERATIONS_PER_S},
        memory_bytes_per_s=1e12,
    )
    memory = MemoryModel(facts, MemorySettings(context_bytes=0, reserve_bytes=0))
    evaluator = Evaluator(CostModel(facts, rates), memory, find_engine(executable.plan.engine), executable.host)
    return evaluator.evaluate(executable.plan)
