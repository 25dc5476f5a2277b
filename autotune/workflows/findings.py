"""Conclusions in sentences, each made from the figures of one planning run; the most important first."""

from __future__ import annotations

from autotune.cost_model import CostModel
from autotune.evaluate import Evaluation
from autotune.study_records import StudyResult
from autotune.workflows.planning import UNCERTAINTY_RATIO, NothingFits, Planned
from autotune.workflows.target import Target
from runtime.hosting import HostTier
from runtime.residency import Mode
from runtime.units import format_gib, format_percent, format_seconds

# Above this share of the card, the estimate's own error decides whether a plan runs.
_NEAR_FULL_RATIO = 0.95


# Two sums of the same seconds in another order differ by less than this.
_ROUNDING_RATIO = 1e-9


def list_findings(planned: Planned, costs: CostModel, target: Target) -> tuple[str, ...]:
    """What the user should know, in the order in which it matters."""
    findings = [_headline(planned, target)]
    if planned.tuning_gains:
        findings.append(_where_tuning_pays(planned))
    findings += _server_default(planned, target)
    findings.append(_what_binds_time(planned, costs))
    findings += _what_waits_where(planned)
    findings.append(_what_binds_memory(planned, target))
    for what_if in planned.what_ifs:
        saved_s = what_if.now_s - what_if.then_s
        findings.append(
            f"{what_if.change} would make the fastest plan {format_seconds(max(saved_s, 0.0))} a request faster "
            f"({format_percent(max(what_if.gain_ratio, 0.0))})"
        )
    findings += _same_output_switch(planned)
    if planned.study is not None:
        findings.append(_second_opinion(planned.study, planned.solution.optimum_score.latency_s))
    return tuple(findings)


def _same_output_switch(planned: Planned) -> list[str]:
    """The switch that saves most of those that leave the output as it is, if that is more than nothing."""
    same = [item for item in planned.advice if item.same_output and item.gain_ratio is not None]
    best = max(same, key=lambda item: item.gain_ratio or 0.0, default=None)
    if best is None or best.then_s is None or best.now_s is None or (best.gain_ratio or 0.0) < UNCERTAINTY_RATIO:
        return []
    return [
        f"{best.switch} would give the same output in {format_seconds(best.then_s)} a request instead of "
        f"{format_seconds(best.now_s)} ({format_percent(best.gain_ratio or 0.0)} less)"
    ]


def _server_default(planned: Planned, target: Target) -> list[str]:
    """What the server would do by itself, when that is another outcome than everything streamed."""
    default = planned.server_default
    if default is None:
        return []
    excess = default.peak.charged_bytes - target.cap.effective_bytes
    if excess > 0:
        return [
            f"Left to itself the server runs out of memory here: its default is charged "
            f"{format_gib(default.peak.charged_bytes)} in '{default.peak.phase}', {format_gib(excess)} over the cap"
        ]
    if default.plan.placements == planned.streamed.plan.placements:
        return []
    saved = 1 - planned.chosen.latency_s / default.latency_s
    return [
        f"Left to itself the server takes {format_seconds(default.latency_s)} a request; the plan "
        + (f"saves {format_percent(saved)} of it" if saved > 0 else "is not faster, but needs less device memory")
    ]


def _what_waits_where(planned: Planned) -> list[str]:
    """Layers that are not pinned, and what residents save in reads from disk."""
    unpinned = []
    for placement, hosting in zip(planned.chosen.plan.placements, planned.chosen.hosting.components, strict=True):
        pageable, mapped = hosting.count(HostTier.PAGEABLE), hosting.count(HostTier.MAPPED)
        if pageable or mapped:
            parts = [f"{mapped} mapped"] * bool(mapped) + [f"{pageable} pageable"] * bool(pageable)
            unpinned.append(f"{placement.component} {' and '.join(parts)}")
    if not unpinned:
        return []
    findings = [
        "Pinned host memory does not hold every streamed layer: "
        + "; ".join(unpinned)
        + ". Mapped layers are read from the checkpoint file again, pageable ones stop compute while they are copied"
    ]
    bare = planned.unresident
    if bare is not None:
        names = [
            placement.component
            for placement, without in zip(planned.chosen.plan.placements, bare.plan.placements, strict=True)
            if placement != without
        ]
        findings.append(
            f"Resident layers of {', '.join(names)} save reads from disk: {format_seconds(planned.chosen.latency_s)} a "
            f"request instead of {format_seconds(bare.latency_s)} without them"
        )
    return findings


def describe_nothing_fits(answer: NothingFits, target: Target) -> tuple[str, ...]:
    """Which limit, what is needed, what is available, and the plan that comes nearest."""
    peak = answer.nearest.peak
    placements = "; ".join(f"{item.component}: {item.describe()}" for item in answer.nearest.plan.placements)
    if not answer.short_bytes:
        return (
            f"nothing fits: the host has {format_gib(target.host.available_bytes)} for weights "
            f"({target.host.origin}); the plan that needs least VRAM lacks {format_gib(answer.host_short_bytes)}",
            f"the nearest plan: {placements}",
            "raise --host-memory if the machine has more, or --vram-cap, so that more weights stay on the device",
        )
    return (
        f"nothing fits: the VRAM cap is {target.cap.reason}; the plan that needs least is charged "
        f"{format_gib(peak.charged_bytes)}, {format_gib(answer.short_bytes)} more",
        f"its peak is in '{peak.phase}': weights {format_gib(peak.streamed_bytes + peak.standing_bytes)}, activations "
        f"and frames {format_gib(peak.activation_bytes)}, the rest is context, allocator and reserve",
        f"the nearest plan: {placements}",
        "raise --vram-cap, or make the request smaller (--width, --height, --frames), or lower --reserve",
    )


def _second_opinion(study: StudyResult, optimum_s: float) -> str:
    tried = f"{len(study.records)} trials, {study.evaluations} plans new to the study, the exact plan among the seeds"
    if study.earlier:
        tried += f"; resumed with {len(study.earlier)} plans of earlier runs"
    best = study.best
    if best is None or best.score is None:
        return f"Optuna found no feasible plan ({tried})"
    gap = best.score.latency_s / optimum_s - 1
    if gap <= _ROUNDING_RATIO:
        return f"Optuna found nothing better than the exact optimum ({tried})"
    return f"Optuna's best plan is {format_percent(gap)} slower than the exact optimum ({tried})"


def _headline(planned: Planned, target: Target) -> str:
    gain = planned.gain_ratio
    chosen_s = planned.chosen.latency_s
    streamed_s = planned.streamed.latency_s
    fits = planned.streamed.peak.charged_bytes <= target.cap.effective_bytes
    if gain >= UNCERTAINTY_RATIO:
        text = (
            f"Tuning pays: {format_seconds(chosen_s)} a request instead of {format_seconds(streamed_s)} with "
            f"everything streamed ({format_percent(1 - chosen_s / streamed_s)} less)"
        )
        return text if fits else f"{text}, which does not even fit"
    if not fits:
        return (
            f"Streaming everything with the default knobs does not fit "
            f"({format_gib(planned.streamed.peak.charged_bytes)}); the plan does, at {format_seconds(chosen_s)} a "
            "request"
        )
    return (
        f"Copies are hidden behind compute: residency and prefetch buy {format_percent(max(gain, 0.0))} at most, less "
        f"than the {format_percent(UNCERTAINTY_RATIO)} by which repeated runs differ. Keep the server's default "
        "knobs unless you need the VRAM that this plan saves"
    )


def _where_tuning_pays(planned: Planned) -> str:
    best = max(planned.tuning_gains, key=lambda gain: gain.gain_ratio)
    gains = ", ".join(f"{gain.setting} {format_percent(gain.gain_ratio)}" for gain in planned.tuning_gains)
    verb = "pays" if best.gain_ratio >= UNCERTAINTY_RATIO else "would gain more, though still little,"
    return f"Tuning {verb} where copies weigh more against compute: {gains} on this card and cap"


def _what_binds_time(planned: Planned, costs: CostModel) -> str:
    chosen = planned.chosen
    compute_s = costs.compute_s()
    waiting_s = max(chosen.latency_s - compute_s, 0.0)
    use = max(chosen.uses, key=lambda item: item.total_s)
    share = format_percent(use.total_s / chosen.latency_s)
    text = (
        f"Of a request {format_seconds(compute_s)} are compute and {format_seconds(waiting_s)} waiting for copies; "
        f"{use.component} takes {share} of it"
    )
    if not chosen.plan.streams(use.component):
        return text
    copy_s, layer_s, stack = _heaviest_stack(costs, chosen, use.component)
    per_pass = (
        f"one pass of its {stack} streams for {format_seconds(copy_s)} and computes for {format_seconds(layer_s)}, so "
        f"{'compute' if layer_s >= copy_s else 'the link'} binds"
    )
    return f"{text}; {per_pass}"


def _heaviest_stack(costs: CostModel, chosen: Evaluation, component: str) -> tuple[float, float, str]:
    """Seconds of copies and of compute in one pass of the stack that streams most in total, and its name."""
    placement = chosen.plan.placement(component)
    best = (-1.0, 0.0, 0.0, "")
    for use in costs.facts.request.uses:
        if use.component != component:
            continue
        for group in use.groups:
            for stack in group.stacks:
                copies, computes = costs.layer_costs(component, stack)
                streamed = placement.streamed_layers(len(copies))
                copy_s = sum(copies[layer] for layer in streamed)
                best = max(best, (group.passes * (copy_s + sum(computes)), copy_s, sum(computes), stack))
    return best[1], best[2], best[3]


def _what_binds_memory(planned: Planned, target: Target) -> str:
    peak = planned.chosen.peak
    free = target.cap.effective_bytes - peak.charged_bytes
    whole = [item.component for item in planned.chosen.plan.placements if item.mode is Mode.RESIDENT]
    text = (
        f"The peak is charged {format_gib(peak.charged_bytes)} of {format_gib(target.cap.effective_bytes)}, in "
        f"'{peak.phase}'; {format_gib(free)} stay free"
    )
    if whole:
        text += f" with {', '.join(whole)} resident"
    text += f". Loading is charged {format_gib(planned.chosen.phases[0].charged_bytes)}"
    if peak.charged_bytes > _NEAR_FULL_RATIO * target.device.usable_vram_bytes:
        text += (
            f". That is more than {format_percent(_NEAR_FULL_RATIO)} of what the card gives a process: a small error "
            "of the estimate is an out-of-memory error; consider a lower --vram-cap"
        )
    return text
