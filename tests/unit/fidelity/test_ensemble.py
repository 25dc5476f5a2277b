"""The ensemble samples densities whose moments are known."""

import numpy as np
import pytest

from autotune.fidelity.ensemble import sample_ensemble

COVARIANCE = np.array([[1.0, 0.9 * 20], [0.9 * 20, 400.0]])


def correlated_normal(points):
    """Of two factors, one twenty times as wide as the other."""
    away = points - np.array([3.0, -50.0])
    return -0.5 * np.einsum("ij,jk,ik->i", away, np.linalg.inv(COVARIANCE), away)


def sample(log_density, start, *, steps=2000, seed=1):
    walkers = start(np.random.default_rng(seed), 20)
    chain = sample_ensemble(log_density, walkers, steps, np.random.default_rng(seed))
    return chain[steps // 5 :].reshape(-1, walkers.shape[1])


def test_moments_of_a_correlated_normal_are_found():
    samples = sample(correlated_normal, lambda random, count: random.normal(size=(count, 2)) * [1, 20])
    assert samples.mean(axis=0) == pytest.approx([3.0, -50.0], abs=3.0)
    assert abs(samples[:, 0].mean() - 3.0) < 0.15
    assert np.sqrt(np.diag(np.cov(samples, rowvar=False))) == pytest.approx([1.0, 20.0], rel=0.1)
    assert np.corrcoef(samples, rowvar=False)[0, 1] == pytest.approx(0.9, abs=0.03)


def test_both_parts_of_a_split_density_are_visited_as_they_weigh():
    def two_parts(points):
        distances = [-0.5 * (points[:, 0] - middle) ** 2 for middle in (-3.0, 3.0)]
        return np.logaddexp(np.log(0.25) + distances[0], np.log(0.75) + distances[1])

    samples = sample(two_parts, lambda random, count: random.normal(size=(count, 1)) * 4, steps=4000)
    assert np.mean(samples > 0) == pytest.approx(0.75, abs=0.05)


def test_walkers_never_leave_where_density_is():
    def half(points):
        return np.where(points[:, 0] > 0, -points[:, 0], -np.inf)

    samples = sample(half, lambda random, count: random.exponential(size=(count, 1)))
    assert samples.min() > 0
    assert samples.mean() == pytest.approx(1.0, abs=0.1)


def test_equal_seeds_sample_equally_and_leave_the_walkers_alone():
    walkers = np.random.default_rng(5).normal(size=(8, 2))
    before = walkers.copy()
    chains = [sample_ensemble(correlated_normal, walkers, 50, np.random.default_rng(9)) for _ in range(2)]
    assert np.array_equal(*chains)
    assert np.array_equal(walkers, before)
    assert chains[0].shape == (50, 8, 2)
