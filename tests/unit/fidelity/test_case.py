"""What is predicted of every part of a request and every way to count memory, against sums by hand.

The toy: an encoder of 4 layers (2 ms of compute, 5 ms of copy each), a transformer of 6 (4 and 6 ms, 8 passes, 1 ms
besides) and a VAE without layers (20 ms); one byte of the toy is a megabyte, copied in a microsecond.
"""

from dataclasses import replace

import pytest
from builders import build_component, build_plan, kept, moved, streamed
from calibration_builders import COMPONENTS, MEGA, build_ground, build_observation

from autotune.fidelity.case import Case
from autotune.memory_model import ACTIVATION_RESERVED_RATIO, WORKSPACE_BYTES
from autotune.observed.observation import ObservedLatency, ObservedPeak, PeakKind, Scope
from runtime.errors import InputError

GROUND = build_ground()
RESIDENT = build_plan(kept("text_encoder"), kept("transformer"), kept("vae"))
STREAMED = build_plan(streamed("text_encoder"), streamed("transformer"), kept("vae"))
WEIGHTS = {"text_encoder": 21_000 * MEGA, "transformer": 38_000 * MEGA, "vae": 5_000 * MEGA}
ACTIVATIONS = {name: toy.activation_bytes * MEGA for name, toy in COMPONENTS.items()}


def _time(plan, scope, component="", factors=None, ground=GROUND):
    latency = ObservedLatency(seconds=1.0, scope=scope, component=component)
    case = Case(build_observation(ground, latencies=(latency,)), plan, ground)
    return case.predict_latencies_s(ground.build_evaluator(factors or {}))[0]


def _peak(plan, kind, component="", factors=None, ground=GROUND):
    peak = ObservedPeak(size_bytes=1, kind=kind, component=component)
    case = Case(build_observation(ground, peak=peak), plan, ground)
    return case.predict_peak_bytes(factors or {})


@pytest.mark.parametrize(
    ("scope", "component", "expected_s"),
    [
        (Scope.USE, "text_encoder", 4 * 0.002),
        (Scope.USE, "transformer", 0.001 + 8 * 6 * 0.004),
        (Scope.USE, "vae", 0.020),
        (Scope.USE, "text_encoder+vae", 4 * 0.002 + 0.020),
        (Scope.STEP, "transformer", 6 * 0.004),
        (Scope.REQUEST, "", 4 * 0.002 + 0.001 + 8 * 6 * 0.004 + 0.020),
    ],
)
def test_times_of_resident_components_are_their_compute(scope, component, expected_s):
    assert _time(RESIDENT, scope, component) == pytest.approx(expected_s)


def test_step_that_streams_takes_as_long_as_its_copies():
    assert _time(STREAMED, Scope.STEP, "transformer") == pytest.approx(6 * 0.006, rel=0.15)
    assert _time(STREAMED, Scope.STEP, "transformer", {"copy": 0.5}) > _time(STREAMED, Scope.STEP, "transformer")


def test_step_makes_as_many_forwards_as_the_model():
    twice = replace(GROUND.facts, workload=replace(GROUND.facts.workload, steps=4))  # 8 passes in 4 steps
    assert _time(RESIDENT, Scope.STEP, "transformer", ground=replace(GROUND, facts=twice)) == pytest.approx(0.048)


def test_use_of_a_moved_component_ends_before_its_return():
    plan = build_plan(moved("text_encoder"), kept("transformer"), kept("vae"))
    up_s, compute_s = 0.021, 4 * 0.002
    assert _time(plan, Scope.USE, "text_encoder") == pytest.approx(up_s + compute_s)
    assert _time(plan, Scope.MOVE_DOWN, "text_encoder") == pytest.approx(0.021)
    assert _time(plan, Scope.MOVE_DOWN, "text_encoder", {"copy": 0.5}) == pytest.approx(0.021 * 2.718281828**0.5)


def test_allocated_peak_is_weights_and_activations():
    assert _peak(RESIDENT, PeakKind.ALLOCATED) == sum(WEIGHTS.values()) + max(ACTIVATIONS.values())


def test_reserved_peak_rounds_activations_up_and_knows_no_context():
    reserved = round(max(ACTIVATIONS.values()) * ACTIVATION_RESERVED_RATIO) + WORKSPACE_BYTES
    assert _peak(RESIDENT, PeakKind.RESERVED) == sum(WEIGHTS.values()) + reserved
    assert _peak(RESIDENT, PeakKind.UNSTATED) == _peak(RESIDENT, PeakKind.RESERVED)


def test_driver_counts_the_context_too():
    assert _peak(RESIDENT, PeakKind.DRIVER) == _peak(RESIDENT, PeakKind.RESERVED) + GROUND.context_bytes


def test_activations_of_a_component_stand_beside_its_own_weights():
    found = _peak(RESIDENT, PeakKind.ACTIVATIONS, "transformer")
    assert found == ACTIVATIONS["transformer"] + WEIGHTS["transformer"]


@pytest.mark.parametrize("kind", [PeakKind.ALLOCATED, PeakKind.RESERVED, PeakKind.DRIVER])
def test_base_bytes_add_to_what_a_process_holds(kind):
    assert _peak(RESIDENT, kind, factors={"base_bytes": 7e9}) == _peak(RESIDENT, kind) + 7_000_000_000


def test_peak_of_what_streams_holds_the_live_layers_alone():
    resident, streams = _peak(RESIDENT, PeakKind.ALLOCATED), _peak(STREAMED, PeakKind.ALLOCATED)
    kept_bytes = 1_000 * MEGA + 2_000 * MEGA + WEIGHTS["vae"]  # what has no layers stays
    assert streams - kept_bytes - max(ACTIVATIONS.values()) <= 2 * 6_000 * MEGA
    assert streams < resident


def test_run_without_a_peak_has_none_predicted():
    latency = ObservedLatency(seconds=1.0, scope=Scope.REQUEST)
    assert Case(build_observation(GROUND, latencies=(latency,)), RESIDENT, GROUND).predict_peak_bytes({}) is None


@pytest.mark.parametrize(
    ("scope", "component", "message"),
    [
        (Scope.USE, "upsampler", "toy has no component 'upsampler'; it has text_encoder, transformer, vae"),
        (Scope.USE, "transformer+upsampler", "no component .upsampler."),
        (Scope.STEP, "vae", "vae makes no passes"),
    ],
)
def test_figure_that_nothing_predicts_is_refused(scope, component, message):
    with pytest.raises(InputError, match=message):
        _time(RESIDENT, scope, component)


def test_figure_of_a_component_that_no_request_uses_is_refused():
    extra = build_ground(components={"upsampler": build_component(2)}, uses=("text_encoder", "transformer", "vae"))
    plan = build_plan(kept("text_encoder"), kept("transformer"), kept("vae"), kept("upsampler"))
    with pytest.raises(InputError, match="a request does not use upsampler"):
        _time(plan, Scope.USE, "upsampler", ground=extra)
