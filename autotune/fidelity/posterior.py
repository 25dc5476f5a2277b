"""How probable factors are after observations under a prior, whatever bad observations say. Pure.

Notation
    x      the factors: normal prior with mean 0 and covariance P; those that are added are not negative
    u(x)   what predictions are linear in, piece by piece: exp(x) of logarithms, x of what is added
    y_i    what was observed, f_i(u) what is predicted, r_i = (y_i - f_i) / s_i, or the logarithm of y_i / f_i
    sigma  the noise of good observations; its square has a scaled inverse chi-squared prior

Each observation is good, with noise sigma, or bad, with noise ``BAD_RATIO`` times as large (a mixture of two normals;
Box and Tiao, A Bayesian approach to some outlier problems, 1968).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.fidelity.surrogate import Matrix, Vector

BAD_RATIO = 15.0
"""How much wider bad observations scatter than good ones."""

BAD_SHARE = 0.08
"""Share of bad observations that is expected before any is seen."""

MOST_REPEATS = 6
"""As many repeats of one figure are independent pieces of evidence for what it depends on; more are not."""

LEAST_TO_DOUBT = 4
"""With fewer observations none is doubted: nothing says which one is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is fitted.

    Attributes:
        predict: u -> every figure that is predicted.
        observed: y.
        which: of each observation, the figure that it is of; repeats share one.
        is_relative: whether residuals are logarithms of ratios; else differences over ``scales``.
        scales: s.
        prior: P.
        is_logarithm: per factor, whether u is its exponential; else the factor is added.
        is_positive: per factor, whether it is never below 0.
        noise: sigma before anything is known.
        noise_strength: how many observations that counts for.
        least_noise: no fit claims less.
    """

    predict: Callable[[Vector], Vector]
    observed: Vector
    which: NDArray[np.intp]
    is_relative: bool
    scales: Vector
    prior: Matrix
    is_logarithm: Vector
    is_positive: Vector
    noise: float
    noise_strength: float
    least_noise: float

    @property
    def shares(self) -> Vector:
        """How many observations each one counts for: repeats beyond ``MOST_REPEATS`` share what that many say.

        They tell how runs scatter, and do not make what is simplified in the prediction any smaller.
        """
        return np.minimum(1.0, MOST_REPEATS / np.bincount(self.which)[self.which])

    @property
    def bad_share(self) -> float:
        """Share of bad observations before any is seen."""
        return BAD_SHARE if len(self.observed) >= LEAST_TO_DOUBT else 0.0

    def to_natural(self, factors: Matrix) -> Matrix:
        """u of factors in rows."""
        return np.where(self.is_logarithm > 0, np.exp(np.clip(factors, -20, 20)), factors)

    def residuals(self, predicted: Matrix) -> Matrix:
        """r of all observations, of predicted figures in rows."""
        if self.is_relative:
            return np.log(self.observed) - np.log(np.maximum(predicted, 1e-12))[:, self.which]
        return (self.observed - predicted[:, self.which]) / self.scales


class Posterior:
    """Densities of a problem whose predictions ``evaluate`` gives: u in rows -> f in rows."""

    def __init__(self, problem: Problem, evaluate: Callable[[Matrix], Matrix]) -> None:
        self._problem = problem
        self._evaluate = evaluate
        self._precision = np.linalg.inv(problem.prior)
        self._shares = problem.shares

    def log_density(self, points: Matrix) -> Vector:
        """Logarithm of the posterior of factors and log sigma in rows, up to a constant."""
        problem, factors, log_noise = self._problem, points[:, :-1], points[:, -1]
        noise = np.exp(log_noise)
        prior = -0.5 * ((factors @ self._precision) * factors).sum(axis=1)
        prior -= problem.noise_strength * (log_noise + 0.5 * (problem.noise / noise) ** 2)
        good, bad = self.log_likelihoods(points)
        outside = ((factors < 0) & (problem.is_positive > 0)).any(axis=1) | (noise < problem.least_noise)
        return np.where(outside, -np.inf, prior + np.logaddexp(good, bad) @ self._shares)

    def log_likelihoods(self, points: Matrix) -> tuple[Matrix, Matrix]:
        """Logarithms of how probable each observation is as a good and as a bad one, one common constant left out."""
        problem, log_noise = self._problem, points[:, -1:]
        residuals = problem.residuals(self._evaluate(problem.to_natural(points[:, :-1])))
        squares = residuals**2 * np.exp(-2 * log_noise)
        good = np.log1p(-problem.bad_share) - 0.5 * squares - log_noise
        if not problem.bad_share:
            return good, np.full_like(good, -np.inf)
        return good, np.log(problem.bad_share / BAD_RATIO) - 0.5 * squares / BAD_RATIO**2 - log_noise
