"""Sentences about how far predictions may be off, and which of two plans is faster. Pure."""

from __future__ import annotations

from runtime.plan_document import is_tie
from runtime.prediction import Prediction
from runtime.units import format_gib, format_percent, format_seconds


def describe_difference(name: str, other: str, difference_s: float, sd_s: float) -> str:
    """Which of two plans is faster, or that nobody can say; ``name`` takes ``difference_s`` longer than ``other``."""
    amount = f"{format_seconds(abs(difference_s))} ± {format_seconds(sd_s)}"
    if is_tie(difference_s, sd_s):
        return f"{name} and {other} are a tie: their difference is {amount}"
    faster, slower = (other, name) if difference_s > 0 else (name, other)
    return f"{faster} is faster than {slower} by {amount}"


def difference_cell(difference_s: float | None, sd_s: float | None) -> str:
    """The same as the cell of a table, of a plan beside another; nothing where it is not known."""
    if difference_s is None or sd_s is None:
        return ""
    if is_tie(difference_s, sd_s):
        return f"a tie, ± {format_seconds(sd_s)}"
    word = "slower" if difference_s > 0 else "faster"
    return f"{format_seconds(abs(difference_s))} ± {format_seconds(sd_s)} {word}"


def describe_latency(prediction: Prediction) -> str:
    """A later request's seconds, with what they may be off by where that is known."""
    text = format_seconds(prediction.latency_s)
    if prediction.latency_sd_s is None:
        return text
    return f"{text} ± {format_seconds(prediction.latency_sd_s)}"


def describe_spread(prediction: Prediction) -> str:
    """What "±" means, and where most of it comes from, in one sentence; nothing where it is not known."""
    if prediction.latency_sd_s is None or prediction.latency_low_s is None or prediction.latency_high_s is None:
        return ""
    return (
        "± is one standard deviation here and below; that of the latency is mostly from "
        f"{prediction.latency_cause}, and nine cases in ten lie between {format_seconds(prediction.latency_low_s)} and "
        f"{format_seconds(prediction.latency_high_s)}."
    )


def describe_peak(prediction: Prediction) -> str:
    """What of the charged peak is expected, and what is kept free, as an addition to its figure."""
    peak = prediction.peak
    if not peak.kept_free_bytes:
        return ""
    spread = "" if prediction.peak_sd_bytes is None else f" ± {format_gib(prediction.peak_sd_bytes)}"
    text = f"{format_gib(peak.expected_bytes)}{spread} expected, {format_gib(peak.kept_free_bytes)} kept free"
    if prediction.peak_quantile is not None:
        text += f" so that {format_percent(prediction.peak_quantile)} of the cases stay within"
    return f" ({text})"
