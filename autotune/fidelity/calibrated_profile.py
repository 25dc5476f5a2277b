"""Makes the profile that plans are made from out of a calibration, and names the source of every figure. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from autotune.fidelity.calibration import Calibration
from autotune.fidelity.factors import apply_to_facts, apply_to_rates, change_context, settle_work
from autotune.model_facts import ModelFacts
from autotune.profile import Profile
from autotune.rates import Rates
from autotune.uncertainty import ACTIVATIONS_PREFIX, COMPUTE_PREFIX
from runtime.target_summary import DeviceSummary, Figure

CALIBRATED = "calibrated"
"""What the source of a figure begins with that was fitted to observed runs, and ``ModelFacts.source`` of such facts."""

COMPUTE_RATIO, ACTIVATIONS_RATIO = "compute_ratio", "activations_ratio"
"""Figures of a calibrated device, one per component: ``compute_ratio.transformer``."""

UNSEEN_FIGURE = "unseen_bytes"
"""Figure of a calibrated device: what of ``context_bytes`` torch does not count, which is all that was not fitted."""

_RATES_OF_FACTORS = {
    "copy": ("pinned_bytes_per_s", "d2h_pinned_bytes_per_s"),
    "pageable": ("pageable_bytes_per_s",),
    "disk": ("disk_bytes_per_s",),
}
_FOLLOWED = "estimated: follows what it shares with fitted figures"
_RATE_ATTRIBUTES = {"d2h_pinned_bytes_per_s": "d2h_bytes_per_s"}


def build_calibrated_profile(base: Profile, calibration: Calibration, runs: Sequence[str]) -> Profile:
    """``base`` with the fitted factors in its figures.

    Args:
        base: what the calibrated runs were predicted from, for the workload that is planned for next.
        calibration: what was fitted.
        runs: names of the runs that it rests on.
    """
    values = calibration.values
    rates = apply_to_rates(base.rates, values)
    determined = {factor.name for factor in calibration.factors if factor.is_determined}
    source = f"{CALIBRATED}: fitted to {describe_runs(runs)}"
    facts = _calibrate_facts(base.facts, rates, calibration)
    context_bytes = change_context(base.context_bytes, values)
    figures = {**_calibrate_rates(base.device, rates, determined, source), **_list_ratios(calibration, source)}
    base_source = figures["context_bytes"].source
    is_base_known = "base_bytes" in determined
    besides = f"{source}, with all that the server keeps beside" if is_base_known else base_source
    figures["context_bytes"] = Figure(value=float(context_bytes), unit="bytes", source=besides)
    unseen_bytes = min(find_unseen_bytes(base), context_bytes)
    figures[UNSEEN_FIGURE] = Figure(value=float(unseen_bytes), unit="bytes", source=base_source)
    measured = tuple(name for name in base.device.measured if not figures[name].source.startswith(CALIBRATED))
    return replace(
        base,
        facts=facts,
        rates=rates,
        context_bytes=context_bytes,
        device=replace(base.device, figures=figures, measured=measured),
        uncertainty=calibration.uncertainty,
    )


def find_unseen_bytes(profile: Profile) -> int:
    """What of the ``context_bytes`` of ``profile`` torch does not count: all that no calibration added."""
    figure = profile.device.figures.get(UNSEEN_FIGURE)
    return profile.context_bytes if figure is None else round(figure.value)


def describe_runs(runs: Sequence[str]) -> str:
    """The runs in words: all names of a few, the number of many."""
    if len(runs) > 4:
        return f"{len(runs)} observed runs"
    return f"the observed run{'s' if len(runs) > 1 else ''} {', '.join(runs)}"


def _calibrate_facts(facts: ModelFacts, rates: Rates, calibration: Calibration) -> ModelFacts:
    settled = settle_work(apply_to_facts(facts, calibration.values), rates)
    return replace(settled, source=CALIBRATED)


def _calibrate_rates(device: DeviceSummary, rates: Rates, determined: set[str], source: str) -> dict[str, Figure]:
    """All figures of ``device``; rates that the runs determine are marked, others that moved with them are not."""
    figures = dict(device.figures)
    for factor, names in _RATES_OF_FACTORS.items():
        for name in names:
            if name not in figures:
                continue
            value = getattr(rates, _RATE_ATTRIBUTES.get(name, name))
            own = source if factor in determined else figures[name].source
            figures[name] = replace(figures[name], value=value, source=own)
    return figures


def _list_ratios(calibration: Calibration, source: str) -> dict[str, Figure]:
    """How many times the estimate each component computes and holds in activations."""
    determined = {factor.name for factor in calibration.factors if factor.is_determined}
    figures: dict[str, Figure] = {}
    for name, value in calibration.values.items():
        for prefix, figure in ((COMPUTE_PREFIX, COMPUTE_RATIO), (ACTIVATIONS_PREFIX, ACTIVATIONS_RATIO)):
            if name.startswith(prefix):
                own = source if name in determined else _FOLLOWED
                ratio = Figure(value=math.exp(value), unit="times the estimate", source=own)
                figures[f"{figure}.{name.removeprefix(prefix)}"] = ratio
    return figures
