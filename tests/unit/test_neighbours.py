"""Neighbours of a plan stay in the space, are new, and run out."""

import random

import pytest
from builders import SGLANG

from autotune.neighbours import draw_neighbour
from autotune.space import SearchSpace
from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, StackSpec
from runtime.plan import Placement, Plan
from runtime.residency import Mode


def build_model(layer_counts):
    layer = LayerSpec(checkpoint_bytes=1, run_bytes=1)
    return ModelSpec(
        name="toy",
        components=tuple(
            ComponentSpec(
                name=name,
                class_name="toy",
                stacks=(StackSpec(name="layers", layers=(layer,) * count),) if count else (),
                rest_run_bytes=0,
                rest_checkpoint_bytes=0,
                run_dtype="bfloat16",
            )
            for name, count in layer_counts.items()
        ),
    )


def start(model):
    return Plan(
        engine=SGLANG,
        placements=tuple(Placement(component=part.name, mode=Mode.RESIDENT) for part in model.components),
    )


@pytest.mark.parametrize("counts", [{"a": 6, "b": 0}, {"a": 1}, {"a": 2, "b": 9}])
def test_neighbours_lie_in_the_space_and_differ_from_everything_known(counts):
    model, space, rng = build_model(counts), SearchSpace(max_prefetch=3), random.Random(1)
    known = {start(model)}
    while len(known) < 20:
        plan = draw_neighbour(model, space, rng.choice(sorted(known, key=repr)), rng, known.__contains__)
        if plan is None:
            break
        assert plan not in known
        for placement, component in zip(plan.placements, model.components, strict=True):
            assert placement in space.placements(component)
        known.add(plan)
    assert len(known) > 1


def test_no_neighbour_is_left_when_every_plan_is_known():
    model = build_model({"a": 1})
    assert draw_neighbour(model, SearchSpace(), start(model), random.Random(0), lambda _: True) is None
