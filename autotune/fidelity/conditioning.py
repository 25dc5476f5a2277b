"""What is known of all factors once some of them were fitted: the conditional normal distribution. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.fidelity.surrogate import Matrix, Vector


def condition(
    values: Vector, covariance: Matrix, fitted: Sequence[int], fitted_values: Vector, fitted_covariance: Matrix
) -> tuple[Vector, Matrix]:
    """Values and covariance of all factors after those at ``fitted`` were found to be as they are.

    The others are updated by what they share with these: S_of S_ff^-1 carries over the change of the fitted values, and
    of their covariance. What shares nothing stays.

    Args:
        values, covariance: of all factors before.
        fitted: indices of the fitted ones, whose values were as before when they were fitted.
        fitted_values, fitted_covariance: of these, after.
    """
    others = [index for index in range(len(values)) if index not in fitted]
    of_fitted = covariance[np.ix_(fitted, fitted)]
    gain = covariance[np.ix_(others, fitted)] @ np.linalg.inv(of_fitted)
    new_values, new_covariance = values.copy(), covariance.copy()
    new_values[others] += gain @ (fitted_values - values[fitted])
    new_values[fitted] = fitted_values
    new_covariance[np.ix_(others, others)] -= gain @ (of_fitted - fitted_covariance) @ gain.T
    new_covariance[np.ix_(others, fitted)] = gain @ fitted_covariance
    new_covariance[np.ix_(fitted, others)] = new_covariance[np.ix_(others, fitted)].T
    new_covariance[np.ix_(fitted, fitted)] = fitted_covariance
    return new_values, new_covariance
