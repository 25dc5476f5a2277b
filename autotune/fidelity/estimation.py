"""Fits a few factors to a few observations: what is probable under a prior, whatever bad observations say.

Notation
    x      the factors: normal prior with mean 0 and covariance P; those that are added are not negative
    u(x)   what predictions are linear in, piece by piece: exp(x) of logarithms, x of what is added
    y_i    what was observed, f_i(u) what is predicted, r_i = (y_i - f_i) / s_i, or the logarithm of y_i / f_i
    sigma  the noise of good observations; its square has a scaled inverse chi-squared prior

Each observation is good, with noise sigma, or bad, with noise ``BAD_RATIO`` times as large (a mixture of two normals;
Box and Tiao, A Bayesian approach to some outlier problems, 1968). Predictions have kinks where another lane binds, so
that what the observations allow is no ellipsoid around one answer and may have several parts: it is sampled (Goodman
and Weare's ensemble moves, as ``emcee`` implements them) on a surrogate of the replay, which is refined where the
samples are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import emcee
import numpy as np

from autotune.fidelity.surrogate import Matrix, Surrogate, Vector

BAD_RATIO = 15.0
"""How much wider bad observations scatter than good ones."""

BAD_SHARE = 0.08
"""Share of bad observations that is expected before any is seen."""

LEAST_TO_DOUBT = 4
"""With fewer observations none is doubted: nothing says which one is off."""

_SEED = 20260823
_WALKERS_PER_FACTOR = 4
_SHORT_STEPS, _LONG_STEPS, _BURN_STEPS = 120, 700, 200
_ROUNDS = 8
_PLANES_PER_ROUND = 3
_PRIOR_DRAWS = 3000
_TOLERATED = 0.3
"""Error of the surrogate, in units of the noise, below which it needs no more planes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is fitted.

    Attributes:
        predict: u -> what is predicted of every observation.
        observed: y.
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
    is_relative: bool
    scales: Vector
    prior: Matrix
    is_logarithm: Vector
    is_positive: Vector
    noise: float
    noise_strength: float
    least_noise: float

    @property
    def bad_share(self) -> float:
        """Share of bad observations before any is seen."""
        return BAD_SHARE if len(self.observed) >= LEAST_TO_DOUBT else 0.0

    def to_natural(self, factors: Matrix) -> Matrix:
        """u of factors in rows."""
        return np.where(self.is_logarithm > 0, np.exp(np.clip(factors, -20, 20)), factors)

    def residuals(self, predicted: Matrix) -> Matrix:
        """r of predictions in rows."""
        if self.is_relative:
            return np.log(self.observed / np.maximum(predicted, 1e-12))
        return (self.observed - predicted) / self.scales


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The answer.

    Attributes:
        samples: factors in rows, as probable as they are dense.
        factors: their mean.
        weights: probability of each observation that it is good.
        noise: sigma.
        predicted: what the mean predicts of every observation.
    """

    samples: Matrix
    factors: Vector
    weights: Vector
    noise: float
    predicted: Vector

    @property
    def covariance(self) -> Matrix:
        """Covariance of the factors."""
        return np.atleast_2d(np.cov(self.samples, rowvar=False))

    def intervals(self, confidence: float) -> tuple[Vector, Vector]:
        """Lower and upper ends such that all factors lie within theirs with ``confidence``.

        The same share of the samples is cut off every end of every factor; the share is the largest that leaves enough.
        """
        low_tail, high_tail = 0.0, (1 - confidence) / 2
        ends = np.quantile(self.samples, [0.0, 1.0], axis=0)
        for _ in range(30):
            tail = (low_tail + high_tail) / 2
            found = np.quantile(self.samples, [tail, 1 - tail], axis=0)
            inside = np.mean(np.all((self.samples >= found[0]) & (self.samples <= found[1]), axis=1))
            if inside >= confidence:
                low_tail, ends = tail, found
            else:
                high_tail = tail
        return ends[0], ends[1]


def estimate_factors(problem: Problem) -> Estimate:
    """Fit ``problem``; equal problems have equal answers."""
    random = np.random.default_rng(_SEED)
    count = len(problem.prior)
    widths = np.sqrt(np.diag(problem.prior))
    natural_widths = np.where(problem.is_logarithm > 0, widths, np.maximum(widths, 1e-12))
    surrogate = Surrogate(problem.predict, natural_widths)
    prior_draws = _draw_prior(problem, random)
    for point in np.concatenate([np.zeros((1, count)), prior_draws[:_PLANES_PER_ROUND]]):
        surrogate.add_plane(problem.to_natural(point))
    walkers = _choose_walkers(problem, surrogate, prior_draws, random)
    for _ in range(_ROUNDS):
        walkers = _walk(problem, surrogate, walkers, _SHORT_STEPS, random)[-len(walkers) :]
        if _refine(problem, surrogate, walkers, random) < _TOLERATED:
            break
        near = walkers[random.integers(len(walkers), size=_PRIOR_DRAWS // 4), :count]
        spread = near + random.normal(size=near.shape) * widths * 0.2
        walkers = _choose_walkers(problem, surrogate, np.concatenate([spread, near, prior_draws]), random)
    chain = _walk(problem, surrogate, walkers, _BURN_STEPS + _LONG_STEPS, random)[_BURN_STEPS * len(walkers) :]
    return _describe(problem, surrogate, chain)


def _draw_prior(problem: Problem, random: np.random.Generator) -> Matrix:
    draws = random.multivariate_normal(np.zeros(len(problem.prior)), problem.prior, size=_PRIOR_DRAWS)
    return np.where(problem.is_positive > 0, np.abs(draws), draws)


def _choose_walkers(problem: Problem, surrogate: Surrogate, draws: Matrix, random: np.random.Generator) -> Matrix:
    """Starting points of an ensemble among ``draws``: the more probable the likelier, however improbable all are."""
    count = _WALKERS_PER_FACTOR * (len(problem.prior) + 1)
    usable = np.where(problem.is_positive > 0, np.abs(draws), draws)
    noises = np.log(problem.noise) + np.abs(random.normal(size=len(usable)))
    points = np.concatenate([usable, noises[:, None]], axis=1)
    scores = _log_posterior(problem, surrogate, points)
    # Tempered until the best hundredth of the draws is likely: a few best ones alone would not span the space.
    best = np.sort(scores)[::-1]
    spread = max(best[0] - best[min(len(best) - 1, max(count, len(best) // 100))], 1.0)
    keys = scores / spread + random.gumbel(size=len(scores))  # drawn without replacement
    return np.asarray(points[np.argsort(keys)[::-1][:count]], dtype=np.float64)


def _walk(problem: Problem, surrogate: Surrogate, walkers: Matrix, steps: int, random: np.random.Generator) -> Matrix:
    """``steps`` of the ensemble from ``walkers``; all positions, step by step."""
    sampler = emcee.EnsembleSampler(
        len(walkers), walkers.shape[1], lambda points: _log_posterior(problem, surrogate, points), vectorize=True
    )
    seed = np.random.RandomState(int(random.integers(2**31))).get_state()
    sampler.run_mcmc(emcee.State(walkers, random_state=seed), steps, skip_initial_state_check=True)
    return np.asarray(sampler.get_chain(flat=True), dtype=np.float64)


def _refine(problem: Problem, surrogate: Surrogate, walkers: Matrix, random: np.random.Generator) -> float:
    """Take planes at the best walker and some others; how far off the surrogate was there, in units of the noise."""
    scores = _log_posterior(problem, surrogate, walkers)
    picked = np.concatenate(
        [[int(np.argmax(scores))], random.choice(len(walkers), _PLANES_PER_ROUND - 1, replace=False)]
    )
    error = 0.0
    for walker in walkers[picked]:
        natural = problem.to_natural(walker[:-1])
        guessed = surrogate.evaluate(natural[None, :])
        exact = surrogate.add_plane(natural)
        off = np.abs(problem.residuals(guessed) - problem.residuals(exact[None, :]))[0]
        error = max(error, float(np.max(off)) / max(float(np.exp(walker[-1])), problem.least_noise))
    return error


def _log_posterior(problem: Problem, surrogate: Surrogate, points: Matrix) -> Vector:
    """Logarithm of the posterior of factors and log sigma in rows, up to a constant."""
    factors, log_noise = points[:, :-1], points[:, -1]
    noise = np.exp(log_noise)
    prior = -0.5 * np.einsum("ij,ij->i", factors, np.linalg.solve(problem.prior, factors.T).T)
    prior -= problem.noise_strength * (log_noise + 0.5 * (problem.noise / noise) ** 2)
    residuals = problem.residuals(surrogate.evaluate(problem.to_natural(factors)))
    good, bad = _log_densities(residuals, noise[:, None], problem.bad_share)
    outside = np.any((factors < 0) & (problem.is_positive > 0), axis=1) | (noise < problem.least_noise)
    return np.where(outside, -np.inf, prior + np.logaddexp(good, bad).sum(axis=1))


def _log_densities(residuals: Matrix, noise: Matrix, bad_share: float) -> tuple[Matrix, Matrix]:
    """Logarithms of how probable residuals are of good and of bad observations, one common constant left out."""
    squares = (residuals / noise) ** 2
    good = np.log1p(-bad_share) - 0.5 * squares - np.log(noise)
    if not bad_share:
        return good, np.full_like(good, -np.inf)
    return good, np.log(bad_share / BAD_RATIO) - 0.5 * squares / BAD_RATIO**2 - np.log(noise)


def _describe(problem: Problem, surrogate: Surrogate, chain: Matrix) -> Estimate:
    samples = chain[:, :-1]
    some = chain[:: max(1, len(chain) // 500)]
    residuals = problem.residuals(surrogate.evaluate(problem.to_natural(some[:, :-1])))
    good, bad = _log_densities(residuals, np.exp(some[:, -1:]), problem.bad_share)
    factors = samples.mean(axis=0)
    return Estimate(
        samples=samples,
        factors=factors,
        weights=np.asarray(np.exp(good - np.logaddexp(good, bad)).mean(axis=0), dtype=np.float64),
        noise=float(np.exp(np.median(chain[:, -1]))),
        predicted=problem.predict(problem.to_natural(factors)),
    )
