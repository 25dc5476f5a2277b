"""What the trade-off curve says, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.run_data import CurvePoint
from runtime.plan_document import Comparison
from runtime.units import format_gib, format_percent, format_seconds

# Where streaming costs less of a request than this, its copies are hidden behind compute: public repeats of one
# configuration differ by as much (269.5 and 273.8 s, PM045 in tests/data/public_measurements.csv).
_HIDDEN_RATIO = 0.02
# More digits of so small a gain than this would suggest that it could be found again.
_NO_GAIN_RATIO = 0.001


def describe_tradeoff(curve: Sequence[CurvePoint], compared: Mapping[str, Comparison]) -> str:
    """The finding: are copies hidden, and if not, how much of what they cost the plan saves.

    ``compared`` holds the plan document's comparisons by name; without them, the curve's two ends are told.
    """
    plan, streamed, resident = (compared.get(name) for name in ("plan", "streamed", "everything resident"))
    if plan is None or streamed is None or resident is None:
        return _describe_ends(curve)
    cost_s = streamed.latency_s - resident.latency_s
    best_s = min(plan.latency_s, compared["optimum"].latency_s if "optimum" in compared else plan.latency_s)
    if cost_s <= _HIDDEN_RATIO * resident.latency_s:
        return f"Copies are hidden: residency buys {_describe_gain(1 - best_s / streamed.latency_s)}"
    saved = (streamed.latency_s - plan.latency_s) / cost_s
    where = f"the plan in {format_gib(plan.charged_bytes)}"
    cost = f"Streaming costs {format_seconds(cost_s)} a request"
    if not streamed.fits:
        cost += " and does not fit"
    if saved >= 0.01:
        return f"{cost}; {where} saves {format_percent(min(saved, 1.0))} of that"
    if saved > -0.01:
        return f"{cost}; {where} saves none of that"
    return f"{cost}; {where} takes {format_seconds(plan.latency_s - streamed.latency_s)} more"


def _describe_gain(ratio: float) -> str:
    if ratio <= 0:
        return "nothing"
    return format_percent(ratio) if ratio >= _NO_GAIN_RATIO else f"less than {format_percent(_NO_GAIN_RATIO)}"


def _describe_ends(curve: Sequence[CurvePoint]) -> str:
    first, last = curve[0], curve[-1]
    if len(curve) == 1:
        return f"One plan: {format_seconds(first.latency_s)} a request in {format_gib(first.charged_bytes)}"
    return (
        f"From {format_gib(first.charged_bytes)} to {format_gib(last.charged_bytes)} a request falls from "
        f"{format_seconds(first.latency_s)} to {format_seconds(last.latency_s)}"
    )
