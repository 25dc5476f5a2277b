"""Fits a few factors to a few observations: samples what is probable of them (``autotune.fidelity.posterior``). Pure.

Predictions have kinks where another lane binds, so that what the observations allow is no ellipsoid around one answer
and may have several parts: it is sampled (``autotune.fidelity.ensemble``) on a surrogate of the replay, which is
refined where the samples are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.fidelity.ensemble import sample_ensemble
from autotune.fidelity.posterior import Posterior, Problem
from autotune.fidelity.surrogate import Matrix, Surrogate, Vector

_SEED = 20260823
_WALKERS_PER_FACTOR = 6
_SHORT_STEPS, _LONG_STEPS, _BURN_STEPS = 60, 300, 60
_ROUNDS = 8
_PLANES_PER_ROUND = 3
_PRIOR_DRAWS = 3000
_PART = 200
_LOST = 30.0
_TAIL, _TINY = 0.05, 1e-12
_TOLERATED = 0.3
"""Error of the surrogate, in units of the noise, below which it needs no more planes."""


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

        The ends are as far from each factor's median as its own quantiles are, all by one multiple: the smallest that
        leaves enough samples within. Many samples say how far that is; a far quantile of each factor rests on few.
        """
        low, middle, high = np.quantile(self.samples, [_TAIL, 0.5, 1 - _TAIL], axis=0)
        below, above = np.maximum(middle - low, _TINY), np.maximum(high - middle, _TINY)
        away = self.samples - middle
        reach = np.max(np.where(away < 0, -away / below, away / above), axis=1)
        multiple = np.quantile(reach, confidence)
        return middle - multiple * below, middle + multiple * above


def estimate_factors(problem: Problem) -> Estimate:
    """Fit ``problem``; equal problems have equal answers."""
    random = np.random.default_rng(_SEED)
    count = len(problem.prior)
    widths = np.sqrt(np.diag(problem.prior))
    surrogate = Surrogate(problem.predict, widths)
    posterior = Posterior(problem, surrogate.evaluate)
    prior_draws = _draw_prior(problem, random)
    for point in np.concatenate([np.zeros((1, count)), prior_draws[:_PLANES_PER_ROUND]]):
        surrogate.add_plane(problem.to_natural(point))
    walkers = _choose_walkers(problem, posterior, prior_draws, random)
    for _ in range(_ROUNDS):
        walkers = _settle(posterior, walkers, _SHORT_STEPS, random)
        if _refine(problem, posterior, surrogate, walkers, random) < _TOLERATED:
            break
        near = walkers[random.integers(len(walkers), size=_PRIOR_DRAWS // 4), :count]
        spread = near + random.normal(size=near.shape) * widths * 0.2
        walkers = _choose_walkers(problem, posterior, np.concatenate([spread, near, prior_draws]), random)
    walkers = _settle(posterior, walkers, _BURN_STEPS, random)
    chain = sample_ensemble(posterior.log_density, walkers, _LONG_STEPS, random)
    return _describe(problem, posterior, chain.reshape(-1, count + 1))


def _draw_prior(problem: Problem, random: np.random.Generator) -> Matrix:
    draws = random.multivariate_normal(np.zeros(len(problem.prior)), problem.prior, size=_PRIOR_DRAWS)
    return np.where(problem.is_positive > 0, np.abs(draws), draws)


def _choose_walkers(problem: Problem, posterior: Posterior, draws: Matrix, random: np.random.Generator) -> Matrix:
    """Starting points of an ensemble among ``draws``: the more probable the likelier, however improbable all are."""
    count = _WALKERS_PER_FACTOR * (len(problem.prior) + 1)
    usable = np.where(problem.is_positive > 0, np.abs(draws), draws)
    noises = np.log(problem.noise) + np.abs(random.normal(size=len(usable)))
    points = np.concatenate([usable, noises[:, None]], axis=1)
    scores = np.concatenate([posterior.log_density(part) for part in np.array_split(points, len(points) // _PART + 1)])
    # Tempered until the best hundredth of the draws is likely: a few best ones alone would not span the space.
    best = np.sort(scores)[::-1]
    spread = max(best[0] - best[min(len(best) - 1, max(count, len(best) // 100))], 1.0)
    keys = scores / spread + random.gumbel(size=len(scores))  # drawn without replacement
    return np.asarray(points[np.argsort(keys)[::-1][:count]], dtype=np.float64)


def _settle(posterior: Posterior, walkers: Matrix, steps: int, random: np.random.Generator) -> Matrix:
    """Where the ensemble is after ``steps``; walkers that are still where next to nothing is join others.

    At most half of them: walkers at one place have no differences to step along.
    """
    found = sample_ensemble(posterior.log_density, walkers, steps, random)[-1]
    scores = posterior.log_density(found)
    lost = scores < min(scores.max() - _LOST, float(np.median(scores)))
    found[lost] = found[random.choice(np.flatnonzero(~lost), size=int(lost.sum()))]
    return np.asarray(found, dtype=np.float64)


def _refine(
    problem: Problem, posterior: Posterior, surrogate: Surrogate, walkers: Matrix, random: np.random.Generator
) -> float:
    """Take planes at the best walker and some others; how far off the surrogate was there, in units of the noise."""
    scores = posterior.log_density(walkers)
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


def _describe(problem: Problem, posterior: Posterior, chain: Matrix) -> Estimate:
    samples = chain[:, :-1]
    good, bad = posterior.log_likelihoods(chain[:: max(1, len(chain) // 500)])
    factors = samples.mean(axis=0)
    return Estimate(
        samples=samples,
        factors=factors,
        weights=np.asarray(np.exp(good - np.logaddexp(good, bad)).mean(axis=0), dtype=np.float64),
        noise=float(np.exp(np.median(chain[:, -1]))),
        predicted=problem.predict(problem.to_natural(factors))[problem.which],
    )
