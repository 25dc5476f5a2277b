"""Conclusions in sentences, each made from the figures of one planning run; the most important first."""

from __future__ import annotations

import math

from autotune.evaluate import Evaluator
from autotune.fidelity.causes import describe_cause
from autotune.study_records import StudyResult
from autotune.workflows.planned import Planned, find_expected_peak
from autotune.workflows.target import Target
from reports.differences import describe_difference
from runtime.engines.protocol import list_stacks
from runtime.hosting import HostTier
from runtime.plan_document import WhatIf, is_tie
from runtime.residency import Mode
from runtime.units import format_gib, format_percent, format_seconds

# Above this share of the card, the estimate's own error decides whether a plan runs.
_NEAR_FULL_RATIO = 0.95


# Less compute than this in a request is none: that of a checkpoint which matches no known model.
_LEAST_COMPUTE_S = 1e-3

# Waits below this share of a request are those of its first layers: its copies are hidden.
_HIDDEN_RATIO = 0.05

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
    findings += (_what_if(what_if, planned.spreads.uncertainty.repeat_ratio) for what_if in planned.what_ifs)
    findings += _same_output_switch(planned)
    if planned.study is not None:
        findings.append(_second_opinion(planned.study, planned.solution.optimum_score.latency_s))
    return (*findings, *target.notes)


def _what_if(what_if: WhatIf, repeat_ratio: float) -> str:
    """What a change outside the plan would save or cost, or that it could not be told from nothing.

    Where no more is known of its spread, that is what two runs may differ by.
    """
    saved_s, known_sd_s = what_if.now_s - what_if.then_s, what_if.difference_sd_s
    sd_s = repeat_ratio * math.hypot(what_if.now_s, what_if.then_s) if known_sd_s is None else known_sd_s
    change = f"{what_if.change[:1].upper()}{what_if.change[1:]}"
    if is_tie(saved_s, sd_s):
        return (
            f"{change} would change nothing that could be told from nothing: the fastest plan with it and "
            f"without are a tie, their difference is {format_seconds(abs(saved_s))} ± {format_seconds(sd_s)}"
        )
    spread = "" if known_sd_s is None else f" ± {format_seconds(known_sd_s)}"
    return (
        f"{change} would make the fastest plan {format_seconds(abs(saved_s))}{spread} a request "
        f"{'faster' if saved_s >= 0 else 'slower'} ({format_percent(abs(what_if.gain_ratio))})"
    )


def _same_output_switch(planned: Planned) -> list[str]:
    """The switch that saves most of those that leave the output as it is, if two runs could show that it saves."""
    same = [item for item in planned.advice if item.same_output and item.gain_ratio is not None]
    best = max(same, key=lambda item: item.gain_ratio or 0.0, default=None)
    least_ratio = math.sqrt(2) * planned.spreads.uncertainty.repeat_ratio
    if best is None or best.then_s is None or best.now_s is None or (best.gain_ratio or 0.0) < least_ratio:
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
    cap, charged = target.cap.effective_bytes, default.peak.charged_bytes
    if charged > cap:
        verb = "runs" if find_expected_peak(default) > cap else "may run"
        return [
            f"Left to itself the server {verb} out of memory here: its default is charged {format_gib(charged)} in "
            f"'{default.peak.phase}', {format_gib(charged - cap)} over the cap"
        ]
    if default.hosting.short_bytes:
        return [
            f"Left to itself the server runs out of host memory here: it lacks "
            f"{format_gib(default.hosting.short_bytes)} for its default"
        ]
    if default.plan.placements == planned.streamed.plan.placements:
        return []
    difference = planned.spreads.difference(planned.chosen.plan, default.plan)
    beside = describe_difference("the plan", "the server's default", difference.difference_s, difference.spread.sd)
    return [f"Left to itself the server takes {format_seconds(default.latency_s)} a request; {beside}"]


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
        saved = planned.spreads.difference(bare.plan, planned.chosen.plan)
        findings.append(
            f"Resident layers of {', '.join(names)} save reads from disk: {format_seconds(planned.chosen.latency_s)} a "
            f"request instead of {format_seconds(bare.latency_s)} without them; "
            + describe_difference("the plan without them", "the plan", saved.difference_s, saved.spread.sd)
        )
    return findings


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
    difference = planned.spreads.difference(planned.chosen.plan, planned.streamed.plan)
    beside = describe_difference("the plan", "everything streamed", difference.difference_s, difference.spread.sd)
    if not planned.gain.is_tie:
        text = (
            f"Tuning pays: {format_seconds(chosen_s)} a request instead of {format_seconds(streamed_s)} with "
            f"everything streamed ({format_percent(1 - chosen_s / streamed_s)} less)"
        )
        return f"{text}: {beside}" if fits else f"{text}, which does not even fit: {beside}"
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
    uncertainty = planned.spreads.uncertainty
    if gain <= math.sqrt(2) * uncertainty.repeat_ratio:
        waiting_s = chosen_s - planned.resident.latency_s
        lead = (
            "Copies are hidden behind compute"
            if waiting_s <= _HIDDEN_RATIO * chosen_s
            else f"No placement under this cap hides the {format_seconds(waiting_s)} that a request waits for copies"
        )
        return (
            f"{lead}: residency and prefetch buy {format_percent(max(gain, 0.0))} at most, and {beside}. Keep the "
            "server's default knobs unless you need the VRAM that this plan saves"
        )
    return (
        f"Whether tuning pays is not known: residency and prefetch are expected to buy {format_percent(gain)} at most, "
        f"and {beside}, mostly from {describe_cause(planned.gain.spread.cause, uncertainty)}. Keep the server's "
        "default knobs until that is measured (`autotune profile`) or calibrated (`autotune calibrate`)"
    )


def _where_tuning_pays(planned: Planned) -> str:
    best = max(planned.tuning_gains, key=lambda gain: gain.gain_ratio)
    gains = ", ".join(f"{gain.setting} {format_percent(gain.gain_ratio)}" for gain in planned.tuning_gains)
    pays = not is_tie(best.streamed_s - best.best_s, best.difference_sd_s or 0.0)
    verb = "pays" if pays else "would gain more, though still a tie,"
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
            f". That is more than {format_percent(_NEAR_FULL_RATIO)} of what the card gives a process: an error of the "
            f"estimate by more than the {format_gib(peak.kept_free_bytes)} kept free is an out-of-memory error; "
            "consider a lower --vram-cap or a higher --peak-quantile"
        )
    return text
