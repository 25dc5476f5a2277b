"""Random toy models, plans and spaces for property tests: small enough for brute force, uneven enough to disagree."""

from itertools import product

from builders import SGLANG, ToyComponent, ToyStack, build_evaluator
from hypothesis import strategies as st

from autotune.space import SearchSpace
from runtime.engines.registry import list_engines
from runtime.interference import NO_INTERFERENCE, Interference
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy

ENGINES = st.sampled_from(list_engines())
_COMPUTE_MS = st.sampled_from([0, 1, 2, 3, 5, 8])
_COPY_MS = st.sampled_from([0, 1, 2, 3, 5, 8, 13])

_PASSES = st.sampled_from([1, 1, 2, 3, 7])

# Component names, and their order of use where that is not the order of the model.
SHAPES = {
    "video": (("text_encoder", "dit", "vae"), None),
    "two encoders": (("text_encoder", "text_encoder_2", "dit"), None),
    "two experts": (("text_encoder", "dit", "dit_2"), None),
    "encoder between experts": (("dit", "text_encoder", "dit_2"), None),
    "encoder used again": (("text_encoder", "dit"), ("text_encoder", "dit", "text_encoder", "dit")),
    "decoder unused": (("text_encoder", "dit", "vae"), ("text_encoder", "dit")),
}


@st.composite
def stacks(draw, max_layers=6, passes=_PASSES):
    """One stack; often of equal layers."""
    count = draw(st.integers(1, max_layers))
    if draw(st.booleans()):
        compute, copy = [draw(_COMPUTE_MS)] * count, [draw(_COPY_MS)] * count
    else:
        compute = draw(st.lists(_COMPUTE_MS, min_size=count, max_size=count))
        copy = draw(st.lists(_COPY_MS, min_size=count, max_size=count))
    return ToyStack(compute_ms=compute, copy_ms=copy, passes=draw(passes))


@st.composite
def components(draw, *, is_dit=False, max_layers=4, max_stacks=2):
    """A component with up to ``max_stacks`` stacks; now and then with none."""
    count = draw(st.sampled_from([*range(1, max_stacks + 1)] * 4 + [0]))
    return ToyComponent(
        stacks={f"stack_{index}": draw(stacks(max_layers)) for index in range(count)},
        is_dit=is_dit,
        rest_ms=draw(st.sampled_from([0, 1, 4])),
        outside_ms=draw(st.sampled_from([0, 0, 1, 3])),
        activation_bytes=draw(st.sampled_from([0, 1000, 5000, 20000])),
    )


UNDISTURBED = st.just(NO_INTERFERENCE)
INTERFERENCES = st.builds(
    Interference,
    compute_slowdown_ratio=st.sampled_from([0.0, 0.02, 0.25, 1.0, 3.0]),
    copy_slowdown_ratio=st.sampled_from([0.0, 0.0, 0.03, 0.5, 1.0, 2.0]),
)


@st.composite
def evaluators(draw, *, max_layers=4, max_stacks=2, engines=ENGINES, interferences=UNDISTURBED):
    """An evaluator of a toy pipeline of one of the shapes."""
    names, uses = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]
    toys = {
        name: draw(components(is_dit=name.startswith("dit"), max_layers=max_layers, max_stacks=max_stacks))
        for name in names
    }
    return build_evaluator(toys, uses=uses, engine=draw(engines), interference=draw(interferences))


@st.composite
def small_evaluators(draw, **traits):
    """One that leaves few enough plans for brute force."""
    return draw(evaluators(max_layers=2, max_stacks=1, engines=st.sampled_from([SGLANG, SGLANG, "topup"]), **traits))


@st.composite
def placements(draw, component):
    """Any placement of ``component``, folded or not."""
    modes = [mode for mode in Mode if component.max_layers or mode is not Mode.LAYERWISE_OFFLOAD]
    mode = draw(st.sampled_from([*modes, modes[-1], modes[-1]]))
    if mode is not Mode.LAYERWISE_OFFLOAD:
        return Placement(component=component.name, mode=mode)
    return Placement(
        component=component.name,
        mode=mode,
        prefetch=draw(st.integers(1, component.max_layers + 1)),
        resident=draw(st.integers(0, component.max_layers)),
        policy=draw(st.sampled_from(Policy)),
        lifetime=draw(st.sampled_from(Lifetime)),
    )


@st.composite
def plans_of(draw, evaluator):
    """Any plan of the model of ``evaluator``, given by flags or chosen by the server."""
    placed = tuple(draw(placements(component)) for component in evaluator.cost_model.facts.model.components)
    return Plan(engine=evaluator.engine.name, placements=placed, explicit=draw(st.booleans()))


@st.composite
def evaluators_with_plan(draw, **traits):
    """An evaluator and any plan of its model."""
    evaluator = draw(evaluators(**traits))
    return evaluator, draw(plans_of(evaluator))


def all_plans(evaluator, space: SearchSpace):
    """Every plan of ``space``."""
    choices = [space.placements(component) for component in evaluator.cost_model.facts.model.components]
    return [Plan(engine=evaluator.engine.name, placements=placed) for placed in product(*choices)]
