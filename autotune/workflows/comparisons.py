"""What the chosen plan is compared with, as it stands in the plan document."""

from __future__ import annotations

from dataclasses import replace

from autotune.evaluate import Evaluation
from autotune.workflows.planned import Planned, find_expected_peak
from autotune.workflows.target import Target
from runtime.plan import Plan
from runtime.plan_document import Comparison
from runtime.residency import Mode
from runtime.units import format_gib


def _describe_default(default: Evaluation, cap_bytes: int) -> str:
    """The server's own choice in words, and whether it would run."""
    modes: dict[str, list[str]] = {}
    for placement in default.plan.placements:
        modes.setdefault(placement.describe(), []).append(placement.component)
    text = "; ".join(f"{', '.join(names)}: {mode}" for mode, names in modes.items())
    if find_expected_peak(default) > cap_bytes:
        text += f"; out of memory, {format_gib(default.peak.charged_bytes - cap_bytes)} too much"
    elif default.peak.charged_bytes > cap_bytes:
        text += f"; may run out of memory, {format_gib(default.peak.charged_bytes - cap_bytes)} too much is charged"
    elif default.hosting.short_bytes:
        text += f"; the host lacks {format_gib(default.hosting.short_bytes)} for it"
    return f"what the server chooses by itself (performance mode auto): {text}"


def describe_streamed(plan: Plan) -> str:
    """What the streamed plan is, with the components that it keeps."""
    kept = [placement.component for placement in plan.placements if placement.mode is Mode.RESIDENT]
    text = "streamed with the server's default knobs: one layer ahead, none resident"
    return f"{text}; {', '.join(kept)} resident as by default" if kept else text


def list_comparisons(planned: Planned, target: Target) -> tuple[Comparison, ...]:
    """The chosen plan, and what it is compared with."""
    cap, chosen = target.cap.effective_bytes, planned.chosen.plan

    def compare(name: str, meaning: str, evaluation: Evaluation) -> Comparison:
        difference = planned.spreads.difference(evaluation.plan, chosen) if evaluation is not planned.chosen else None
        return Comparison(
            name=name,
            meaning=meaning,
            latency_s=evaluation.latency_s,
            charged_bytes=evaluation.peak.charged_bytes,
            fits=evaluation.fits(cap),
            placements={item.component: item.describe() for item in evaluation.plan.placements},
            difference_s=difference.difference_s if difference is not None else None,
            difference_sd_s=difference.spread.sd if difference is not None else None,
        )

    optimum = planned.solution.optimum_score
    ahead = planned.spreads.difference(planned.solution.optimum, chosen)
    default = planned.server_default
    own = () if default is None else (compare("server default", _describe_default(default, cap), default),)
    return (
        compare("plan", "the chosen plan: of the equally fast, least VRAM, then fewest changes", planned.chosen),
        Comparison(
            name="optimum",
            meaning="the fastest plan under the cap, before ties are broken",
            latency_s=optimum.latency_s,
            charged_bytes=optimum.charged_bytes,
            fits=True,
            placements={item.component: item.describe() for item in planned.solution.optimum.placements},
            difference_s=ahead.difference_s,
            difference_sd_s=ahead.spread.sd,
        ),
        *own,
        compare("streamed", describe_streamed(planned.streamed.plan), planned.streamed),
        replace(compare("everything resident", "bound: compute alone", planned.resident), placements=None),
    )
