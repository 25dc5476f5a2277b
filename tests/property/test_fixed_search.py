"""Whatever is fixed, every plan that a search looks at has it, and the optimum is the best of those."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import placements, small_evaluators

from autotune.exact import ExactSolver
from autotune.space import FixedSettings, SearchSpace, fold
from autotune.study import StudySettings, run_study
from autotune.study_sampler import SamplerName
from autotune.study_space import StudySpace
from runtime.plan import Plan
from runtime.residency import Mode

KNOBS = ("prefetch", "resident", "policy", "lifetime")


@st.composite
def fixed_settings(draw, model):
    """Some settings of some components, taken from a placement that each can have."""
    found = []
    for component in model.components:
        placement = draw(placements(component))
        names = draw(st.sets(st.sampled_from(["mode", *KNOBS])))
        if placement.mode is not Mode.LAYERWISE_OFFLOAD:
            names &= {"mode"}
        values = {name: getattr(placement, name) for name in names}
        if values:
            found.append(FixedSettings(component=component.name, **values))
    return tuple(found)


def keeps(placement, fixed):
    if fixed.mode is not None and placement.mode is not fixed.mode:
        return False
    if placement.mode is not Mode.LAYERWISE_OFFLOAD:
        return True
    return all(getattr(placement, name) == value for name, value in fixed.knobs.items())


def keeps_all(plan, space):
    return all(keeps(plan.placement(fixed.component), fixed) for fixed in space.fixed)


@st.composite
def cases(draw):
    evaluator = draw(small_evaluators())
    fixed = draw(fixed_settings(evaluator.cost_model.facts.model))
    return evaluator, SearchSpace(max_prefetch=2, fixed=fixed)


@given(cases())
def test_every_placement_keeps_what_is_fixed_and_no_behaviour_is_lost(case):
    evaluator, space = case
    for component in evaluator.cost_model.facts.model.components:
        found = space.placements(component)
        fixed = next((item for item in space.fixed if item.component == component.name), None)
        assert found
        assert len(set(found)) == len(found)
        assert all(space.settle(placement, component) == placement for placement in found)
        if fixed is None:
            continue
        assert all(keeps(placement, fixed) for placement in found)
        free = SearchSpace(max_prefetch=2).placements(component)
        behaviours = {fold(placement, component) for placement in found}
        assert {placement for placement in free if keeps(placement, fixed)} <= behaviours


@settings(max_examples=30)
@given(cases())
def test_the_solver_s_optimum_is_the_best_plan_that_keeps_what_is_fixed(case):
    evaluator, space = case
    solver = ExactSolver(evaluator, space)
    model = evaluator.cost_model.facts.model
    plans = [
        Plan(engine=evaluator.engine.name, placements=placed)
        for placed in product(*(space.placements(component) for component in model.components))
    ]
    scores = [evaluator.score(plan) for plan in plans]
    cap = sorted(score.charged_bytes for score in scores)[len(scores) // 2]
    solution = solver.solve(cap)
    best = min(score.latency_s for score in scores if score.charged_bytes <= cap)
    assert solution.optimum_score.latency_s == pytest.approx(best, rel=1e-9)
    for plan in (solution.optimum, solution.chosen, solver.smallest()[0]):
        assert keeps_all(plan, space)
    assert all(keeps_all(point.plan, space) for point in solver.trade_off())


@settings(max_examples=20)
@given(cases(), st.sampled_from([SamplerName.TPE, SamplerName.RANDOM, SamplerName.NSGA2]), st.data())
def test_every_trial_of_a_study_keeps_what_is_fixed(case, sampler, data):
    evaluator, space = case
    model = evaluator.cost_model.facts.model
    solution = ExactSolver(evaluator, space).solve(2**60)
    foreign = Plan(
        engine=evaluator.engine.name,
        placements=tuple(
            data.draw(st.sampled_from(SearchSpace(max_prefetch=2).placements(c))) for c in model.components
        ),
    )
    result = run_study(
        StudySpace(model, space, evaluator.engine.name),
        evaluator.score,
        2**60,
        StudySettings(trials=30, sampler=sampler),
        seeds=[("exact optimum", solution.optimum), ("another plan", foreign)],
    )
    assert all(keeps_all(record.plan, space) for record in result.records)
