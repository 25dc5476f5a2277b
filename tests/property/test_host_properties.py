"""Host tiers on toy models, whose reserves are a few bytes instead of GiB."""

import contextlib
from itertools import pairwise
from unittest import mock

import pytest
from builders import build_evaluator
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import INTERFERENCES, SHAPES, UNDISTURBED, all_plans, components, plans_of

from autotune import host_states
from autotune.bounds import compute_use_bounds_s
from autotune.exact import ExactSolver
from autotune.recorder import Recorder
from autotune.space import SearchSpace
from runtime import hosting
from runtime.engines.host_rules import host_plan
from runtime.engines.registry import list_engines
from runtime.hosting import HostMemory, HostTier

SPACE = SearchSpace(max_prefetch=2)


@contextlib.contextmanager
def small_reserves(steps=10**9):
    """Reserves that suit models of some thousand bytes, and states of the host as they are."""
    with (
        mock.patch.object(hosting, "MIN_PIN_RESERVE_BYTES", 100),
        mock.patch.object(hosting, "COPY_RESERVE_BYTES", 200),
        mock.patch.object(host_states, "_STEPS", steps),
    ):
        yield


@st.composite
def hosted_evaluators(draw, *, max_layers=4, max_stacks=2, interferences=UNDISTURBED):
    """An evaluator of a toy pipeline on a host that may be too small for it."""
    names, uses = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]
    toys = {
        name: draw(components(is_dit=name.startswith("dit"), max_layers=max_layers, max_stacks=max_stacks))
        for name in names
    }
    memory = HostMemory(
        available_bytes=draw(st.integers(0, 60_000)),
        pins=draw(st.sampled_from([True, True, True, False])),
        page_cache_room_bytes=draw(st.sampled_from([None, 0, 5_000, 10**6])),
    )
    engine = draw(st.sampled_from(list_engines()))
    return build_evaluator(toys, uses=uses, engine=engine, host=memory, interference=draw(interferences))


@given(st.data())
def test_every_layer_that_needs_a_host_copy_waits_in_one_place(data):
    with small_reserves():
        evaluator = data.draw(hosted_evaluators())
        plan = data.draw(plans_of(evaluator))
        found = evaluator.hosting_of(plan)
        for spec, placement, part in zip(
            evaluator.lifecycle.model.components, plan.placements, found.components, strict=True
        ):
            for stack, hosted in zip(spec.stacks, part.stacks, strict=False):
                gone = placement.permanent_layers(len(stack.layers))
                assert [tier is None for tier in hosted.tiers] == [index in gone for index in range(len(hosted.tiers))]
                assert hosted.streamed_mapped_bytes <= hosted.mapped_bytes
                assert min(hosted.pageable_bytes, hosted.pinned_bytes, hosted.streamed_mapped_bytes) >= 0
        pinned = sum(hosted.pinned_bytes for part in found.components for hosted in part.stacks)
        assert pinned <= max(budget.spendable_bytes for budget in found.budgets)


@given(st.data())
def test_a_larger_budget_pins_a_superset_under_topup(data):
    with small_reserves():
        names, uses = SHAPES["video"]
        toys = {name: data.draw(components(is_dit=name == "dit")) for name in names}
        sizes = sorted(data.draw(st.lists(st.integers(0, 60_000), min_size=2, max_size=2)))
        plan, pinned = None, []
        for size in sizes:
            evaluator = build_evaluator(toys, uses=uses, engine="topup", host=HostMemory(available_bytes=size))
            plan = plan or data.draw(plans_of(evaluator))
            found = host_plan(evaluator.host_rule, evaluator.lifecycle.model, plan)
            pinned.append(
                {
                    (component, stack, layer)
                    for component, part in enumerate(found.components)
                    for stack, hosted in enumerate(part.stacks)
                    for layer, tier in enumerate(hosted.tiers)
                    if tier is HostTier.PINNED
                }
            )
        assert pinned[0] <= pinned[1]


@given(st.data())
def test_no_use_is_faster_than_its_bound(data):
    with small_reserves():
        evaluator = data.draw(hosted_evaluators(interferences=UNDISTURBED | INTERFERENCES))
        plan = data.draw(plans_of(evaluator))
        evaluation = evaluator.evaluate(plan)
        program = evaluator.lifecycle.build_program(plan)
        bounds = compute_use_bounds_s(program, plan, evaluator.costs_of(plan))
        for use, bound_s in zip(evaluation.uses, bounds, strict=True):
            assert use.total_s >= bound_s - 1e-9


@given(st.data())
def test_no_two_copies_to_the_device_run_at_once(data):
    with small_reserves():
        evaluator = data.draw(hosted_evaluators(interferences=UNDISTURBED | INTERFERENCES))
        recorder = Recorder()
        evaluator.evaluate(data.draw(plans_of(evaluator)), recorder)
        copies = sorted((start, end) for lane, start, end, _ in recorder.spans if lane == 1 and end > start)
        assert all(later[0] >= earlier[1] - 1e-9 for earlier, later in pairwise(copies))


@settings(max_examples=40)
@given(st.data())
def test_the_solver_finds_what_brute_force_finds_on_a_small_host(data):
    with small_reserves():
        evaluator = data.draw(hosted_evaluators(max_layers=2, max_stacks=1, interferences=UNDISTURBED | INTERFERENCES))
        solver = ExactSolver(evaluator, SPACE)
        scored = [evaluator.score(plan) for plan in all_plans(evaluator, SPACE)]
        fitting = [score for score in scored if not score.host_short_bytes]
        caps = sorted({score.charged_bytes for score in scored})
        for cap in (caps[0], caps[len(caps) // 2], caps[-1]):
            best_s = min((score.latency_s for score in fitting if score.charged_bytes <= cap), default=None)
            solution = solver.solve(cap)
            if best_s is None:
                assert solution is None
                continue
            assert solution is not None
            assert solution.optimum_score == evaluator.score(solution.optimum)
            assert solution.optimum_score.latency_s == pytest.approx(best_s, rel=1e-9)
