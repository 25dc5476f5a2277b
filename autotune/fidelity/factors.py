"""Changes what predictions rest on by the factors of ``autotune.uncertainty``. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from autotune.model_facts import ModelFacts
from autotune.rates import Rates
from autotune.uncertainty import ACTIVATIONS_PREFIX, COMPUTE_PREFIX
from autotune.work import GroupWork, UseWork, Work

Factors = Mapping[str, float]
"""Factor -> how far it is from what is predicted with, in its own unit; one that is missing is 0."""

_MOST_LOGARITHM = 12.0
"""Nothing is off by more than 160,000 times; a link a million times slower than its datasheet would be no rate."""


def _times(factors: Factors, name: str) -> float:
    """The multiplier that a logarithmic factor stands for."""
    return math.exp(min(max(factors.get(name, 0.0), -_MOST_LOGARITHM), _MOST_LOGARITHM))


def apply_to_rates(rates: Rates, factors: Factors) -> Rates:
    """``rates`` with the factors of copies and reads."""
    copy, pageable, disk = (_times(factors, name) for name in ("copy", "pageable", "disk"))
    return replace(
        rates,
        pinned_bytes_per_s=rates.pinned_bytes_per_s / copy,
        d2h_bytes_per_s=rates.d2h_bytes_per_s / copy,
        pageable_bytes_per_s=rates.pageable_bytes_per_s / pageable,
        disk_bytes_per_s=rates.disk_bytes_per_s / disk,
    )


def apply_to_facts(facts: ModelFacts, factors: Factors) -> ModelFacts:
    """``facts`` with the factors of compute, of what passes and uses take besides, and of activations."""
    pass_s, use_s = (max(factors.get(name, 0.0), 0.0) for name in ("pass_s", "use_s"))
    return replace(facts, work=tuple(_change_use(use, factors, pass_s, use_s) for use in facts.work))


def apply_to_activations(facts: ModelFacts, factors: Factors) -> ModelFacts:
    """``facts`` with the factors of activations alone: all that changes bytes, for a tenth of the work."""
    return replace(
        facts, work=tuple(replace(use, activation_bytes=_scale_activations(use, factors)) for use in facts.work)
    )


def _scale_activations(use: UseWork, factors: Factors) -> int:
    return round(use.activation_bytes * _times(factors, ACTIVATIONS_PREFIX + use.component))


def _change_use(use: UseWork, factors: Factors, pass_s: float, use_s: float) -> UseWork:
    compute = _times(factors, COMPUTE_PREFIX + use.component)
    groups = tuple(
        GroupWork(
            layers={name: tuple(layer.scaled(compute) for layer in layers) for name, layers in group.layers.items()},
            outside=group.outside.scaled(compute) + Work(measured_s=pass_s),
        )
        for group in use.groups
    )
    return replace(
        use,
        groups=groups,
        outside=use.outside.scaled(compute) + Work(measured_s=use_s if use.groups else 0.0),
        activation_bytes=_scale_activations(use, factors),
    )


def change_context(context_bytes: int, factors: Factors) -> int:
    """Device bytes besides weights and activations, with the factor of these; never below nothing."""
    return max(0, context_bytes + round(factors.get("base_bytes", 0.0)))


def settle_work(facts: ModelFacts, rates: Rates) -> ModelFacts:
    """``facts`` with the seconds that ``rates`` give in the place of counted work.

    What was scaled by a factor is no count of operations any more.
    """
    return replace(facts, work=tuple(_settle_use(use, rates) for use in facts.work))


def _settle_use(use: UseWork, rates: Rates) -> UseWork:
    def settle(work: Work) -> Work:
        return Work(measured_s=rates.estimate_work_s(work, use.compute_dtype))

    groups = tuple(
        GroupWork(
            layers={name: tuple(map(settle, layers)) for name, layers in group.layers.items()},
            outside=settle(group.outside),
        )
        for group in use.groups
    )
    return replace(use, groups=groups, outside=settle(use.outside))
