"""Whole lives: what moves when, checked on programs by name."""

import pytest
from builders import SGLANG, build_component, build_evaluator, build_plan, kept, moved, streamed

from runtime.engines.registry import find_engine, list_engines
from runtime.errors import PlanError, UnsupportedError
from runtime.residency import Lifetime


def build_program(*placements, engine=SGLANG, explicit=True, passes=2):
    components = {
        "text_encoder": build_component(3),
        "transformer": build_component(4, is_dit=True, passes=passes),
        "vae": build_component(2),
    }
    life = build_evaluator(components, engine=engine).lifecycle
    return life.build_program(build_plan(*placements, engine=engine, explicit=explicit))


ALL_STREAM = (streamed("text_encoder"), streamed("transformer"), streamed("vae"))


def names(program, actions, *ops):
    return [program.name(action) for action in actions if not ops or program.name(action)[0] in ops]


def test_the_next_transformer_copies_its_head_while_the_encoder_is_in_use():
    program = build_program(*ALL_STREAM)
    begin = names(program, program.later.uses[0].segments[0].actions, "h2d")
    assert ("h2d", "transformer", "blocks", 0) in begin


def test_a_transformer_with_residents_does_not_copy_ahead():
    program = build_program(streamed("text_encoder"), streamed("transformer", resident=1), streamed("vae"))
    begin = names(program, program.later.uses[0].segments[0].actions, "h2d")
    assert begin == [("h2d", "text_encoder", "blocks", 0)]


def test_our_own_executor_does_not_copy_ahead_for_others():
    program = build_program(*ALL_STREAM, engine="topup")
    begin = names(program, program.later.uses[0].segments[0].actions, "h2d")
    assert {action[1] for action in begin} == {"text_encoder"}


@pytest.mark.parametrize(("explicit", "resident", "refilled"), [(False, 0, True), (True, 0, False), (False, 1, False)])
def test_the_encoder_refills_its_head_after_a_request_only_if_the_server_chose(explicit, resident, refilled):
    placements = (streamed("text_encoder", resident=resident), streamed("transformer"), streamed("vae"))
    program = build_program(*placements, explicit=explicit)
    ending = names(program, program.later.ending.actions, "h2d")
    assert ending == ([("h2d", "text_encoder", "blocks", 0)] if refilled else [])


def test_a_moved_component_goes_up_and_down_again():
    program = build_program(streamed("text_encoder"), streamed("transformer"), moved("vae"))
    moves = names(program, program.later.actions(), "up", "down")
    assert moves == [("up", "vae"), ("down", "vae")]


def test_a_moved_transformer_goes_up_once_the_encoder_is_done():
    program = build_program(kept("text_encoder"), moved("transformer"), kept("vae"))
    assert names(program, program.later.uses[0].after.actions) == [("up", "transformer")]
    assert names(program, program.later.uses[1].segments[0].actions, "up") == []


def test_a_resident_component_only_works():
    program = build_program(kept("text_encoder"), kept("transformer"), kept("vae"))
    ops = {name[0] for name in names(program, program.later.actions())}
    assert ops == {"begin_use", "in_use", "work", "end_use", "end_request"}


@pytest.mark.parametrize("engine", list_engines())
def test_every_layer_runs_once_per_pass_in_order(engine):
    program = build_program(*(placement for placement in ALL_STREAM), engine=engine, passes=3)
    runs = names(program, program.later.uses[1].segments[1].actions, "run")
    assert runs == [("run", "transformer", "blocks", layer) for layer in range(4)]
    passes = sum(segment.repeat for segment in program.later.uses[1].segments if segment.group >= 0)
    assert passes == 3


@pytest.mark.parametrize("engine", list_engines())
def test_permanent_residents_are_placed_at_load_and_never_moved_again(engine):
    placement = streamed("transformer", resident=2, lifetime=Lifetime.PERMANENT)
    program = build_program(kept("text_encoder"), placement, kept("vae"), engine=engine)
    placed = {("place", "transformer", "blocks", layer) for layer in (0, 1)}
    assert placed == set(names(program, program.load.actions, "place"))
    moved_layers = {name[3] for name in names(program, program.later.actions(), "h2d", "h2d_blocking", "release")}
    assert moved_layers == {2, 3}


def test_a_plan_for_another_model_is_refused():
    with pytest.raises(PlanError, match="the plan is not for toy: it places transformer, the model has"):
        build_program(streamed("transformer"))


def test_a_component_without_layers_cannot_be_streamed():
    life = build_evaluator({"vae": build_component(0)}).lifecycle
    with pytest.raises(PlanError, match="vae has no list of layers: it cannot be layerwise-offload"):
        life.build_program(build_plan(streamed("vae")))


@pytest.mark.parametrize("name", ["sglang", "sglang@0.5.24", "SGLANG@0.5.23", ""])
def test_an_engine_whose_behaviour_is_not_known_is_refused(name):
    with pytest.raises(UnsupportedError, match="behaviour differs between versions, so none is assumed"):
        find_engine(name)
