"""Groups of runs that differ in placements alone, and the runs of each that are fitted."""

from dataclasses import replace

import pytest
from builders import streamed
from calibration_builders import build_ground
from comparison_builders import MOVED, build_case

from autotune.fidelity.groups import Verdict, choose_fitted, describe_placement, find_groups, judge_difference
from autotune.observed.observation import Scope
from runtime.plan import Placement
from runtime.residency import Mode

GROUND = build_ground()
RESIDENT = Placement(component="transformer", mode=Mode.RESIDENT)


def _case(name, transformer=None, **changes):
    return build_case(name, transformer, ground=GROUND, **changes)


def _names(cases):
    return [case.observation.name for case in cases]


def test_group_is_of_one_set_up_and_one_figure():
    first, second = _case("first"), _case("second", streamed("transformer", resident=5))
    request = _case("request", streamed("transformer", resident=5), scope=Scope.REQUEST)
    other = _case("other", RESIDENT)
    other = replace(other, observation=replace(other.observation, setup=replace(other.observation.setup, server="new")))
    assert [_names(group) for group in find_groups([first, request, second, other])] == [["first", "second"]]


def test_repeats_of_one_placement_are_no_group():
    assert find_groups([_case("first"), _case("again")]) == ()


def test_run_that_ran_out_is_in_no_group():
    assert find_groups([_case("first"), _case("out", streamed("transformer", resident=9), ran_out=True)]) == ()


def test_of_two_placements_the_one_with_less_on_the_card_is_fitted():
    group = [_case("more", streamed("transformer", resident=5)), _case("less")]
    assert _names(choose_fitted(group)) == ["less"]


def test_of_more_both_ends_are_fitted_with_the_smaller_prefetch_size():
    group = [
        _case("ahead", streamed("transformer", prefetch=5)),
        _case("half", streamed("transformer", resident=5)),
        _case("streamed"),
        _case("quarter", streamed("transformer", resident=3)),
    ]
    assert _names(choose_fitted(group)) == ["streamed", "half"]


def test_component_that_is_moved_whole_is_predicted_from_a_streamed_and_a_resident_one():
    group = [_case("moved", MOVED), _case("streamed"), _case("resident", RESIDENT)]
    assert _names(choose_fitted(group)) == ["streamed", "resident"]


def test_never_all_runs_are_fitted():
    group = [_case("moved", MOVED), _case("streamed")]
    assert len(choose_fitted(group)) == 1


def test_placement_is_described_by_what_sets_it_apart():
    first, second = _case("first"), _case("second", streamed("transformer", resident=5))
    assert describe_placement(second, [first, second]) == "transformer layerwise-offload P=1 r=5 leading forward"
    assert describe_placement(first, [first]) == "the same"


@pytest.mark.parametrize(
    ("observed", "predicted", "verdict"),
    [
        (2.0, 1.5, Verdict.RIGHT),
        (2.0, 0.9, Verdict.WRONG_SIZE),
        (2.0, 4.1, Verdict.WRONG_SIZE),
        (2.0, -1.0, Verdict.WRONG_DIRECTION),
        (-0.1, 0.1, Verdict.RIGHT),
        (-0.1, 0.6, Verdict.WRONG_SIZE),
        (0.5, 0.25, Verdict.RIGHT),
    ],
)
def test_difference_is_judged_by_direction_and_size(observed, predicted, verdict):
    assert judge_difference(observed, predicted, 10.0) is verdict
