"""Samples what is probable with an ensemble of walkers that learn from each other where to step. Pure.

``emcee`` (Foreman-Mackey and others, 2013) with two of its moves: along the difference of two other walkers (ter Braak,
2006), and along the line to another one (Goodman and Weare, 2010). Neither needs a scale, nor minds correlated factors.
"""

from __future__ import annotations

from collections.abc import Callable

import emcee
import numpy as np
from numpy.typing import NDArray

from autotune.fidelity.surrogate import Matrix, Vector

LogDensity = Callable[[Matrix], Vector]
"""Points in rows -> logarithm of their density up to a constant; minus infinity where nothing is."""

_DIFFERENCE_SHARE = 0.6


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
    moves = [(emcee.moves.DEMove(), _DIFFERENCE_SHARE), (emcee.moves.StretchMove(), 1 - _DIFFERENCE_SHARE)]
    sampler = emcee.EnsembleSampler(*walkers.shape, log_density, moves=moves, vectorize=True)
    # The library wants the state of numpy's older generator, and its starting points need not span the space.
    state = np.random.RandomState(int(random.integers(2**31))).get_state()
    sampler.run_mcmc(emcee.State(walkers, copy=True, random_state=state), steps, skip_initial_state_check=True)
    return np.asarray(sampler.get_chain(), dtype=np.float64)
