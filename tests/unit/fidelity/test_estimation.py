"""Fits of problems whose answers are known."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.fidelity.estimation import estimate_factors
from autotune.fidelity.posterior import LEAST_TO_DOUBT, Posterior, Problem

TRUTH = np.array([2.0, 0.5])
SHARES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [1.0, 3.0], [3.0, 2.0], [1.0, 2.0], [2.0, 3.0]])


def build_problem(observed, *, shares=SHARES, noise=0.01, prior_sd=1.0, **changes):
    """Sums of two positive multipliers, exp(x): the first 2, the second 0.5."""
    problem = Problem(
        predict=lambda natural: shares @ natural,
        observed=np.asarray(observed, dtype=np.float64),
        is_relative=True,
        which=np.arange(len(shares)),
        scales=np.asarray(observed, dtype=np.float64),
        prior=np.eye(2) * prior_sd**2,
        is_logarithm=np.ones(2),
        is_positive=np.zeros(2),
        noise=noise,
        noise_strength=4.0,
        least_noise=0.005,
    )
    return replace(problem, **changes)


def test_exact_observations_give_the_factors_back():
    found = estimate_factors(build_problem(SHARES @ TRUTH))
    assert found.factors == pytest.approx(np.log(TRUTH), abs=0.005)
    assert found.predicted == pytest.approx(SHARES @ TRUTH, rel=0.01)
    assert found.weights.min() > 0.9
    assert found.noise < 0.012


def test_noise_is_found_where_it_is_larger_than_expected():
    random = np.random.default_rng(7)
    shares = np.tile(SHARES, (5, 1))
    observed = shares @ TRUTH * np.exp(random.normal(0, 0.05, size=len(shares)))
    assert estimate_factors(build_problem(observed, shares=shares)).noise == pytest.approx(0.05, rel=0.3)


def test_one_wild_observation_is_set_aside_and_moves_nothing():
    observed = SHARES @ TRUTH
    observed[3] *= 3
    found = estimate_factors(build_problem(observed))
    assert found.weights[3] < 0.01
    assert np.delete(found.weights, 3).min() > 0.8
    assert found.factors == pytest.approx(np.log(TRUTH), abs=0.02)


def test_fewer_than_four_observations_are_never_doubted():
    assert LEAST_TO_DOUBT == 4
    observed = (SHARES @ TRUTH)[:3] * [1.0, 1.0, 3.0]
    found = estimate_factors(build_problem(observed, shares=SHARES[:3]))
    assert found.weights == pytest.approx(np.ones(3))


def test_equal_problems_have_equal_answers():
    first, second = (estimate_factors(build_problem(SHARES @ TRUTH)) for _ in range(2))
    assert np.array_equal(first.samples, second.samples)


def test_without_information_the_prior_stays():
    shares = np.array([[1.0, 0.0]] * 4)
    found = estimate_factors(build_problem(shares @ TRUTH, shares=shares))
    low, high = found.intervals(0.9)
    assert found.factors[1] == pytest.approx(0.0, abs=0.15)
    assert np.sqrt(found.covariance[1, 1]) == pytest.approx(1.0, rel=0.15)
    assert low[1] < -1.5 < 1.5 < high[1]


def test_intervals_hold_all_factors_together_and_grow_with_confidence():
    found = estimate_factors(build_problem(SHARES @ TRUTH))
    widths = []
    for confidence in (0.5, 0.9, 0.98):
        low, high = found.intervals(confidence)
        inside = np.mean(np.all((found.samples >= low) & (found.samples <= high), axis=1))
        assert inside == pytest.approx(confidence, abs=0.005)
        widths.append(high - low)
    assert np.all(np.diff(widths, axis=0) > 0)


def test_added_amount_is_never_below_nothing():
    problem = build_problem(SHARES @ [2.0, 0.001], is_logarithm=np.array([1.0, 0.0]), is_positive=np.array([0.0, 1.0]))
    found = estimate_factors(problem)
    assert found.samples[:, 1].min() >= 0
    assert found.factors[1] < 0.01


def test_kink_leaves_a_hidden_factor_free_on_one_side():
    def slower_lane(natural):
        return np.repeat(np.max(natural), 6)

    problem = replace(build_problem([2.0] * 6), predict=slower_lane, which=np.arange(6))
    samples = np.exp(estimate_factors(problem).samples)
    assert np.mean(np.abs(np.max(samples, axis=1) - 2.0) < 0.1) > 0.9
    hidden = samples.min(axis=1)
    assert np.quantile(hidden, 0.1) < 1.0  # anything below the other lane is possible
    assert 0.2 < np.mean(samples[:, 0] > samples[:, 1]) < 0.8  # and either lane may be the hidden one


def test_repeats_share_one_prediction():
    problem = build_problem(SHARES @ TRUTH)
    distinct = replace(problem, predict=lambda natural: SHARES[:2] @ natural, which=np.tile([0, 1], 4))
    repeated = replace(problem, predict=lambda natural: np.tile(SHARES[:2] @ natural, 4))
    first, second = (estimate_factors(item) for item in (distinct, repeated))
    assert np.array_equal(first.samples, second.samples)
    assert first.predicted == pytest.approx(second.predicted)


@pytest.mark.parametrize("observed", [1e-6, 1e6])
def test_absurd_observations_are_answered_with_finite_factors(observed):
    found = estimate_factors(build_problem([observed] * 8))
    assert np.all(np.isfinite(found.samples))
    assert np.all(np.isfinite(found.covariance))


def test_density_is_nothing_below_zero_and_below_the_least_noise():
    problem = build_problem(SHARES @ TRUTH, is_positive=np.array([0.0, 1.0]))
    posterior = Posterior(problem, lambda points: points @ SHARES.T)
    points = np.array([[0.0, -0.1, np.log(0.01)], [0.0, 0.1, np.log(0.001)], [0.0, 0.1, np.log(0.01)]])
    assert list(np.isfinite(posterior.log_density(points))) == [False, False, True]
