"""Runs whose source does not show the request: what depends on pixels may be off by the size that was assumed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autotune.observed.observation import REQUEST_NOT_SHOWN, Observation
from autotune.uncertainty import ACTIVATIONS_PREFIX, COMPUTE_PREFIX, Uncertainty

_SIZE_LOGARITHM = 0.5
"""Standard deviation of the logarithm of an assumed size: those that people use differ by a factor of three in work."""


def is_request_assumed(run: Observation) -> bool:
    """Whether the source of ``run`` does not show the request."""
    return any(text.startswith(REQUEST_NOT_SHOWN) for text in run.assumed)


def doubt_request(uncertainty: Uncertainty, runs: Sequence[Observation]) -> Uncertainty:
    """``uncertainty`` with the doubt about an assumed request, common to compute and activations of all components."""
    if not any(map(is_request_assumed, runs)):
        return uncertainty
    depends = np.asarray([float(name.startswith((COMPUTE_PREFIX, ACTIVATIONS_PREFIX))) for name in uncertainty.names])
    covariance = np.asarray(uncertainty.covariance) + _SIZE_LOGARITHM**2 * np.outer(depends, depends)
    return replace(uncertainty, covariance=tuple(tuple(float(value) for value in row) for row in covariance))
