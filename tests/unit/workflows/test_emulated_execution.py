"""Plans executed by stand-ins on the emulated device take exactly what was predicted, in time and in memory."""

from dataclasses import replace

import pytest
from builders import build_component, build_plan, kept, moved, streamed
from execution_builders import build_run

from autotune.workflows.emulated_execution import check_profile, choose_time_scale, execute_emulated
from autotune.workflows.run_settings import Emulation, Rounds
from autotune.workflows.stand_ins import MOST_REAL_BYTES, StandIn, build_stand_ins, choose_byte_scale, scale_model
from runtime.errors import DeviceMemoryError, InputError
from runtime.interference import Interference
from runtime.residency import Lifetime, Mode, Policy
from runtime.units import GIB

COMPONENTS = {
    "text_encoder": build_component(3, copy_ms=10, compute_ms=2, rest_ms=5, outside_ms=1, activation_bytes=300),
    "transformer": build_component(6, copy_ms=6, compute_ms=3, passes=9, is_dit=True, rest_ms=2, activation_bytes=900),
    "vae": build_component(2, copy_ms=1, compute_ms=2, passes=3, outside_ms=4),
}
VIRTUAL = Emulation(clock="virtual")
RESIDENTS = streamed("transformer", resident=2, prefetch=2, policy=Policy.STRIDED)
PERMANENT = streamed("transformer", resident=3, lifetime=Lifetime.PERMANENT)
PLANS = {
    "streamed": build_plan(streamed("text_encoder"), streamed("transformer"), streamed("vae")),
    "residents": build_plan(kept("text_encoder"), RESIDENTS, moved("vae")),
    "permanent": build_plan(moved("text_encoder"), PERMANENT, kept("vae")),
    "resident": build_plan(kept("text_encoder"), kept("transformer"), kept("vae")),
}


def execute(plan, emulation=VIRTUAL, *, rounds=None, **run):
    document, profile = build_run(COMPONENTS, plan, **run)
    rounds = rounds or Rounds(warmup=1, repeats=1)
    return document, execute_emulated(document, profile, emulation, rounds, seed=0)


# Mapped are 30,000 bytes of the encoder and 36,000 of the transformer, where anything is.
ROOMS = {"nothing": 0, "the encoder's stream": 32_000, "every stream": 40_000, "all": 70_000}
HOSTS = {
    "everything pinned": {},
    "nothing pinned": {"pins": False},
    **{
        f"page cache: {kept}": {"host_bytes": 2 * GIB + 20_000, "page_cache_bytes": room}
        for kept, room in ROOMS.items()
    },
}


def moves_whole(plan):
    return any(placement.mode is Mode.COMPONENT_OFFLOAD for placement in plan.placements)


# The prediction takes components that are moved whole for pinned even where nothing may be.
CASES = [
    pytest.param(plan, host, id=f"{name}, {where}")
    for name, plan in PLANS.items()
    for where, host in HOSTS.items()
    if not (moves_whole(plan) and where == "nothing pinned")
]


@pytest.mark.parametrize(("plan", "host"), CASES)
def test_virtual_requests_take_the_predicted_time_and_memory(plan, host):
    document, execution = execute(plan, output_frames_bytes=700, **host)
    prediction, report = document.prediction, execution.report
    first, later = report.requests
    assert first.latency_s == pytest.approx(prediction.first_latency_s)
    assert later.latency_s == pytest.approx(prediction.latency_s)
    for predicted, use in zip(prediction.uses, later.uses, strict=True):
        assert use.total_s == pytest.approx(predicted.end_s - predicted.start_s)
    measured = report.peak_phases()
    assert list(measured) == [phase.phase for phase in prediction.phases]
    for phase in prediction.phases:
        found = measured[phase.phase]
        assert found.peak_weight_bytes == phase.streamed_bytes + phase.standing_bytes
        assert found.peak_activation_bytes == phase.activation_bytes
        assert found.peak_total_bytes == phase.live_bytes


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_copies_and_compute_slow_each_other_down_as_predicted(plan):
    disturbed = Interference(compute_slowdown_ratio=0.5, copy_slowdown_ratio=0.25)
    document, execution = execute(plan, interference=disturbed)
    assert execution.report.typical.latency_s == pytest.approx(document.prediction.latency_s)
    assert any("takes 50.0 % longer, copies beside compute 25.0 %, as in the pred" in note for note in execution.notes)


def test_the_real_clock_leaves_the_slowdowns_out_and_says_so():
    disturbed = Interference(compute_slowdown_ratio=0.5)
    _, execution = execute(PLANS["streamed"], Emulation(time_scale=0.01), interference=disturbed)
    assert any("not on the real clock, where neither slows the other" in note for note in execution.notes)


def test_unmeasured_slowdowns_are_named():
    _, execution = execute(PLANS["streamed"])
    assert any("by how much they do was not measured, or is nothing" in note for note in execution.notes)


def test_the_page_cache_keeps_of_each_component_what_the_prediction_says():
    hosts = [host for name, host in HOSTS.items() if name.startswith("page cache")]
    latencies = [execute(PLANS["streamed"], **host)[1].report.typical.latency_s for host in hosts]
    assert latencies == sorted(latencies, reverse=True)
    assert len(set(latencies)) == len(hosts)


def test_bytes_are_reported_at_the_scale_of_the_model():
    components = {"transformer": build_component(4, copy_ms=4e6, compute_ms=3e6, passes=3, is_dit=True)}
    document, profile = build_run(components, build_plan(streamed()), cap_bytes=10**11)
    execution = execute_emulated(document, profile, VIRTUAL, Rounds(repeats=1), seed=0)
    use = execution.report.typical.uses[0]
    assert execution.byte_scale == 2**17
    assert use.copied_bytes["pinned"] == pytest.approx(4 * 4e9 * 3, rel=0.2)
    assert execution.report.host.pinned_bytes == pytest.approx(4 * 4e9, rel=1e-4)
    assert execution.report.typical.latency_s == pytest.approx(document.prediction.latency_s, rel=1e-4)


@pytest.mark.parametrize(("capacity", "kind"), [(20_000, "weights"), (24_200, "activations")])
def test_more_than_the_cap_is_refused(capacity, kind):
    with pytest.raises(DeviceMemoryError, match=f"bytes of {kind} were asked for"):
        execute(PLANS["streamed"], Emulation(clock="virtual", capacity_bytes=capacity))


def test_the_plan_s_cap_is_the_capacity():
    document, profile = build_run(COMPONENTS, PLANS["resident"])
    document = replace(document, cap=replace(document.cap, effective_bytes=50_000))
    with pytest.raises(DeviceMemoryError, match="there are 50000"):
        execute_emulated(document, profile, VIRTUAL, Rounds(), seed=0)


def test_the_real_clock_takes_the_emulated_time_or_a_little_more():
    document, execution = execute(PLANS["streamed"], Emulation(time_scale=0.5), rounds=Rounds(repeats=2))
    latency_s = document.prediction.latency_s
    assert [request.latency_s >= latency_s * 0.999 for request in execution.report.requests[1:]] == [True, True]
    assert (execution.clock, execution.time_scale) == ("real", 0.5)
    assert any("wall microseconds a layer" in note for note in execution.notes)


def test_a_profile_of_another_model_or_request_is_refused():
    document, profile = build_run(COMPONENTS, PLANS["resident"])
    other = build_run({"vae": COMPONENTS["vae"]}, build_plan(kept("vae")))[1]
    with pytest.raises(InputError, match="another model"):
        check_profile(document, other)
    uses = replace(document.request.uses[1], purpose="again")
    longer = replace(document, request=replace(document.request, uses=(*document.request.uses, uses)))
    with pytest.raises(InputError, match="another request"):
        check_profile(longer, profile)


def test_a_profile_of_other_rates_is_used_and_named():
    document, profile = build_run(COMPONENTS, PLANS["streamed"])
    slower = replace(profile, rates=replace(profile.rates, pinned_bytes_per_s=5e5))
    execution = execute_emulated(document, slower, VIRTUAL, Rounds(repeats=1), seed=0)
    assert execution.report.typical.latency_s > 1.5 * document.prediction.latency_s
    assert any("is not the one that the plan was made from" in note for note in execution.notes)


def test_what_the_executor_does_otherwise_is_named():
    components = {"transformer": build_component(4, copy_ms=8, compute_ms=1, passes=3, is_dit=True)}
    document, profile = build_run(components, build_plan(moved()))
    spec = replace(document.model.components[0], cast_bytes=10**6)
    model = replace(document.model, components=(spec,))
    document, profile = replace(document, model=model), replace(profile, facts=replace(profile.facts, model=model))
    execution = execute_emulated(document, profile, VIRTUAL, Rounds(repeats=1), seed=0)
    assert any("casts it on the device" in note for note in execution.notes)


@pytest.mark.parametrize(("latency_s", "scale"), [(50.0, 0.1), (5.0, 1.0), (0.1, 1.0), (0.0, 1.0)])
def test_requests_take_five_seconds_and_are_never_slowed_down(latency_s, scale):
    assert choose_time_scale(latency_s) == pytest.approx(scale)


def test_stand_ins_have_every_layer_of_the_model_and_little_of_its_bytes():
    document, _ = build_run({"transformer": build_component(5, copy_ms=4e6, is_dit=True)}, build_plan(streamed()))
    spec = replace(document.model.components[0], host_table_bytes=10**9, rest_run_bytes=1)
    model = replace(document.model, components=(spec,))
    scale = choose_byte_scale(model)
    (module,) = build_stand_ins(scale_model(model, scale), seed=1).values()
    assert isinstance(module, StandIn)
    assert scale.bit_count() == 1
    assert [layer.weight.nbytes for layer in module.stack_0] == [round(4e9 / scale)] * 5
    assert sum(weight.nbytes for weight in module.parameters()) < MOST_REAL_BYTES
    assert module.rest.nbytes == 1
    assert module.table.weight.nbytes == round(1e9 / scale)


def test_a_small_model_is_not_scaled():
    document, _ = build_run(COMPONENTS, PLANS["resident"])
    assert choose_byte_scale(document.model) == 1
    assert scale_model(document.model, 1).components[0].run_bytes == document.model.components[0].run_bytes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"time_scale": 0.0}, "0.000001 to 1000"),
        ({"time_scale": float("nan")}, "0.000001 to 1000"),
        ({"time_scale": 1.0, "clock": "virtual"}, "takes no time"),
    ],
)
def test_impossible_time_scales_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Emulation(**settings)


@pytest.mark.parametrize("rounds", [{"warmup": 0}, {"repeats": 0}])
def test_at_least_one_request_warms_up_and_one_counts(rounds):
    with pytest.raises(InputError, match="at least one of each"):
        Rounds(**rounds)
