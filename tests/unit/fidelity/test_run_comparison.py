"""Observed figures beside their predictions."""

import pytest
from calibration_builders import build_prior
from comparison_builders import MOVED, build_case, build_figure, peak_of

from autotune.fidelity.comparison import Kind, compare_case, list_components, predict_figures
from autotune.observed.observation import Scope
from runtime.errors import InputError
from runtime.units import GIB


def test_errors_are_shares_of_what_was_observed():
    figure = build_figure(observed=10.0, predicted=12.0, calibrated=9.0)
    assert figure.error_ratio == pytest.approx(0.2)
    assert figure.calibrated_error_ratio == pytest.approx(-0.1)
    assert build_figure().calibrated_error_ratio is None


@pytest.mark.parametrize("changes", [{"predicted": float("nan")}, {"low": -1.0}, {"observed": 0.0}])
def test_figure_refuses_what_is_no_measurement(changes):
    with pytest.raises(InputError, match="run: "):
        build_figure(**changes)


def test_every_figure_of_a_run_is_compared_in_order():
    figures = compare_case(build_case(seconds=2.0, peak=peak_of(GIB)), build_prior())
    assert [figure.kind for figure in figures] == [Kind.LATENCY, Kind.PEAK]
    assert [figure.what for figure in figures] == ["use of transformer", "peak (reserved)"]
    assert [figure.observed for figure in figures] == [2.0, GIB]


def test_interval_widens_with_doubt_and_holds_the_prediction():
    case = build_case(peak=peak_of(GIB))
    sure = build_prior(**{"compute.transformer": 0.0, "copy": 0.0, "pass_s": 0.0, "use_s": 0.0})
    for wide, narrow in zip(compare_case(case, build_prior()), compare_case(case, sure), strict=True):
        assert wide.low < wide.predicted < wide.high
        assert wide.low <= narrow.low <= narrow.predicted <= narrow.high <= wide.high
    assert compare_case(case, build_prior())[0].high > compare_case(case, sure)[0].high


def test_run_that_ran_out_has_no_figures():
    case = build_case(peak=peak_of(GIB), ran_out=True)
    assert compare_case(case, build_prior()) == () == predict_figures(case, {})


def test_factors_change_what_is_predicted():
    case = build_case(peak=peak_of(GIB))
    slow = predict_figures(case, {"compute.transformer": 1.0, "base_bytes": 5e9})
    plain = predict_figures(case, {})
    assert slow[0] > 1.5 * plain[0]
    assert slow[1] == pytest.approx(plain[1] + 5e9)


def test_use_of_a_component_that_is_moved_whole_ends_before_its_return():
    ground = build_case().ground
    alone = build_case(scope=Scope.USE, transformer=MOVED, ground=ground)
    down = build_case(scope=Scope.MOVE_DOWN, transformer=MOVED, ground=ground)
    evaluator = ground.build_evaluator({})
    uses = {use.component: use.total_s for use in evaluator.time_later(alone.plan)}
    returned_s = down.predict_latencies_s(evaluator)[0]
    assert returned_s > 0
    assert alone.predict_latencies_s(evaluator)[0] == pytest.approx(uses["transformer"] - returned_s)


def test_figure_of_a_request_is_of_all_components():
    whole = build_figure(components=(), what="request")
    assert list_components([whole, build_figure()]) == {"", "transformer"}
