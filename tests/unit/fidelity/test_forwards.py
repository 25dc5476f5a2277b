"""How many forwards a step can have made."""

import pytest
from builders import kept
from comparison_builders import MOVED, build_case

from autotune.fidelity.forwards import choose_forwards
from autotune.fidelity.passes import count_denoiser_passes, with_forwards
from autotune.observed.observation import Scope


def _guided(case):
    """The toy's facts with two forwards a step."""
    return with_forwards(case.ground.facts, 2)


def _needed(case):
    """Bytes that all passes of the streamed transformer copy."""
    stack = case.ground.facts.model.component("transformer").stacks[0]
    return 2 * count_denoiser_passes(case.ground.facts) * sum(layer.run_bytes for layer in stack.layers)


def test_models_own_number_is_kept_while_the_link_can_carry_it():
    case = build_case(seconds=10.0)
    assert choose_forwards([(case.observation, case.plan)], _guided(case), _needed(case) / 10, None).count == 2


def test_too_short_a_time_shows_that_fewer_were_made():
    case = build_case(seconds=10.0)
    found = choose_forwards([(case.observation, case.plan)], _guided(case), _needed(case) / 11, None)
    assert found.count == 1
    assert "1 forward a step instead of 2: run would else have copied" in found.why


def test_fastest_run_of_a_set_up_decides_for_all():
    slow, fast = build_case("slow", seconds=100.0), build_case("fast", seconds=10.0)
    runs = [(case.observation, case.plan) for case in (slow, fast)]
    assert "fast" in choose_forwards(runs, _guided(slow), _needed(slow) / 11, None).why


@pytest.mark.parametrize("scope", [Scope.REQUEST, Scope.USE])
def test_whole_request_and_use_cover_all_passes(scope):
    case = build_case(seconds=10.0, scope=scope)
    assert choose_forwards([(case.observation, case.plan)], _guided(case), _needed(case) / 11, None).count == 1


def test_step_covers_its_own_passes():
    case = build_case(scope=Scope.STEP)
    case = build_case(scope=Scope.STEP, seconds=10.0 / case.ground.facts.workload.steps)
    assert choose_forwards([(case.observation, case.plan)], _guided(case), _needed(case) / 11, None).count == 1


@pytest.mark.parametrize("transformer", [MOVED, kept("transformer")])
def test_nothing_is_known_of_what_does_not_stream(transformer):
    case = build_case(transformer=transformer, seconds=1e-6)
    assert choose_forwards([(case.observation, case.plan)], _guided(case), 1.0, None).count == 2


def test_stated_number_wins():
    case = build_case(seconds=1e-6)
    assert choose_forwards([(case.observation, case.plan)], _guided(case), 1.0, 2).count == 2
