"""The samplers that a study can use, as the library makes them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from enum import StrEnum

import optuna
from optuna.samplers import BaseSampler, GridSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from autotune.study_space import StudySpace
from runtime.errors import InputError

# Larger grids than this are refused: the library lists and shuffles every point before the first trial.
_LARGEST_GRID = 50_000


class SamplerName(StrEnum):
    """Samplers offered."""

    TPE = "tpe"
    NSGA2 = "nsga2"
    RANDOM = "random"
    GRID = "grid"


def make_sampler(name: SamplerName, space: StudySpace, seed: int) -> BaseSampler:
    """The sampler called ``name`` for ``space``.

    Raises:
        InputError: the grid is too large.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return _make_sampler(name, space, seed)


def _make_sampler(name: SamplerName, space: StudySpace, seed: int) -> BaseSampler:
    match name:
        case SamplerName.TPE:
            return TPESampler(seed=seed, multivariate=True)
        case SamplerName.NSGA2:
            return NSGAIISampler(seed=seed)
        case SamplerName.RANDOM:
            return RandomSampler(seed=seed)
        case SamplerName.GRID:
            points = space.grid_size
            if points > _LARGEST_GRID:
                raise InputError(
                    f"the grid has {points:,} points, more than {_LARGEST_GRID:,}: a grid suits models with one or two "
                    "small components; use another --sampler"
                )
            # One fixed order: the library remembers points by number, and a resumed study must mean the same ones.
            return _Grid(space.grid(), seed=0)


class _Grid(GridSampler):
    """Optuna's grid without its own idea of when a study is over, which raises outside ``Study.optimize``."""

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Leave the end to the sweep."""
