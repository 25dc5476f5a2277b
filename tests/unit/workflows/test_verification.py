"""Did a plan take effect? Each aspect alone, the order of mismatches, and plans that were not read."""

from dataclasses import replace

import pytest
from builders import ToyComponent, build_component, build_plan, build_stack, kept, moved, streamed
from execution_builders import build_run
from observed_builders import build_dump, build_log, format_loaded, format_log, format_ready

from autotune.observed.read_server_log import parse_server_log
from autotune.observed.verdict import Aspect, Outcome
from autotune.workflows.verification import ObservedPlan, find_unread, took_effect, verify_plan
from reports.verification import verification_table
from runtime.errors import InputError, UnsupportedError

# 40,000 times the toys' bytes, so that weights weigh against the 64 MiB of a card's workspaces.
HEAVY = 40_000.0


def build_document(*, resident=0, prefetch=1, engine="sglang@0.5.23", host_bytes=2**50, stacks=None):
    """A document for a toy DiT of eight heavy layers in ten passes, and a VAE that stays resident."""
    dit = ToyComponent(stacks=stacks or {"blocks": build_stack(8, copy_ms=HEAVY, passes=10)}, is_dit=True)
    plan = build_plan(streamed(resident=resident, prefetch=prefetch), kept("vae"), engine=engine)
    components = {"transformer": dit, "vae": build_component(2)}
    return build_run(components, plan, cap_bytes=10**10, host_bytes=host_bytes)[0]


def verify(document, *, log=None, dump=None):
    return verify_plan(ObservedPlan(name="plan.json", document=document, log=log, dump=dump))


def outcomes(verification, aspect):
    return {check.subject: check.outcome for check in verification.checks if check.aspect is aspect}


def test_a_server_that_follows_the_plan_confirms_everything_but_its_release():
    document = build_document(resident=3, prefetch=2)
    found = verify(document, log=build_log(document), dump=build_dump(document))
    assert found.count(Outcome.MISMATCH) == 0
    assert [check.aspect for check in found.checks if check.outcome is Outcome.NOT_OBSERVABLE] == [Aspect.VERSION]
    assert found.headline == (
        "plan.json took effect, as far as was observed: 10 checks confirmed; 1 could not be observed"
    )
    assert took_effect([found], [])


@pytest.mark.parametrize(
    ("changes", "observed"),
    [
        ({"resident": 0}, "layerwise-offload, resident 0/8, prefetch 2"),
        ({"prefetch": 4}, "layerwise-offload, resident 3/8, prefetch 4, leading, forward"),
        ({"policy": "strided"}, "layerwise-offload, resident 3/8, prefetch 2, strided, forward"),
        ({"lifetime": " (permanent)"}, "layerwise-offload, resident 3/8, prefetch 2, leading, permanent"),
    ],
)
def test_each_knob_that_the_server_set_up_otherwise_is_the_first_mismatch(changes, observed):
    document = build_document(resident=3, prefetch=2)
    found = verify(document, log=build_log(document, **changes), dump=build_dump(document, time_ratio=3.0))
    assert found.first_mismatch.aspect is Aspect.PLACEMENT
    assert found.first_mismatch.observed == observed
    assert "Start the server with the plan's own command" in found.headline


def test_a_component_that_is_moved_whole_or_stays_is_told_from_one_that_streams():
    document = build_document()
    told = [
        format_loaded("transformer", "vram"),
        format_loaded("vae", "host mmap"),
        "The server is fired up and ready to roll!",
    ]
    found = verify(document, log=parse_server_log(told, "server.log"))
    assert {check.subject: check.observed for check in found.checks if check.aspect is Aspect.PLACEMENT} == {
        "transformer": "resident",
        "vae": "component-offload",
    }


def test_counts_are_held_to_the_length_of_each_stack():
    stacks = {"blocks": build_stack(6, passes=10), "refiner": build_stack(2)}
    document = build_document(resident=4, prefetch=3, stacks=stacks)
    found = verify(document, log=build_log(document))
    assert outcomes(found, Aspect.PLACEMENT) == dict.fromkeys(("transformer", "vae"), Outcome.CONFIRMED)
    [check] = [check for check in found.checks if check.subject == "transformer"]
    assert check.observed == "layerwise-offload, resident 6/8, prefetch 2, 3, leading, forward"


def test_a_log_that_ends_before_streams_are_set_up_says_nothing_of_placements():
    document = build_document()
    lines = format_log(document)
    cut = lines[: next(index for index, line in enumerate(lines) if "Configuring" in line)]
    found = verify(document, log=parse_server_log(cut, "server.log"))
    assert outcomes(found, Aspect.PLACEMENT)["transformer"] is Outcome.NOT_OBSERVABLE
    assert "never got as far as taking requests" in found.notes[0]


@pytest.mark.parametrize(
    ("pins", "outcome"), [(None, Outcome.CONFIRMED), (7, Outcome.CONFIRMED), (5, Outcome.MISMATCH)]
)
def test_pins_are_confirmed_within_one_layer(pins, outcome):
    document = build_document()
    found = verify(document, log=build_log(document, pins=pins))
    assert outcomes(found, Aspect.PINS) == {"transformer.blocks": outcome}
    if outcome is Outcome.MISMATCH:
        assert found.first_mismatch.observed == "5 of 8 pinned, 3 mapped"
        assert "1.00 GiB" in found.headline
        assert "--host-memory" in found.headline


def test_releases_that_log_no_pins_leave_them_unknown():
    document = build_document()
    lines = ["Enabled layerwise offload for pipeline components: ['transformer']"]
    found = verify(document, log=parse_server_log(lines, "server.log"))
    assert outcomes(found, Aspect.PINS) == {"transformer.blocks": Outcome.NOT_OBSERVABLE}
    assert outcomes(found, Aspect.PLACEMENT)["transformer"] is Outcome.CONFIRMED


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("sglang==0.5.23", Outcome.CONFIRMED),
        ("sglang==0.5.19", Outcome.MISMATCH),
        (format_ready("vae", {"blocks": 2}, lifetime="")[1], Outcome.MISMATCH),
        (format_ready("vae", {"blocks": 2})[1], Outcome.NOT_OBSERVABLE),
    ],
)
def test_the_release_is_known_by_name_or_ruled_out_by_wording(line, outcome):
    found = verify(
        build_document(), log=parse_server_log([line, "The server is fired up and ready to roll!"], "server.log")
    )
    assert outcomes(found, Aspect.VERSION) == {"the server": outcome}


def test_another_models_log_is_named_before_everything_that_follows_from_it():
    document = build_document()
    document = replace(document, model=replace(document.model, name="H3"))
    found = verify(document, log=build_log(document, model="Qwen/Qwen-Image", resident=2))
    assert found.first_mismatch.aspect is Aspect.MODEL
    assert "expected H3, observed Qwen/Qwen-Image" in found.headline
    assert outcomes(found, Aspect.PLACEMENT)["transformer"] is Outcome.MISMATCH


def test_another_request_is_named_before_its_times():
    document = build_document()
    found = verify(document, dump=build_dump(document, steps=3, time_ratio=4.0))
    assert found.first_mismatch.aspect is Aspect.PASSES
    assert found.first_mismatch.observed == "3 steps"


@pytest.mark.parametrize(
    ("interval", "within", "beyond"),
    [(None, 1.29, 1.31), (None, 0.71, 0.69), ((0.9, 1.5), 0.91, 0.89), ((0.9, 1.5), 1.49, 1.51)],
)
def test_times_are_confirmed_within_the_plans_own_interval_or_a_stated_tolerance(interval, within, beyond):
    document = build_document()
    low_s, high_s = (end * document.prediction.latency_s for end in interval) if interval else (None, None)
    known = replace(document.prediction, latency_low_s=low_s, latency_high_s=high_s)
    told = "-10.0 % to +50.0 %, the plan's own" if interval else "30.0 %, because the plan states no uncertainty"
    for ratio, outcome in ((within, Outcome.CONFIRMED), (beyond, Outcome.MISMATCH)):
        found = verify(replace(document, prediction=known), dump=build_dump(document, time_ratio=ratio))
        times = [check for check in found.checks if "time" in check.aspect]
        assert [(check.outcome, check.tolerance.startswith(told)) for check in times] == [(outcome, True)] * 2


@pytest.mark.parametrize(
    ("ratio", "outcome", "meaning"),
    [
        (1.04, Outcome.CONFIRMED, ""),
        (1.06, Outcome.MISMATCH, "predicted too low, which can end a run"),
        (0.94, Outcome.MISMATCH, "predicted too high"),
    ],
)
def test_peaks_are_confirmed_within_five_percent_and_too_low_is_told_from_too_high(ratio, outcome, meaning):
    document = build_document()
    found = verify(document, log=build_log(document), dump=build_dump(document, peak_ratio=ratio))
    assert set(outcomes(found, Aspect.PEAK).values()) == {outcome}
    assert meaning in found.headline


def test_running_out_of_memory_is_a_mismatch_of_the_peak():
    document = build_document()
    log = parse_server_log([*format_log(document), "OOM detected. Possible solutions:"], "server.log")
    found = verify(document, log=log)
    assert found.first_mismatch.observed == "it ran out"


def test_another_number_of_ranks_is_a_mismatch_of_the_placement():
    document = build_document()
    log = parse_server_log(['server_args: {"tp_size": 2}', *format_log(document)[1:]], "server.log")
    assert verify(document, log=log).first_mismatch.subject == "tensor parallel ranks"
    found = verify(replace(document, tp_size=2), log=log)
    assert outcomes(found, Aspect.PLACEMENT)["tensor parallel ranks"] is Outcome.CONFIRMED


def test_a_dump_alone_leaves_placements_unknown_and_says_so():
    document = build_document()
    found = verify(document, dump=build_dump(document))
    assert outcomes(found, Aspect.PLACEMENT) == dict.fromkeys(("transformer", "vae"), Outcome.NOT_OBSERVABLE)
    assert {check.observed for check in found.checks if check.aspect is Aspect.PLACEMENT} == {"no log was given"}


def test_two_plans_of_which_the_server_set_up_one_are_not_read():
    first, second = build_document(resident=0), build_document(resident=4)
    runs = [
        ObservedPlan(name=name, document=plan, log=build_log(first)) for name, plan in (("a", first), ("b", second))
    ]
    [unread] = find_unread(runs)
    assert unread.plans == ("a", "b")
    assert "transformer (layerwise-offload, resident 0/8, prefetch 1)" in unread.text
    assert not took_effect([verify_plan(runs[0])], [unread])


def test_two_plans_with_equal_dumps_are_not_read_where_they_should_differ():
    first, second = build_document(resident=0), build_document(resident=4)
    runs = [
        ObservedPlan(name=name, document=plan, dump=build_dump(first)) for name, plan in (("a", first), ("b", second))
    ]
    assert "have the same step time and peak" in find_unread(runs)[0].text


@pytest.mark.parametrize("other", [{"resident": 4}, {"resident": 0}])
def test_plans_that_were_followed_or_are_the_same_are_read(other):
    first, second = build_document(), build_document(**other)
    runs = [
        ObservedPlan(name=name, document=plan, log=build_log(plan), dump=build_dump(plan))
        for name, plan in (("a", first), ("b", second))
    ]
    assert find_unread(runs) == ()


def test_plans_of_our_own_engine_and_plans_without_observations_are_refused():
    document = build_document(engine="topup")
    with pytest.raises(UnsupportedError, match="is for the engine topup"):
        ObservedPlan(name="plan.json", document=document, log=build_log(build_document()))
    with pytest.raises(InputError, match=r"nothing was observed of plan\.json"):
        ObservedPlan(name="plan.json", document=build_document())


def test_a_plan_that_moves_a_component_whole_is_confirmed_by_where_it_was_loaded():
    components = {"transformer": build_component(4, is_dit=True, passes=3)}
    document, _ = build_run(components, build_plan(moved()), cap_bytes=10**6)
    found = verify(document, log=build_log(document))
    assert outcomes(found, Aspect.PLACEMENT) == {"transformer": Outcome.CONFIRMED}
    assert outcomes(found, Aspect.PINS) == {}


def test_the_table_has_a_row_per_check_and_mismatches_in_capitals():
    document = build_document(resident=3)
    table = verification_table(verify(document, log=build_log(document, resident=0)))
    assert len(table.rows) == len(verify(document, log=build_log(document)).checks)
    assert [row[0] for row in table.rows if row[4] == "MISMATCH"] == ["placement"]
