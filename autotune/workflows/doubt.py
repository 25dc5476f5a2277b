"""What is assumed about how far predictions may be off, in words."""

from __future__ import annotations

from autotune.fidelity.peak_margin import derive_margins
from autotune.model_facts import ModelFacts
from autotune.workflows.planning import PlanningSettings, choose_uncertainty
from autotune.workflows.target import Target
from runtime.units import format_gib, format_percent


def describe_doubt(facts: ModelFacts, target: Target, settings: PlanningSettings) -> tuple[str, ...]:
    """What is kept free of device memory and for which share of the cases, and when plans count as a tie."""
    uncertainty = choose_uncertainty(facts, target)
    margins = derive_margins(facts, uncertainty, settings.peak_quantile)
    basis = "observed runs" if target.uncertainty is not None else "where its figures come from"
    return (
        "kept free in each phase: what the expected peak may be off by so that "
        f"{format_percent(settings.peak_quantile)} of the cases stay within what is charged (--peak-quantile), "
        f"{format_gib(min(margins))} to {format_gib(max(margins))} by phase, but at least "
        f"{format_gib(settings.reserve_bytes)} (--reserve)",
        f"how far a prediction may be off follows from {basis}; repeated runs of one plan differ by "
        f"{format_percent(uncertainty.repeat_ratio)} (one standard deviation)",
        "two plans are a tie where their difference is at most its standard deviation, in which errors that both share "
        f"cancel and two runs' noise counts; among plans within {format_percent(settings.tie_ratio)} of the fastest "
        "(--tie-ratio) the choice goes by VRAM, whatever the noise",
    )
