"""Forecasts for placements that nobody ran keep within what is physically possible."""

import pytest
from builders import build_component, build_facts, build_plan, kept, streamed
from calibration_builders import LAYERS, build_ground, build_observation, build_prior, observe

from autotune.fidelity.calibration import calibrate
from autotune.fidelity.case import Case
from autotune.fidelity.forecast import forecast_residents
from autotune.observed.observation import ObservedLatency, Scope
from runtime.errors import InputError

GROUND = build_ground()
HIDDEN = {"copy": 0.1, "compute.transformer": -0.2}
RUNS = tuple(
    observe(build_plan(streamed("text_encoder"), streamed(resident=count), kept("vae")), GROUND, HIDDEN, f"r{count}")
    for count in (0, 3)
)


@pytest.fixture(scope="module")
def forecasts():
    return forecast_residents(RUNS[0], calibrate(RUNS, build_prior()))


def test_placements_go_from_none_to_the_whole_component(forecasts):
    assert [item.resident for item in forecasts.placements] == [0, 2, 3, 4, LAYERS]
    assert [item.is_everything for item in forecasts.placements] == [False] * 4 + [True]
    assert {item.component for item in forecasts.placements} == {"transformer"}


def test_bounds_surround_the_middle(forecasts):
    for item in forecasts.placements:
        for figure in (item.use_s, item.peak_bytes):
            assert figure.low <= figure.middle <= figure.high
    assert forecasts.floor_s.low <= forecasts.floor_s.middle <= forecasts.floor_s.high


def test_no_placement_is_below_the_compute_floor(forecasts):
    for item in forecasts.placements:
        assert item.use_s.middle >= forecasts.floor_s.middle * (1 - 1e-9)
        assert item.use_s.low >= forecasts.floor_s.low * (1 - 1e-9)


def test_what_is_resident_as_a_whole_takes_the_floor(forecasts):
    everything = forecasts.placements[-1]
    assert everything.use_s.middle == pytest.approx(forecasts.floor_s.middle)
    assert everything.use_s.low == pytest.approx(forecasts.floor_s.low)


def test_more_resident_layers_are_never_slower_and_never_smaller(forecasts):
    times = [item.use_s.middle for item in forecasts.placements]
    peaks = [item.peak_bytes.middle for item in forecasts.placements]
    assert times == sorted(times, reverse=True)
    assert peaks == sorted(peaks)


def test_more_resident_layers_are_never_slower_in_any_draw():
    for draw in calibrate(RUNS, build_prior()).draws[::8]:
        evaluator = GROUND.build_evaluator(draw)
        times = []
        for count in range(LAYERS):
            plan = build_plan(streamed("text_encoder"), streamed(resident=count), kept("vae"))
            latency = ObservedLatency(seconds=1.0, scope=Scope.USE, component="transformer")
            times += Case(build_observation(GROUND, latencies=(latency,)), plan, GROUND).predict_latencies_s(evaluator)
        assert times == sorted(times, reverse=True)


def test_observed_placements_are_forecast_as_they_were(forecasts):
    observed = RUNS[1].observation.latencies[1].seconds
    same = next(item for item in forecasts.placements if item.resident == 3)
    assert same.use_s.low <= observed <= same.use_s.high


def test_model_that_denoises_nothing_has_no_forecast():
    ground = build_ground()
    vae = build_facts({"vae": build_component(2)})
    plan = build_plan(streamed("vae"))
    latency = ObservedLatency(seconds=1.0, scope=Scope.REQUEST)
    case = Case(
        build_observation(ground, latencies=(latency,)),
        plan,
        type(ground)(facts=vae, rates=ground.rates, context_bytes=0, host=ground.host, engine=ground.engine),
    )
    with pytest.raises(InputError, match="no component that denoises"):
        forecast_residents(case, calibrate([case], build_prior()))
