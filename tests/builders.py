"""Full objects from the one field that a test cares about.

Units of toy models: a layer's compute and copy times are given in milliseconds; one byte is copied, and one operation
computed, per microsecond.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autotune.cost_model import CostModel
from autotune.evaluate import AMPLE_HOST, Evaluator
from autotune.memory_model import MemoryModel, MemorySettings
from autotune.model_facts import ModelFacts
from autotune.rates import Rates
from autotune.work import GroupWork, UseWork, Work
from autotune.workload import Workload
from runtime.engines.registry import find_engine
from runtime.interference import NO_INTERFERENCE
from runtime.model_spec import (
    ComponentSpec,
    LayerSpec,
    ModelSpec,
    PassGroup,
    RequestSpec,
    StackSpec,
    UseSpec,
)
from runtime.plan import Placement, Plan
from runtime.residency import Mode

SGLANG = "sglang@0.5.23"
UNITS_PER_MS = 1000
RATES = Rates(
    pinned_bytes_per_s=1e6,
    pageable_bytes_per_s=5e5,
    disk_bytes_per_s=2.5e5,
    d2h_bytes_per_s=1e6,
    matmul_flops_per_s={"bfloat16": 1e6},
    attention_flops_per_s={"bfloat16": 1e6},
    memory_bytes_per_s=1e6,
)
NO_OVERHEAD = MemorySettings(context_bytes=0, reserve_bytes=0)


@dataclass(frozen=True, kw_only=True)
class ToyStack:
    """Layers of one stack: compute and copy milliseconds of each; passes of it in each use of its component."""

    compute_ms: Sequence[float]
    copy_ms: Sequence[float]
    passes: int = 1


@dataclass(frozen=True, kw_only=True)
class ToyComponent:
    """A component whose stacks run one after another, each with its own passes."""

    stacks: Mapping[str, ToyStack]
    is_dit: bool = False
    rest_ms: float = 0.0
    outside_ms: float = 0.0
    activation_bytes: int = 0


def build_stack(count, *, compute_ms=3.0, copy_ms=6.0, passes=1, uneven=None):
    """``count`` equal layers; ``uneven`` replaces the copy time of single layers."""
    copies = [copy_ms] * count
    for layer, time_ms in (uneven or {}).items():
        copies[layer] = time_ms
    return ToyStack(compute_ms=[compute_ms] * count, copy_ms=copies, passes=passes)


def build_component(count, *, is_dit=False, rest_ms=0.0, outside_ms=0.0, activation_bytes=0, **stack):
    """A component with one stack of ``count`` equal layers; none when ``count`` is 0."""
    return ToyComponent(
        stacks={"blocks": build_stack(count, **stack)} if count else {},
        is_dit=is_dit,
        rest_ms=rest_ms,
        outside_ms=outside_ms,
        activation_bytes=activation_bytes,
    )


def build_facts(components, *, uses=None, output_frames_bytes=0):
    """Facts of a toy model whose request uses each component once in order, unless ``uses`` names them."""
    used = tuple(components) if uses is None else tuple(uses)
    return ModelFacts(
        model=ModelSpec(
            name="toy", components=tuple(_build_spec(name, component) for name, component in components.items())
        ),
        workload=Workload(width=64, height=64, frames=1, steps=1, prompt_tokens=1),
        request=RequestSpec(
            uses=tuple(
                UseSpec(
                    component=name,
                    groups=tuple(
                        PassGroup(stacks=(stack,), passes=toy.passes) for stack, toy in components[name].stacks.items()
                    ),
                )
                for name in used
            )
        ),
        work=tuple(_build_work(name, components[name]) for name in used),
        output_frames_bytes=output_frames_bytes,
    )


def build_evaluator(
    components, *, engine=SGLANG, uses=None, settings=NO_OVERHEAD, host=AMPLE_HOST, interference=NO_INTERFERENCE
):
    """An evaluator of the toy model that ``build_facts`` makes of the same arguments."""
    facts = build_facts(components, uses=uses)
    rates = replace(RATES, interference=interference)
    return Evaluator(CostModel(facts, rates), MemoryModel(facts, settings), find_engine(engine), host)


def streamed(component="transformer", **knobs):
    """``component`` streamed layer by layer."""
    return Placement(component=component, mode=Mode.LAYERWISE_OFFLOAD, **knobs)


def kept(component="transformer"):
    """``component`` resident."""
    return Placement(component=component, mode=Mode.RESIDENT)


def moved(component="transformer"):
    """``component`` moved whole."""
    return Placement(component=component, mode=Mode.COMPONENT_OFFLOAD)


def build_plan(*placements, engine=SGLANG, **changes):
    """A plan of ``placements``, which must cover the model."""
    return Plan(engine=engine, placements=placements, **changes)


def evaluate_stack(count, *, engine=SGLANG, passes=60, placement=None, stack=None, **layers):
    """Times of one transformer stack's passes in the first request, and its evaluation."""
    toy = stack if stack is not None else build_stack(count, passes=passes, **layers)
    evaluator = build_evaluator({"transformer": ToyComponent(stacks={"blocks": toy}, is_dit=True)}, engine=engine)
    evaluation = evaluator.evaluate(build_plan(placement or streamed(), engine=engine))
    return evaluation.first_uses[0].passes[0], evaluation


def _units(time_ms):
    return round(time_ms * UNITS_PER_MS)


def _build_spec(name, component):
    return ComponentSpec(
        name=name,
        class_name="Toy",
        stacks=tuple(
            StackSpec(
                name=stack,
                layers=tuple(LayerSpec(checkpoint_bytes=_units(ms), run_bytes=_units(ms)) for ms in toy.copy_ms),
            )
            for stack, toy in component.stacks.items()
        ),
        rest_run_bytes=_units(component.rest_ms),
        rest_checkpoint_bytes=_units(component.rest_ms),
        run_dtype="bfloat16",
        is_dit=component.is_dit,
    )


def _build_work(name, component):
    return UseWork(
        component=name,
        compute_dtype="bfloat16",
        groups=tuple(
            GroupWork(layers={stack: tuple(Work(matmul_flops=_units(ms)) for ms in toy.compute_ms)})
            for stack, toy in component.stacks.items()
        ),
        outside=Work(matmul_flops=_units(component.outside_ms)),
        activation_bytes=component.activation_bytes,
    )


def peak_of(evaluation, component):
    """The most that is charged while ``component`` is in use, as a phase."""
    own = [phase for phase in evaluation.phases if phase.phase.endswith(f": {component}")]
    return max(own, key=lambda phase: phase.charged_bytes)
