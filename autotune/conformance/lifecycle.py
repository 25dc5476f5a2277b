"""Reproduces whole requests of a pipeline: every action, and what stays on the device between requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autotune.conformance.difference import FieldDifference, compare_actions, compare_values
from autotune.conformance.records import LifecycleRecord
from runtime.engines.sglang import SglangEngine
from runtime.errors import InputError
from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, PassGroup, RequestSpec, StackSpec, UseSpec
from runtime.plan import Placement, Plan
from runtime.program import Action, Op, Program
from runtime.residency import Mode

_DIT = "transformer"
_REFINER = "refiner"

# The stack that each use of the recorded request runs; any other stack but the refiner is left alone.
_STACK_OF_USE = {"text_encoder": "layers", _DIT: "blocks", "video_vae": "decoder"}

_TAKES = frozenset({Op.H2D, Op.H2D_BLOCKING, Op.PLACE})
_NOT_RECORDED = frozenset({Op.WORK, Op.PLACE})


def check_lifecycle(record: LifecycleRecord) -> Iterator[FieldDifference]:
    """Write our program for the recorded life and yield what differs.

    Raises:
        InputError: the record lacks a component or a stack that its own request uses.
    """
    model, plan, request = build_case(record)
    program = SglangEngine().lifecycle(model, request).build_program(plan)
    live: set[int] = set()
    _follow(program.load.actions, live)
    yield from compare_values("live_after_load", record.live_after_load, _name_live(program, plan, live))
    for index, (recorded, ours) in enumerate(zip(record.requests, (program.first, program.later), strict=True)):
        actions = spell_as_recorded(program.name(action) for action in ours.actions())
        yield from compare_actions(f"requests[{index}].actions", recorded.actions, list(actions))
        _follow(ours.actions(), live)
        found = _name_live(program, plan, live)
        yield from compare_values(f"requests[{index}].live_idle", recorded.live_idle, found)


def build_case(record: LifecycleRecord) -> tuple[ModelSpec, Plan, RequestSpec]:
    """The recorded pipeline, how it was placed, and its request.

    Raises:
        InputError: as ``check_lifecycle``.
    """
    model = _build_model(record)
    plan = Plan(engine=SglangEngine.name, placements=_place(record, model), explicit=record.explicit)
    return model, plan, _build_request(record)


def _build_model(record: LifecycleRecord) -> ModelSpec:
    for component, stack in _STACK_OF_USE.items():
        if stack not in record.sizes.get(component, {}):
            raise InputError(f"`sizes` has no {component}.{stack}, which the recorded request uses")
    layer = LayerSpec(checkpoint_bytes=1, run_bytes=1)
    return ModelSpec(
        name="recorded",
        components=tuple(
            ComponentSpec(
                name=name,
                class_name="Recorded",
                stacks=tuple(StackSpec(name=stack, layers=(layer,) * count) for stack, count in stacks.items()),
                rest_run_bytes=0,
                rest_checkpoint_bytes=0,
                run_dtype="bfloat16",
                is_dit=name == _DIT,
            )
            for name, stacks in record.sizes.items()
        ),
    )


def _place(record: LifecycleRecord, model: ModelSpec) -> tuple[Placement, ...]:
    unknown = sorted(set(record.knobs) - set(record.sizes))
    if unknown:
        raise InputError(f"`knobs` names {', '.join(unknown)}, which `sizes` does not have")
    return tuple(
        record.knobs[component.name].place(component.name)
        if component.name in record.knobs
        else Placement(component=component.name, mode=Mode.RESIDENT)
        for component in model.components
    )


def _build_request(record: LifecycleRecord) -> RequestSpec:
    passes = {"text_encoder": 1, _DIT: record.transformer_passes, "video_vae": record.video_vae_passes}
    refiner = (PassGroup(stacks=(_REFINER,), passes=1),) if _REFINER in record.sizes[_DIT] else ()
    return RequestSpec(
        uses=tuple(
            UseSpec(
                component=component,
                groups=(
                    *(refiner if component == _DIT else ()),
                    PassGroup(stacks=(stack,), passes=passes[component]),
                ),
            )
            for component, stack in _STACK_OF_USE.items()
        )
    )


def spell_as_recorded(actions: Iterable[tuple[str | int, ...]]) -> Iterator[tuple[str | int, ...]]:
    """Named actions of one request as the recording writes them.

    The recording marks one end of what begins a use: for the transformer the far one (its driver steps in when the
    server has queued everything), for the others the near one.
    """
    for action in actions:
        op = Op[str(action[0]).upper()]
        if op in _NOT_RECORDED:
            continue
        if op in (Op.BEGIN_USE, Op.IN_USE) and (action[1] == _DIT) != (op is Op.IN_USE):
            continue
        yield action


def _follow(actions: Iterable[Action], live: set[int]) -> None:
    """Bring ``live``, the slots on the device, up to date."""
    for op, slot in actions:
        if op in _TAKES:
            live.add(slot)
        elif op == Op.RELEASE:
            live.discard(slot)


def _name_live(program: Program, plan: Plan, live: set[int]) -> dict[str, list[int]]:
    """Live layers of every stack that streams, as recorded: ``component.stack`` -> layers."""
    return {
        f"{program.components[stack.component]}.{stack.name}": [
            slot - stack.first_slot
            for slot in range(stack.first_slot, stack.first_slot + stack.layer_count)
            if slot in live
        ]
        for stack in program.stacks
        if plan.streams(program.components[stack.component])
    }
