"""Conclusions in sentences, each made from the figures of one planning run; the most important first."""

from __future__ import annotations

from autotune.evaluate import Evaluator
from autotune.study_records import StudyResult
from autotune.workflows.planning import UNCERTAINTY_RATIO, NothingFits, Planned
from autotune.workflows.target import Target
from runtime.engines.protocol import list_stacks
from runtime.hosting import HostTier
from runtime.residency import Mode
from runtime.units import format_gib, format_percent, format_seconds

# Above this share of the card, the estimate's own error decides whether a plan runs.
_NEAR_FULL_RATIO = 0.95


# Less compute than this in a request is none: that of a checkpoint which matches no known model.
_LEAST_COMPUTE_S = 1e-3

# Two sums of the same seconds in another order differ by less than this.
_ROUNDING_RATIO = 1e-9


def list_findings(planned: Planned, evaluator: Evaluator, target: Target) -> tuple[str, ...]:
    """What the user should know, in the order in which it matters."""
    knows_compute = evaluator.cost_model.compute_s() > _LEAST_COMPUTE_S
    findings = [_headline(planned, target) if knows_compute else _headline_without_compute(planned)]
    if planned.tuning_gains:
        findings.append(_where_tuning_pays(planned))
    findings += _server_default(planned, target)
    if knows_compute:
        findings.append(_what_binds_time(planned, evaluator))
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
    return (*findings, *target.notes)


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
    if default.hosting.short_bytes:
        return [
            f"Left to itself the server runs out of host memory here: it lacks "
            f"{format_gib(default.hosting.short_bytes)} for its default"
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
    meanings = []
    if any(stack.mapped_bytes for part in planned.chosen.hosting.components for stack in part.stacks):
        meanings.append("mapped layers are read from the checkpoint file again")
    if any(stack.pageable_bytes for part in planned.chosen.hosting.components for stack in part.stacks):
        meanings.append("pageable ones stop compute while they are copied")
    findings = [
        f"Pinned host memory does not hold every layer: {'; '.join(unpinned)}"
        + (f" ({'; '.join(meanings)})" if meanings else "")
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
    loosen = "or loosen --fix or --base-command, if they are given"
    if not answer.short_bytes:
        return (
            f"nothing fits: the host has {format_gib(target.host_memory.available_bytes)} for weights "
            f"({target.host.origin}); of the plans within the VRAM cap, {format_gib(answer.cap_bytes)}, the one that "
            f"holds least there lacks {format_gib(answer.host_short_bytes)}",
            f"the nearest plan: {placements}",
            "raise --host-memory if the machine has more, or --vram-cap so that more weights stay on the device, "
            + loosen,
        )
    return (
        f"nothing fits: the VRAM cap is {target.cap.reason}; the plan that needs least is charged "
        f"{format_gib(peak.charged_bytes)}, {format_gib(answer.short_bytes)} more",
        f"its peak is in '{peak.phase}': weights {format_gib(peak.streamed_bytes + peak.standing_bytes)}, activations "
        f"and frames {format_gib(peak.activation_bytes)}, the rest is context, allocator and reserve",
        f"the nearest plan: {placements}",
        "raise --vram-cap or take a larger card, make the request smaller (--width, --height, --frames), lower "
        f"--reserve, {loosen}",
    )


def _second_opinion(study: StudyResult, optimum_s: float) -> str:
    tried = f"{len(study.records)} trials, {study.evaluations} plans new to the study, the exact plan among the seeds"
    if study.earlier:
        tried += f"; resumed with {len(study.earlier)} plans of earlier runs"
    best = study.best
    if best is None or best.score is None:
        return f"Optuna found no feasible plan ({tried})"
    gap = best.score.latency_s / optimum_s - 1
    if gap < -_ROUNDING_RATIO:
        # Possible only where the optimum is refined, not proven: on a host that cannot pin every layer.
        return f"Optuna found a plan that is {format_percent(-gap)} faster than the optimum, see trials.csv ({tried})"
    if gap <= _ROUNDING_RATIO:
        return f"Optuna found nothing better than the optimum ({tried})"
    return f"Optuna's best plan is {format_percent(gap)} slower than the optimum ({tried})"


def _headline_without_compute(planned: Planned) -> str:
    return (
        f"Compute and activations of this model are unknown: this plan makes its copies shortest, "
        f"{format_seconds(planned.chosen.latency_s)} a request instead of {format_seconds(planned.streamed.latency_s)} "
        "with everything streamed. Leave room for activations with --reserve or a lower --vram-cap"
    )


def _headline(planned: Planned, target: Target) -> str:
    gain = planned.gain_ratio
    chosen_s = planned.chosen.latency_s
    streamed_s = planned.streamed.latency_s
    fits = planned.streamed.fits(target.cap.effective_bytes)
    if gain >= UNCERTAINTY_RATIO:
        text = (
            f"Tuning pays: {format_seconds(chosen_s)} a request instead of {format_seconds(streamed_s)} with "
            f"everything streamed ({format_percent(1 - chosen_s / streamed_s)} less)"
        )
        return text if fits else f"{text}, which does not even fit"
    if not fits:
        lacking = planned.streamed.hosting.short_bytes
        why = (
            f"the host lacks {format_gib(lacking)}"
            if lacking
            else f"{format_gib(planned.streamed.peak.charged_bytes)} of VRAM"
        )
        return (
            f"Streaming everything with the default knobs does not fit ({why}); the plan does, at "
            f"{format_seconds(chosen_s)} a request"
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


def _what_binds_time(planned: Planned, evaluator: Evaluator) -> str:
    chosen = planned.chosen
    compute_s = evaluator.cost_model.compute_s()
    waiting_s = max(chosen.latency_s - compute_s, 0.0)
    use = max(chosen.uses, key=lambda item: item.total_s)
    share = format_percent(use.total_s / chosen.latency_s)
    slowed = "" if evaluator.cost_model.rates.interference.is_none else ", or being slowed by them"
    text = (
        f"Of a request {format_seconds(compute_s)} are compute and {format_seconds(waiting_s)} waiting for copies"
        f"{slowed}; {use.component} takes {share} of it"
    )
    if not chosen.plan.streams(use.component):
        return text
    stack, lanes = _heaviest_stack(planned, evaluator, use.component)
    binds = max(lanes, key=lambda name: lanes[name])
    spent = ", ".join(f"{_LANE_VERBS[name]} for {format_seconds(time_s)}" for name, time_s in lanes.items() if time_s)
    return f"{text}; one pass of its {stack} {spent}, so {binds} binds"


_LANE_VERBS = {
    "compute": "computes",
    "the link": "streams",
    "the disk": "reads from its file",
    "pageable memory": "copies from pageable memory",
}


def _heaviest_stack(planned: Planned, evaluator: Evaluator, component: str) -> tuple[str, dict[str, float]]:
    """The stack of ``component`` that takes most in total, and the seconds of each lane in one steady pass of it."""
    plan = planned.chosen.plan
    costs, placement = evaluator.costs_of(plan), plan.placement(component)
    model, request = evaluator.lifecycle.model, evaluator.lifecycle.request
    passes = {
        stack: group.passes
        for use in request.uses
        if use.component == component
        for group in use.groups
        for stack in group.stacks
    }
    found: list[tuple[float, str, dict[str, float]]] = []
    for ref in list_stacks(model):
        if model.components[ref.component].name != component or ref.name not in passes:
            continue
        slots = range(ref.first_slot, ref.first_slot + ref.layer_count)
        streamed = [ref.first_slot + layer for layer in placement.streamed_layers(ref.layer_count)]
        lanes = {
            "compute": sum(costs.compute_s[slot] for slot in slots),
            "the link": sum(costs.copy_s[slot] for slot in streamed),
        }
        if costs.tiers is not None:
            lanes["the disk"] = sum(costs.tiers.read_s[slot] for slot in streamed)
            lanes["pageable memory"] = sum(costs.tiers.sync_s[slot] for slot in streamed)
        found.append((passes[ref.name] * sum(lanes.values()), ref.name, lanes))
    _, name, lanes = max(found)
    return name, lanes


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
