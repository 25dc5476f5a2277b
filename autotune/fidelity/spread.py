"""How far the latency of a plan may be off, and the difference of two plans. Pure.

Notation
    x   the factors of ``autotune.uncertainty``: normal, with mean 0 and covariance C
    t   the predicted time of a later request; g = dt/dx its slopes
    r   the share of a latency by which repeated runs differ

The delta method: t varies by g'Cg, the difference of two plans by (g1 - g2)'C(g1 - g2), so that what both have in
common cancels; each run adds (r t)^2 of its own. Slopes are divided differences over half a standard deviation either
way: a kink within reach, where another lane binds, counts in part. What adds seconds is never below nothing: up only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator
from autotune.fidelity.factors import Factors, apply_to_facts, apply_to_rates
from autotune.uncertainty import Uncertainty, is_added_time, is_memory_factor
from runtime.plan import Plan
from runtime.plan_document import is_tie

REPEATS = "repeats"
"""The cause of a spread that no factor has: repeated runs of one plan differ."""

INTERVAL_RATIO = 0.9
"""Share of the cases that lies within a stated interval of a latency."""

_STEP = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure's standard deviation in its own unit, and the factor (or ``REPEATS``) that most of it comes from."""

    sd: float
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Seconds by which one plan is slower than another, with the standard deviation, two runs' noise included."""

    difference_s: float
    spread: Spread

    @property
    def is_tie(self) -> bool:
        """Whether the plans are closer than the noise."""
        return is_tie(self.difference_s, self.spread.sd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes:
    """A plan's later request: its latency, and what one unit of each factor adds to it."""

    latency_s: float
    by_factor: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySpreads:
    """Plans whose slopes are known, under one uncertainty."""

    uncertainty: Uncertainty
    slopes: Mapping[Plan, Slopes]

    def spread_of(self, plan: Plan) -> Spread:
        """How far the latency of ``plan`` may be off."""
        found = self.slopes[plan]
        return combine_slopes(found.by_factor, self.uncertainty, repeats=(found.latency_s,))

    def interval_of(self, plan: Plan) -> tuple[float, float]:
        """Seconds between which ``INTERVAL_RATIO`` of the cases lie.

        They are a lognormal's of that standard deviation, because most factors multiply, and upwards a normal's where
        that reaches farther, because some add.
        """
        latency_s, sd_s = self.slopes[plan].latency_s, self.spread_of(plan).sd
        reach = NormalDist().inv_cdf((1 + INTERVAL_RATIO) / 2)
        if not latency_s:
            return 0.0, reach * sd_s
        logarithm = reach * math.sqrt(math.log1p((sd_s / latency_s) ** 2))
        return latency_s * math.exp(-logarithm), max(latency_s * math.exp(logarithm), latency_s + reach * sd_s)

    def difference(self, plan: Plan, other: Plan) -> Difference:
        """By how much ``plan`` is slower than ``other``."""
        return compare_slopes(self.slopes[plan], self.slopes[other], self.uncertainty)


def compare_slopes(slopes: Slopes, other: Slopes, uncertainty: Uncertainty) -> Difference:
    """By how much the plan of ``slopes`` is slower than that of ``other``, which may be of another request."""
    by_factor = tuple(own - its for own, its in zip(slopes.by_factor, other.by_factor, strict=True))
    return Difference(
        difference_s=slopes.latency_s - other.latency_s,
        spread=combine_slopes(by_factor, uncertainty, repeats=(slopes.latency_s, other.latency_s)),
    )


def combine_slopes(
    by_factor: tuple[float, ...], uncertainty: Uncertainty, *, repeats: tuple[float, ...] = ()
) -> Spread:
    """The standard deviation that slopes and the noise of runs of ``repeats`` seconds make together, and its cause."""
    slopes = np.asarray(by_factor, dtype=np.float64)
    covariance = np.asarray(uncertainty.covariance, dtype=np.float64).reshape(len(slopes), len(slopes))
    shares = slopes * (covariance @ slopes)
    noise = uncertainty.repeat_ratio**2 * sum(seconds**2 for seconds in repeats)
    parts = {**dict(zip(uncertainty.names, shares.tolist(), strict=True)), REPEATS: noise}
    cause = max(parts, key=lambda name: parts[name])
    return Spread(sd=math.sqrt(max(sum(parts.values()), 0.0)), cause=cause)


def derive_spreads(evaluator: Evaluator, uncertainty: Uncertainty, plans: Iterable[Plan]) -> LatencySpreads:
    """Slopes of ``plans``, predicted anew for every factor of time."""
    wanted = tuple(dict.fromkeys(plans))
    now = _time_all(evaluator, wanted)
    slopes = [_derive_slopes(evaluator, uncertainty, name, wanted, now) for name in uncertainty.names]
    return LatencySpreads(
        uncertainty=uncertainty,
        slopes={
            plan: Slopes(latency_s=now[index], by_factor=tuple(column[index] for column in slopes))
            for index, plan in enumerate(wanted)
        },
    )


def _derive_slopes(
    evaluator: Evaluator, uncertainty: Uncertainty, name: str, plans: tuple[Plan, ...], now: list[float]
) -> list[float]:
    """What one unit of the factor ``name`` adds to each plan's latency."""
    step = _STEP * uncertainty.sd_of(name)
    if is_memory_factor(name) or not step:
        return [0.0] * len(plans)
    above = _time_all(_change(evaluator, {name: step}), plans)
    if is_added_time(name):
        return [(up - base) / step for up, base in zip(above, now, strict=True)]
    below = _time_all(_change(evaluator, {name: -step}), plans)
    return [(up - down) / (2 * step) for up, down in zip(above, below, strict=True)]


def _change(evaluator: Evaluator, factors: Factors) -> Evaluator:
    """``evaluator`` under ``factors``, for times alone."""
    costs = evaluator.cost_model
    changed = CostModel(apply_to_facts(costs.facts, factors), apply_to_rates(costs.rates, factors))
    return Evaluator(changed, evaluator.memory_model, evaluator.engine, evaluator.host_rule.memory)


def _time_all(evaluator: Evaluator, plans: tuple[Plan, ...]) -> list[float]:
    uses = [evaluator.time_later(plan) for plan in plans]
    return [times[-1].end_s if times else 0.0 for times in uses]
