"""Samples what is probable with an ensemble of walkers that learn from each other where to step. Pure.

The halves of the ensemble move in turn. A walker of one half proposes either its position plus the difference of two
walkers of the other half (differential evolution; ter Braak, 2006), or a stretch along the line to one of these
(Goodman and Weare, 2010): neither needs a scale, nor minds correlated factors. As ``emcee`` (Foreman-Mackey and others,
2013) does it, for all walkers at once: with a density that takes microseconds, loops over walkers cost thrice as much.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from autotune.fidelity.surrogate import Matrix, Vector

LogDensity = Callable[[Matrix], Vector]
"""Points in rows -> logarithm of their density up to a constant; minus infinity where nothing is."""

_DIFFERENCE_SHARE = 0.6
_STRETCH = 2.0
_JITTER = 1e-5


def sample_ensemble(
    log_density: LogDensity, walkers: Matrix, steps: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Positions after each of ``steps`` steps: steps x walkers x factors.

    Args:
        log_density: of what is sampled.
        walkers: where they start, where the density is not 0; even in number, at least twice the factors.
        steps: of every walker.
        random: makes the choices.
    """
    positions = walkers.copy()
    scores = log_density(positions)
    half = len(positions) // 2
    chain = np.empty((steps, *positions.shape))
    for step in range(steps):
        order = random.permutation(len(positions))
        for own, others in ((order[:half], order[half:]), (order[half:], order[:half])):
            here = positions[own]
            propose = _differ if random.random() < _DIFFERENCE_SHARE else _stretch
            proposed, log_ratios = propose(here, positions[others], random)
            found = log_density(proposed)
            accepted = -random.exponential(size=half) < log_ratios + found - scores[own]
            positions[own] = np.where(accepted[:, None], proposed, here)
            scores[own] = np.where(accepted, found, scores[own])
        chain[step] = positions
    return chain


def _differ(here: Matrix, others: Matrix, random: np.random.Generator) -> tuple[Matrix, Vector]:
    """Along the difference of two others; as likely forwards as backwards."""
    count, size = len(here), here.shape[1]
    first = random.integers(len(others), size=count)
    second = (first + random.integers(1, len(others), size=count)) % len(others)
    scales = 2.38 / np.sqrt(2 * size) * (1 + _JITTER * random.standard_normal(count))
    return here + scales[:, None] * (others[first] - others[second]), np.zeros(count)


def _stretch(here: Matrix, others: Matrix, random: np.random.Generator) -> tuple[Matrix, Vector]:
    """Nearer to one of the others or farther from it, by a factor with density 1 / sqrt(z) from 1/2 to 2."""
    count, size = len(here), here.shape[1]
    factors = ((_STRETCH - 1) * random.random(count) + 1) ** 2 / _STRETCH
    towards = others[random.integers(len(others), size=count)]
    log_ratios = np.asarray((size - 1) * np.log(factors), dtype=np.float64)
    return towards + factors[:, None] * (here - towards), log_ratios
