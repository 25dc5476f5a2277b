"""The conditional normal distribution, against what repeated updates of it must give."""

import numpy as np
import pytest

from autotune.fidelity.conditioning import condition

COVARIANCE = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 4.0]])


def test_factor_that_shares_half_follows_half_and_keeps_its_own_part():
    values, covariance = condition(np.zeros(3), COVARIANCE, [0], np.array([2.0]), np.array([[0.0]]))
    assert values == pytest.approx([2.0, 1.0, 0.0])
    assert np.diag(covariance) == pytest.approx([0.0, 0.75, 4.0])
    assert covariance[0, 1] == 0.0


def test_nothing_changes_where_nothing_was_learnt():
    values, covariance = condition(np.zeros(3), COVARIANCE, [0, 2], np.zeros(2), COVARIANCE[np.ix_([0, 2], [0, 2])])
    assert values == pytest.approx(np.zeros(3))
    assert covariance == pytest.approx(COVARIANCE)


def test_independent_factors_stay():
    values, covariance = condition(np.zeros(3), COVARIANCE, [2], np.array([3.0]), np.array([[0.25]]))
    assert values == pytest.approx([0.0, 0.0, 3.0])
    assert covariance[:2, :2] == pytest.approx(COVARIANCE[:2, :2])


def test_result_is_a_covariance_whatever_is_learnt():
    random = np.random.default_rng(3)
    for share in random.random(50):
        root = random.normal(size=(4, 4))
        before = root @ root.T
        _, covariance = condition(np.zeros(4), before, [0, 1], np.ones(2), share * before[:2, :2])
        assert covariance == pytest.approx(covariance.T)
        assert np.linalg.eigvalsh(covariance).min() > -1e-9
        assert np.linalg.eigvalsh(before - covariance).min() > -1e-9
