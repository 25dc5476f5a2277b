"""Makes the profile that plans are made from out of a calibration, and names the source of every figure. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.fidelity.calibration import Calibration
from autotune.fidelity.factors import apply_to_facts, apply_to_rates, change_context, settle_work
from autotune.model_facts import ModelFacts
from autotune.profile import Profile
from autotune.rates import Rates
from autotune.uncertainty import COMPUTE_PREFIX
from runtime.plan_document import DeviceSummary, Figure

CALIBRATED = "calibrated"
"""What the source of a figure begins with that was fitted to observed runs, and ``ModelFacts.source`` of such facts."""

_RATES_OF_FACTORS = {
    "copy": ("pinned_bytes_per_s", "d2h_pinned_bytes_per_s"),
    "pageable": ("pageable_bytes_per_s",),
    "disk": ("disk_bytes_per_s",),
}
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
    facts = _calibrate_facts(base.facts, rates, calibration, source)
    context_bytes = change_context(base.context_bytes, values)
    return replace(
        base,
        facts=facts,
        rates=rates,
        context_bytes=context_bytes,
        device=_calibrate_device(base.device, rates, context_bytes, determined, source),
        uncertainty=calibration.uncertainty,
    )


def describe_runs(runs: Sequence[str]) -> str:
    """The runs in words: all names of a few, the number of many."""
    if len(runs) > 4:
        return f"{len(runs)} observed runs"
    return f"the observed run{'s' if len(runs) > 1 else ''} {', '.join(runs)}"


def _calibrate_facts(facts: ModelFacts, rates: Rates, calibration: Calibration, source: str) -> ModelFacts:
    fitted = {factor.name for factor in calibration.factors if factor.is_determined}
    compute = [name.removeprefix(COMPUTE_PREFIX) for name in calibration.values if name.startswith(COMPUTE_PREFIX)]
    known = [name for name in compute if COMPUTE_PREFIX + name in fitted]
    followed = [name for name in compute if COMPUTE_PREFIX + name not in fitted]
    note = f"compute of {', '.join(known) or 'no component'} is {source}"
    if followed:
        note += f"; that of {', '.join(followed)} is estimated, and follows what it shares with fitted figures"
    settled = settle_work(apply_to_facts(facts, calibration.values), rates)
    return replace(settled, source=CALIBRATED, notes=(*facts.notes, note))


def _calibrate_device(
    device: DeviceSummary, rates: Rates, context_bytes: int, determined: set[str], source: str
) -> DeviceSummary:
    figures = dict(device.figures)
    for factor, names in _RATES_OF_FACTORS.items():
        for name in names:
            if name not in figures:
                continue
            value = getattr(rates, _RATE_ATTRIBUTES.get(name, name))
            if factor in determined:
                figures[name] = Figure(value=value, unit=figures[name].unit, source=source)
            else:
                figures[name] = replace(figures[name], value=value)
    if "base_bytes" in determined:
        source = f"{source}, with all that the server keeps beside"
        figures["context_bytes"] = Figure(value=context_bytes, unit="bytes", source=source)
    measured = tuple(name for name in device.measured if not figures[name].source.startswith(CALIBRATED))
    return replace(device, figures=figures, measured=measured)
