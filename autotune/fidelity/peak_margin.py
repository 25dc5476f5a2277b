"""How far the device memory of every phase may be off, and what a quantile of it keeps free. Pure.

The expected peak of a phase is off by what base bytes and the activations of its component are off, the latter times
what the allocator reserves for them. Quantiles are those of a normal distribution, on the side of too little memory;
each holds for its phase, and the one that decides is that of the phase with the peak.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from autotune.fidelity.spread import Spread, combine_slopes
from autotune.memory_model import reserve_activations
from autotune.model_facts import ModelFacts
from autotune.phases import phase_uses
from autotune.uncertainty import ACTIVATIONS_PREFIX, Uncertainty
from runtime.errors import InputError

SAFE_QUANTILE = 0.95
"""What "safe" means: of 20 set-ups that are planned up to the cap, one is expected to need more than it."""

EXPECTED_QUANTILE = 0.5
"""At this quantile the expected peak is planned with, and nothing is kept free for its error."""


def check_quantile(quantile: float) -> None:
    """Refuse what is no quantile to plan with.

    Raises:
        InputError: it is not from ``EXPECTED_QUANTILE`` to below 1.
    """
    if not EXPECTED_QUANTILE <= quantile < 1:
        raise InputError(
            f"--peak-quantile is {quantile}: give a share from {EXPECTED_QUANTILE} (the expected peak) up to below 1, "
            f"e.g. {SAFE_QUANTILE}"
        )


def derive_peak_spreads(facts: ModelFacts, uncertainty: Uncertainty) -> tuple[Spread, ...]:
    """How far each phase's expected peak may be off, in bytes."""
    found = []
    for use, reserved_bytes in zip(phase_uses(facts.request), reserve_activations(facts), strict=True):
        own = ACTIVATIONS_PREFIX + facts.work[use].component if use is not None else ""
        slopes = {"base_bytes": 1.0, own: float(reserved_bytes)}
        found.append(combine_slopes(tuple(slopes.get(name, 0.0) for name in uncertainty.names), uncertainty))
    return tuple(found)


def derive_margins(facts: ModelFacts, uncertainty: Uncertainty, quantile: float) -> tuple[int, ...]:
    """Bytes to keep free in each phase so that ``quantile`` of the cases stay within what is charged.

    Raises:
        InputError: no quantile to plan with.
    """
    check_quantile(quantile)
    reach = NormalDist().inv_cdf(quantile)
    return tuple(math.ceil(reach * spread.sd) for spread in derive_peak_spreads(facts, uncertainty))
