"""The sweep: failing objectives, repeats, limits, resuming (field cases S1, S2, S3, S5)."""

import math

import optuna
import pytest
from builders import SGLANG, build_component, build_evaluator, build_facts, build_plan, kept, moved, streamed

from autotune.evaluate import Score
from autotune.space import SearchSpace
from autotune.study import OutOfMemoryError, StudySettings, run_study
from autotune.study_sampler import SamplerName
from autotune.study_space import StudySpace
from runtime.errors import InputError, PlanError
from runtime.residency import Mode, Policy

STREAMED_ONLY = SearchSpace(max_prefetch=1, modes=(Mode.LAYERWISE_OFFLOAD,))
SAMPLERS = pytest.mark.parametrize("sampler", SamplerName)


def build_space(count=5, space=STREAMED_ONLY):
    return StudySpace(build_facts({"transformer": build_component(count)}).model, space, SGLANG)


def resident_of(record):
    return record.plan.placements[0].resident


def by_resident(plan):
    """Less resident is faster, and needs no VRAM."""
    return Score(latency_s=1.0 + plan.placements[0].resident, charged_bytes=0)


def study(objective=by_resident, *, space=None, cap_bytes=100, seeds=(), progress=None, **settings):
    values = {"trials": 20, "seed": 1, **settings}
    space = space or build_space()
    return run_study(space, objective, cap_bytes, StudySettings(**values), seeds=seeds, progress=progress)


def raises(error):
    def objective(_):
        raise error

    return objective


def returns(value):
    return lambda _: value


# S1: what an objective may do wrong, and what is said of it.
MISBEHAVIOUR = {
    "NaN": (returns(Score(latency_s=math.nan, charged_bytes=0)), "no measurements"),
    "infinite": (returns(Score(latency_s=math.inf, charged_bytes=0)), "no measurements"),
    "negative": (returns(Score(latency_s=-1.0, charged_bytes=0)), "no measurements"),
    "NaN constraint": (returns(Score(latency_s=1.0, charged_bytes=math.nan)), "no measurements"),
    "infinite constraint": (returns(Score(latency_s=1.0, charged_bytes=math.inf)), "no measurements"),
    "no constraint": (returns(1.0), "AttributeError"),
    "nothing": (returns(None), "AttributeError"),
    "out of memory": (raises(OutOfMemoryError("6 GiB short")), "out of memory: 6 GiB short"),
    "crash": (raises(RuntimeError("boom")), "RuntimeError: boom"),
    "pruned": (raises(optuna.TrialPruned()), "TrialPruned"),
}


@SAMPLERS
@pytest.mark.parametrize("case", MISBEHAVIOUR)
def test_a_sweep_whose_every_trial_fails_completes_its_budget(case, sampler):
    objective, reason = MISBEHAVIOUR[case]
    result = study(objective, trials=12, sampler=sampler)
    assert len(result.records) == 12
    assert result.best is None
    assert all(reason in record.failure for record in result.records)
    assert not any(record.feasible for record in result.records)


@pytest.mark.parametrize("case", MISBEHAVIOUR)
def test_a_sweep_with_some_failing_trials_finds_the_best_of_the_others(case):
    misbehave, _ = MISBEHAVIOUR[case]
    result = study(lambda plan: misbehave(plan) if plan.placements[0].resident < 2 else by_resident(plan), trials=60)
    assert resident_of(result.best) == 2


def test_a_plan_that_failed_is_not_tried_again():
    tried = []

    def objective(plan):
        tried.append(plan)
        raise OutOfMemoryError("full")

    study(objective, trials=60)
    assert len(tried) == len(set(tried))


def test_failed_trials_are_shown_to_the_sampler_as_infeasible_by_a_finite_amount(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"
    study(raises(OutOfMemoryError("full")), trials=3, storage=storage)
    [summary] = optuna.get_all_study_summaries(storage)
    trials = optuna.load_study(study_name=summary.study_name, storage=storage).trials
    assert [trial.state for trial in trials] == [optuna.trial.TrialState.COMPLETE] * 3
    assert all(0 < trial.constraints["vram_gib"] < math.inf for trial in trials)


# S2
def test_a_study_in_which_nothing_fits_has_no_best_trial():
    result = study(lambda plan: Score(latency_s=1.0, charged_bytes=101), trials=60)
    assert result.best is None
    assert result.exhausted


def test_the_best_trial_is_feasible_even_if_an_infeasible_one_is_faster():
    def needs_five(plan):
        resident = plan.placements[0].resident
        return Score(latency_s=1.0 + resident, charged_bytes=0 if resident >= 5 else 101)

    seeds = [("low", build_plan(streamed(resident=0))), ("high", build_plan(streamed(resident=9)))]
    result = study(needs_five, space=build_space(9), seeds=seeds, trials=2)
    assert [record.feasible for record in result.records] == [False, True]
    assert resident_of(result.best) == 9


def test_of_two_equally_fast_trials_the_best_needs_less_vram():
    result = study(lambda plan: Score(latency_s=1.0, charged_bytes=50 - plan.placements[0].resident), trials=60)
    assert resident_of(result.best) == 5


# S3
@SAMPLERS
def test_a_tiny_space_is_tried_once_and_ends_early(sampler):
    calls = []
    space = build_space(5)

    def objective(plan):
        calls.append((plan.placements[0].resident, plan.placements[0].policy, plan.placements[0].lifetime))
        return by_resident(plan)

    result = study(objective, space=space, trials=500, sampler=sampler)
    assert result.exhausted
    assert len(calls) == len(set(calls)) == result.evaluations == space.size
    assert len({(resident, policy) for resident, policy, _ in calls}) == 10  # policies are one for r = 0 and for r = n
    assert len(result.records) < 500


def test_a_repeat_is_answered_from_memory():
    result = study(trials=60)
    repeats = [record for record in result.records if record.repeated]
    assert len(repeats) == len(result.records) - result.evaluations
    first = {record.plan: record.score for record in result.records if not record.repeated}
    assert all(first[record.plan] == record.score for record in repeats)


# S5
@SAMPLERS
@pytest.mark.parametrize("count", [0, 1, 2])
def test_components_with_few_layers_leave_few_parameters(count, sampler):
    space = build_space(count, SearchSpace())
    result = study(lambda plan: Score(latency_s=1.0, charged_bytes=0), space=space, trials=2000, sampler=sampler)
    assert result.exhausted
    assert result.evaluations == space.size
    suggested = set(space.grid())
    assert ("transformer.prefetch" in suggested) == (count > 1)
    assert ("transformer.resident_plus_1" in suggested) == (count > 0)


def test_a_space_with_one_plan_suggests_nothing():
    space = build_space(3, SearchSpace(modes=(Mode.RESIDENT,)))
    result = study(space=space, trials=5)
    assert (space.grid(), result.evaluations, result.exhausted) == ({}, 1, True)


def test_a_seed_with_more_resident_layers_than_there_are_is_refused():
    with pytest.raises(PlanError, match=r"transformer\.resident is 99: its longest stack has 5 layers"):
        study(seeds=[("mine", build_plan(streamed(resident=99)))])


@pytest.mark.parametrize("placement", [streamed(prefetch=2), kept(), moved()])
def test_a_seed_outside_the_searched_space_is_refused(placement):
    with pytest.raises(InputError, match=r"transformer: .* lies outside the searched space"):
        study(seeds=[("mine", build_plan(placement))])


def test_a_seed_for_another_model_is_refused():
    with pytest.raises(PlanError, match="the plan is not for toy"):
        study(seeds=[("mine", build_plan(kept("vae")))])


@SAMPLERS
def test_seeds_come_first_with_their_names_and_fill_the_budget_together_with_samples(sampler):
    seeds = [("default", build_plan(streamed())), ("exact", build_plan(streamed(resident=3, policy=Policy.STRIDED)))]
    result = study(seeds=seeds, trials=5, sampler=sampler)
    assert [record.origin for record in result.records] == ["default", "exact", "sampled", "sampled", "sampled"]
    assert [record.number for record in result.records] == [0, 1, 2, 3, 4]


def test_a_grid_with_seeds_tries_the_whole_space():
    seeds = [("default", build_plan(streamed())), ("again", build_plan(streamed()))]
    result = study(seeds=seeds, trials=500, sampler=SamplerName.GRID)
    assert (result.evaluations, result.exhausted) == (build_space().size, True)
    assert result.records[1].repeated


def test_more_seeds_than_budget_are_cut():
    seeds = [(f"seed {resident}", build_plan(streamed(resident=resident))) for resident in range(4)]
    assert len(study(seeds=seeds, trials=2).records) == 2


def test_a_grid_that_is_too_large_is_refused():
    with pytest.raises(InputError, match="more than 50,000: a grid suits models with one or two small components"):
        study(space=build_space(3000, SearchSpace()), sampler=SamplerName.GRID)


def test_a_study_has_at_least_one_trial():
    with pytest.raises(InputError, match="--trials is 0: a study needs at least one trial"):
        StudySettings(trials=0)


@SAMPLERS
def test_the_same_seed_gives_the_same_trials(sampler):
    one, other = (study(trials=15, seed=7, sampler=sampler, space=build_space(9, SearchSpace())) for _ in range(2))
    assert one == other


def test_another_seed_gives_other_trials():
    one, other = (study(trials=15, seed=seed, space=build_space(9, SearchSpace())) for seed in (1, 2))
    assert one.records != other.records


def test_progress_is_told_after_every_trial():
    told = []
    study(trials=3, seeds=[("default", build_plan(streamed()))], progress=lambda *now: told.append(now))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_storage_that_cannot_be_opened_is_refused():
    with pytest.raises(InputError, match=r"cannot open the study storage 'nonsense://x': .*sqlite:///study\.db"):
        study(storage="nonsense://x")


@SAMPLERS
def test_a_resumed_study_evaluates_nothing_twice_and_has_its_own_budget(tmp_path, sampler):
    storage, calls = f"sqlite:///{tmp_path}/study.db", []

    def objective(plan):
        calls.append(plan)
        return by_resident(plan)

    seeds = [("default", build_plan(streamed()))]
    first = study(objective, storage=storage, trials=6, seeds=seeds, sampler=sampler)
    second = study(objective, storage=storage, trials=6, seeds=seeds, sampler=sampler)
    assert len(calls) == len(set(calls)) == first.evaluations + second.evaluations
    assert len(second.records) == 6
    assert (second.records[0].origin, second.records[0].repeated) == ("default", True)
    assert [record.plan for record in second.earlier] == [
        record.plan for record in first.records if not record.repeated
    ]
    assert second.earlier[0].origin == "default"
    assert second.evaluations > 0


def test_a_resumed_study_remembers_its_best_and_its_failures(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"

    def first_only(plan):
        if plan.placements[0].resident == 0:
            raise OutOfMemoryError("full")
        return by_resident(plan)

    settings = {"storage": storage, "trials": 100, "sampler": SamplerName.GRID}
    first = study(first_only, **settings)
    second = study(raises(AssertionError("evaluated again")), **settings)
    assert first.exhausted
    assert second.exhausted
    assert second.records == ()
    assert (second.best.plan, second.best.score) == (first.best.plan, first.best.score)
    assert [record.failure for record in second.earlier if resident_of(record) == 0] == ["out of memory: full"]


def test_studies_about_different_questions_share_a_storage_but_no_trials(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"
    study(storage=storage, trials=4, key="H3 on a 4090")
    assert study(storage=storage, trials=4, key="H3 on a 3090").earlier == ()
    assert study(storage=storage, trials=4, key="H3 on a 4090", cap_bytes=99).earlier == ()
    assert len(study(storage=storage, trials=4, key="H3 on a 4090").earlier) > 0


def test_predicted_scores_are_deterministic_through_the_whole_sweep():
    evaluator = build_evaluator({"transformer": build_component(4, is_dit=True, passes=3)})
    space = StudySpace(evaluator.cost_model.facts.model, SearchSpace(), SGLANG)
    one, other = (study(evaluator.score, space=space, cap_bytes=2**40, trials=30) for _ in range(2))
    assert one == other
