"""Blocks of a profiled transformer, executed under plans: a steady pass as its profile predicts it, and as it is."""

from __future__ import annotations

import statistics
from dataclasses import replace
from datetime import UTC, datetime

from heavy_stack import COMPONENT, Bench
from one_module import AMPLE
from reporting import CheckError
from toy_models import builders

from autotune.catalog.built_component import BuiltComponent
from autotune.catalog.entry import CatalogEntry
from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator
from autotune.hardware import find_device
from autotune.host_memory import read_host_memory
from autotune.measurements.model_profile import ModelProfile
from autotune.measurements.planning import build_planning_profile
from autotune.memory_model import MemoryModel, MemorySettings
from autotune.profile import Profile
from autotune.work import UseWork, Work
from autotune.workflows.live_execution import check_host, run_built
from autotune.workflows.profiled_device import open_profiled_device
from autotune.workflows.profiling import Profiled
from autotune.workflows.run_settings import Rounds
from autotune.workflows.target import DEFAULT_DEVICE
from runtime.engines.registry import find_engine
from runtime.engines.topup import TopupEngine
from runtime.model_spec import ComponentSpec, ModelSpec, RequestSpec
from runtime.plan import Placement, Plan
from runtime.residency import Policy
from runtime.session import Executable

BLOCKS = (12, 8, 6, 4)
"""Of the 50 of H3: the first of these counts that host memory holds."""

STACK = "blocks"
PASSES = 5
ROUNDS = Rounds(warmup=1, repeats=2)


def execute_plans(bench: Bench, entry: CatalogEntry, profiled: Profiled) -> tuple[list[dict[str, object]], list[str]]:
    """Steady passes of some blocks under each plan, predicted and measured; and what there was no time for."""
    built = _build_blocks(bench, entry)
    facts_of_blocks = take_blocks(profiled.model, built.spec, passes=PASSES, has_work_outside=not bench.is_emulated)
    profile = build_planning_profile(facts_of_blocks, profiled.node, None, now=datetime.now(UTC))
    rows: list[dict[str, object]] = []
    left_out: list[str] = []
    for engine, placement in _list_plans(built.spec):
        title = f"{engine} {placement.describe()}"
        if not bench.has_time:
            left_out.append(title)
            continue
        executable = Executable(
            plan=Plan(engine=engine, placements=(placement,)),
            model=profile.facts.model,
            request=profile.facts.request,
            host=AMPLE,
        )
        predicted_s, measured_s = predict_pass_s(profile, executable), measure_pass_s(bench, entry, built, executable)
        rows.append(
            {
                "plan": title,
                "blocks": len(built.stacks[STACK]),
                "predicted_ms": predicted_s * 1e3,
                "measured_ms": measured_s * 1e3,
                "error_ratio": measured_s / predicted_s - 1,
            }
        )
        bench.drop_caches()
    return rows, left_out


def _list_plans(spec: ComponentSpec) -> tuple[tuple[str, Placement], ...]:
    """Every layer copied one ahead, every other one, every one asked for three ahead; by the server and by us."""
    half = len(spec.stack(STACK).layers) // 2
    return (
        (builders.SGLANG, builders.streamed()),
        (builders.SGLANG, builders.streamed(resident=half, policy=Policy.STRIDED)),
        (builders.SGLANG, builders.streamed(prefetch=3)),
        (TopupEngine.name, builders.streamed(prefetch=3)),
    )


def _build_blocks(bench: Bench, entry: CatalogEntry) -> BuiltComponent:
    """The transformer with as many blocks as the host holds; all of them where it is a reduced one."""
    config = entry.configs[COMPONENT]
    counts = (config["num_layers"],) if bench.is_emulated else BLOCKS
    for count in counts:
        configs = {**entry.configs, COMPONENT: {**config, "num_layers": count}}
        built = entry.build(configs, entry.default_workload)[COMPONENT]()
        shortage = check_host(ModelSpec(name=entry.name, components=(built.spec,)), read_host_memory())
        if shortage is None:
            return built
    raise CheckError(shortage.describe())


def take_blocks(profile: ModelProfile, spec: ComponentSpec, *, passes: int, has_work_outside: bool) -> ModelProfile:
    """The part of ``profile`` that says how a transformer of the first blocks runs, all alone, for some passes."""
    facts = profile.facts
    place = next(index for index, use in enumerate(facts.request.uses) if use.component == spec.name)
    use, work = facts.request.uses[place], facts.work[place]
    longest = max(group.passes for group in use.groups)
    groups = tuple(replace(group, passes=passes) if group.passes == longest else group for group in use.groups)
    alone = replace(
        facts,
        model=ModelSpec(name=facts.model.name, components=(spec,)),
        request=RequestSpec(uses=(replace(use, groups=groups),)),
        work=(_shorten(work, spec, has_work_outside=has_work_outside),),
        output_frames_bytes=0,
    )
    pieces = tuple(piece for piece in profile.pieces if piece.record.component == spec.name)
    return replace(profile, facts=alone, pieces=pieces, components=(spec.name,))


def _shorten(work: UseWork, spec: ComponentSpec, *, has_work_outside: bool) -> UseWork:
    counts = {stack.name: len(stack.layers) for stack in spec.stacks}
    groups = tuple(
        replace(
            group,
            layers={stack: layers[: counts[stack]] for stack, layers in group.layers.items()},
            outside=group.outside if has_work_outside else Work(),
        )
        for group in work.groups
    )
    return replace(work, groups=groups, outside=work.outside if has_work_outside else Work())


def predict_pass_s(profile: Profile, executable: Executable) -> float:
    """A steady pass over the blocks, as the replay has it."""
    memory = MemoryModel(profile.facts, MemorySettings(context_bytes=profile.context_bytes))
    costs, engine = CostModel(profile.facts, profile.rates), find_engine(executable.plan.engine)
    evaluation = Evaluator(costs, memory, engine, executable.host).evaluate(executable.plan)
    return max(evaluation.uses[0].passes, key=lambda one: one.count).steady_s


def measure_pass_s(bench: Bench, entry: CatalogEntry, built: BuiltComponent, executable: Executable) -> float:
    """The same as the runtime does it, on the device that was profiled: the median of later requests."""
    every = entry.build(entry.configs, entry.default_workload)
    target = open_profiled_device(bench.device.name, find_device(DEFAULT_DEVICE), {COMPONENT: every[COMPONENT]})
    try:
        report, _ = run_built(executable, {built.spec.name: built}, target.device, ROUNDS, seed=0)
    finally:
        target.device.close()
    (use,) = executable.request.uses
    group = max(range(len(use.groups)), key=lambda index: use.groups[index].passes)
    return statistics.median(request.uses[0].steady_pass_s(group) for request in report.later)
