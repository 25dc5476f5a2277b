import dataclasses

import pytest
from builders import build_component, build_facts, build_plan, kept, moved, streamed

from runtime.errors import InputError, PlanError
from runtime.plan import Placement
from runtime.residency import Lifetime, Mode, Policy


@pytest.mark.parametrize(
    ("knobs", "rule"),
    [
        ({"prefetch": 0}, r"dit\.prefetch is 0: it counts layers ahead and must be >= 1"),
        ({"prefetch": -3}, r"dit\.prefetch is -3"),
        ({"resident": -1}, r"dit\.resident is -1: it counts layers and must be >= 0"),
    ],
)
def test_a_placement_refuses_counts_that_mean_nothing(knobs, rule):
    with pytest.raises(PlanError, match=rule):
        streamed("dit", **knobs)


@pytest.mark.parametrize("mode", [Mode.RESIDENT, Mode.COMPONENT_OFFLOAD])
@pytest.mark.parametrize(
    "knobs", [{"prefetch": 2}, {"resident": 1}, {"policy": Policy.STRIDED}, {"lifetime": Lifetime.PERMANENT}]
)
def test_a_placement_refuses_knobs_that_its_mode_does_not_have(mode, knobs):
    with pytest.raises(PlanError, match="apply to layerwise-offload only; leave them out or set the mode"):
        Placement(component="dit", mode=mode, **knobs)


def test_a_plan_refuses_a_component_that_is_placed_twice():
    with pytest.raises(PlanError, match="places a component twice: dit, dit"):
        build_plan(kept("dit"), moved("dit"))


def test_a_plan_has_no_placement_for_a_component_it_does_not_know():
    with pytest.raises(PlanError, match="no placement for component 'vae'"):
        build_plan(kept("dit")).placement("vae")


def test_plan_errors_are_input_errors():
    assert issubclass(PlanError, InputError)


def test_a_plan_cannot_be_changed():
    plan = build_plan(kept("dit"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.engine = "other"


@pytest.mark.parametrize(
    ("placements", "rule"),
    [
        ((kept("dit"),), "the plan is not for toy: it places dit, the model has dit, vae"),
        ((kept("dit"), kept("vae"), kept("upscaler")), "it places dit, upscaler, vae, the model has dit, vae"),
        ((kept("dit"), streamed("vae")), "vae has no list of layers: it cannot be layerwise-offload"),
        ((streamed("dit", resident=6), kept("vae")), r"dit\.resident is 6: its longest stack has 5 layers"),
    ],
)
def test_a_plan_for_another_model_is_refused(placements, rule):
    model = build_facts({"dit": build_component(5), "vae": build_component(0)}).model
    with pytest.raises(PlanError, match=rule):
        build_plan(*placements).check_fits_model(model)


def test_layers_outside_layerwise_offload_neither_stream_nor_stay_for_good():
    assert moved().streamed_layers(5) == ()
    assert kept().permanent_layers(5) == ()
    assert streamed(resident=2).permanent_layers(5) == ()
    assert streamed(resident=2, lifetime=Lifetime.PERMANENT).permanent_layers(5) == (0, 1)
    assert streamed(resident=2).streamed_layers(5) == (2, 3, 4)
