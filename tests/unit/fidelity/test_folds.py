"""Every run is left out once, repeats together."""

from builders import streamed
from calibration_builders import build_ground
from comparison_builders import build_case

from autotune.fidelity.folds import MOST_FOLDS, list_folds

GROUND = build_ground()


def _case(resident, name=None):
    return build_case(name or f"r{resident}", streamed("transformer", resident=resident), ground=GROUND)


def _left_out(folds):
    return [sorted(case.observation.name for case in fold.left_out) for fold in folds]


def test_each_run_of_a_small_family_is_left_out_alone():
    folds = list_folds([_case(0), _case(3), _case(6)])
    assert _left_out(folds) == [["r0"], ["r3"], ["r6"]]
    assert all(len(fold.fitted) == 2 for fold in folds)


def test_repeats_never_calibrate_each_other():
    folds = list_folds([_case(0, "a"), _case(0, "b"), _case(3)])
    assert _left_out(folds) == [["a", "b"], ["r3"]]


def test_nothing_is_left_to_fit_where_all_runs_are_repeats():
    assert list_folds([_case(0, "a"), _case(0, "b")]) == ()


def test_large_family_is_left_out_in_parts():
    cases = [_case(resident) for resident in range(10)]
    folds = list_folds(cases)
    assert len(folds) == MOST_FOLDS
    assert sorted(name for names in _left_out(folds) for name in names) == [f"r{resident}" for resident in range(10)]
    for fold in folds:
        assert not {id(case) for case in fold.fitted} & {id(case) for case in fold.left_out}


def test_run_that_ran_out_is_neither_fitted_nor_left_out():
    out = build_case("out", streamed("transformer", resident=9), ground=GROUND, ran_out=True)
    assert list_folds([_case(0), out]) == ()
