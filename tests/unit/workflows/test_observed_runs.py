"""What predicts observed runs, and which runs cannot be expressed."""

from dataclasses import replace

import pytest
from builders import build_component, build_facts

from autotune.fidelity.passes import forwards_per_step
from autotune.observed.observation import Base, Observation, ObservedLatency, Reason, Scope, Setup
from autotune.profile import Profile
from autotune.workflows.host import HostWish
from autotune.workflows.observed_runs import build_cases
from autotune.workflows.target import resolve_target
from runtime.errors import MissingDependencyError
from runtime.residency import Mode

FACTS = build_facts(
    {
        "text_encoder": build_component(6),
        "transformer": build_component(8, is_dit=True, passes=12, rest_ms=1.0),
        "vae": build_component(0, outside_ms=5.0),
    }
)
FACTS = replace(FACTS, workload=replace(FACTS.workload, steps=12))
SETUP = Setup(model="toy", device="rtx-4090", workload=FACTS.workload)


def _run(name, *settings, seconds=1.0, component="transformer", scope=Scope.USE, **changes):
    latency = ObservedLatency(seconds=seconds, scope=scope, component=component)
    default = Observation(name=name, where=f"toy.csv line {name}", setup=SETUP, settings=settings, latencies=(latency,))
    return replace(default, **changes)


def _load(*_):
    return FACTS


def test_runs_of_one_set_up_share_what_predicts_them():
    other = _run("other", setup=replace(SETUP, server="new"))
    built = build_cases([_run("a"), other, _run("b", "transformer.resident=3")], _load)
    assert [case.observation.name for case in built.cases] == ["a", "other", "b"]
    assert built.cases[0].ground is built.cases[2].ground
    assert built.cases[0].ground is not built.cases[1].ground
    assert [case.plan.placement("transformer").resident for case in built.cases] == [0, 0, 3]


def test_model_is_read_once_for_each_set_up():
    asked = []

    def load(model, workload, variant):
        asked.append((model, workload, variant))
        return FACTS

    build_cases([_run("a"), _run("b", "transformer.resident=3")], load)
    assert asked == [("toy", FACTS.workload, None)]


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (_run("x", "transformer.resident=99"), "longest stack has 8 layers"),
        (_run("x", "vae.prefetch=2"), "vae"),
        (_run("x", "decoder.resident=2"), "decoder"),
        (_run("x", component="decoder"), "no component 'decoder'"),
        (_run("x", setup=replace(SETUP, device="abacus")), "no device is called 'abacus'"),
        (_run("x", setup=replace(SETUP, tp_size=2)), "--tp-size 2"),
        (_run("x", base=Base.SERVER_DEFAULT), "what the server chooses by itself for toy is not known"),
    ],
)
def test_what_cannot_be_expressed_is_refused_in_the_programs_words_and_the_rest_is_used(run, text):
    built = build_cases([run, _run("good")], _load)
    assert [case.observation.name for case in built.cases] == ["good"]
    (refused,) = built.refused
    assert (refused.name, refused.where, refused.reason) == ("x", "toy.csv line x", Reason.NOT_EXPRESSIBLE)
    assert text in refused.text


def test_missing_package_is_no_refusal():
    def load(*_):
        raise MissingDependencyError("torch is not installed")

    with pytest.raises(MissingDependencyError):
        build_cases([_run("a")], load)


def test_denoiser_stands_still_where_only_other_components_were_timed():
    encoder, both = _run("encoder", component="text_encoder"), _run("whole", component="", scope=Scope.REQUEST)
    built = build_cases([encoder, both], _load)
    assert [case.plan.placement("transformer").mode for case in built.cases] == [
        Mode.RESIDENT,
        Mode.LAYERWISE_OFFLOAD,
    ]


def test_placement_of_the_denoiser_that_a_row_states_stays():
    run = _run("encoder", "transformer.prefetch=2", component="text_encoder")
    assert build_cases([run], _load).cases[0].plan.placement("transformer").prefetch == 2


def test_host_and_pins_are_those_of_the_run():
    small = replace(SETUP, host_bytes=32 * 2**30, pins=False)
    host = build_cases([_run("a", setup=small)], _load).cases[0].ground.host
    assert (host.available_bytes, host.pins) == (29 * 2**30, False)


def test_fewer_forwards_are_assumed_of_all_runs_and_noted():
    guided = replace(
        FACTS,
        workload=replace(FACTS.workload, steps=6),  # twelve passes in six steps
    )
    stack = guided.model.component("transformer").stacks[0]
    copied = 12 * sum(layer.run_bytes for layer in stack.layers)
    runs = [_run("fast", seconds=copied / 40e9), _run("slow", seconds=1000.0)]
    cases = build_cases(runs, lambda *_: guided).cases
    assert forwards_per_step(guided) == 2
    assert {forwards_per_step(case.ground.facts) for case in cases} == {1}
    assert {case.observation.setup.forwards_per_step for case in cases} == {1}
    assert all("1 forward a step instead of 2" in case.observation.assumed[-1] for case in cases)


def test_profile_gives_rates_of_its_device_and_facts_of_its_request():
    target = resolve_target(
        device="rtx-4090", detection=None, vram_cap_bytes=None, host=HostWish(), pinned_bytes_per_s=5e9
    )
    own = replace(FACTS, notes=("measured",))
    profile = Profile(facts=own, rates=target.rates, context_bytes=7, device=target.device)
    elsewhere = _run("elsewhere", setup=replace(SETUP, device="rtx-5090"))
    shorter = _run("shorter", setup=replace(SETUP, workload=replace(SETUP.workload, steps=3)))
    grounds = [case.ground for case in build_cases([_run("own"), elsewhere, shorter], _load, profile).cases]
    assert [ground.rates.pinned_bytes_per_s == 5e9 for ground in grounds] == [True, False, True]
    assert [ground.context_bytes == 7 for ground in grounds] == [True, False, True]
    assert [ground.facts.notes == ("measured",) for ground in grounds] == [True, False, False]
