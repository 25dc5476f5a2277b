"""Reproduces pass times and peak bytes of one component with layers of real sizes."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.conformance.difference import FieldDifference, compare_times, compare_values
from autotune.conformance.records import TimingRecord
from autotune.live_bytes import LiveBytes
from autotune.replay_core import Clock, Costs
from autotune.replay_passes import PassTimes, run_segment
from runtime.engines.lifecycle import number_work
from runtime.engines.sglang import SglangEngine
from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, PassGroup, RequestSpec, StackSpec, UseSpec
from runtime.plan import Plan

_COMPONENT = "component"

# Enough for every steady state that was ever seen (settled after 7 passes, period at most 2).
_PASSES = 64


def check_timing(record: TimingRecord) -> Iterator[FieldDifference]:
    """Replay load, a settled device, then passes, and yield what differs."""
    passes, peak_live_bytes = _replay(record)
    second_s = passes[1].first_s
    yield from compare_times("first_pass_after_load_s", record.first_pass_after_load_s, passes[0].first_s)
    yield from compare_times("second_pass_s", record.second_pass_s, second_s)
    yield from compare_times("steady_pass_s", record.steady_pass_s, passes[-1].steady_s)
    yield from compare_values("peak_live_bytes", record.peak_live_bytes, peak_live_bytes)


def _replay(record: TimingRecord) -> tuple[list[PassTimes], int]:
    model = _build_model(record)
    names = tuple(stack.name for stack in model.components[0].stacks)
    use = UseSpec(component=_COMPONENT, groups=(PassGroup(stacks=names, passes=_PASSES),))
    request = RequestSpec(uses=(use,))
    plan = Plan(engine=SglangEngine.name, placements=(record.place(_COMPONENT),))
    program = SglangEngine().lifecycle(model, request).build_program(plan)
    costs = _build_costs(record, work_count=len(number_work(request)))
    clock, live = Clock(costs), LiveBytes(costs)
    clock.run(program.load.actions)
    clock.settle()
    live.run([program.load])
    passes = []
    for segment in program.first.uses[0].segments:
        times = run_segment(clock, segment)
        if segment.group >= 0:
            passes.append(times)
    live.run(program.first.uses[0].segments)
    return passes, live.take_peak()


def _build_model(record: TimingRecord) -> ModelSpec:
    stacks = tuple(
        StackSpec(
            name=str(index),
            layers=tuple(
                LayerSpec(checkpoint_bytes=layer.weight_bytes, run_bytes=layer.weight_bytes) for layer in layers
            ),
        )
        for index, layers in enumerate(record.stacks)
    )
    component = ComponentSpec(
        name=_COMPONENT,
        class_name="Recorded",
        stacks=stacks,
        rest_run_bytes=0,
        rest_checkpoint_bytes=0,
        run_dtype="bfloat16",
    )
    return ModelSpec(name="recorded", components=(component,))


def _build_costs(record: TimingRecord, *, work_count: int) -> Costs:
    layers = [layer for stack in record.stacks for layer in stack]
    sizes = tuple(layer.weight_bytes for layer in layers)
    return Costs(
        copy_s=tuple(size / record.link_bytes_per_s for size in sizes),
        compute_s=tuple(layer.compute_s for layer in layers),
        weight_bytes=sizes,
        work_s=(0.0,) * work_count,
        up_s=(0.0,),
        first_up_s=(0.0,),
        down_s=(0.0,),
        component_bytes=(0,),
        cast_bytes=(0,),
        stack_of_slot=tuple(index for index, stack in enumerate(record.stacks) for _ in stack),
        stacks_of_component=(tuple(range(len(record.stacks))),),
    )
