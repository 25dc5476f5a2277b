"""What two fresh profiles mean, in sentences: the most important first. Pure, from the profiles alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.measurements.links import Curve, interpolate_s
from autotune.measurements.model_profile import ModelProfile, RunOptions
from autotune.measurements.node_profile import NodeProfile
from autotune.model_facts import ModelFacts
from autotune.work import GroupWork
from autotune.workload import Workload, list_options
from reports.profile_pieces import describe_unmeasured, take_pieces
from reports.profile_troubles import Taken, describe_spreads, merge_disturbances, take_interference, take_links
from reports.profile_values import round_percent
from runtime.model_spec import PassGroup
from runtime.units import format_seconds, format_size

_MOST_COMPONENTS = 3
_LEAST_COPIED_RATIO = 0.01
"""Components whose passes are judged, and the share of what a request copies that they have at least: the planner
weighs all of them, people read of the large ones."""

_ALIKE_RATIO = 0.1
"""Copies and compute of a pass that differ by less than this last about as long: their spreads are of that size."""

_LEAST_SLOWDOWN_RATIO = 0.02
"""Less is what public repeats of one configuration differ by (PM045)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTimes:
    """One pass of a component with all its layers streamed.

    Attributes:
        component: its name.
        layers: how many are copied.
        copied_bytes: their bytes.
        passes: how many of them a request makes.
        compute_s: measured compute of the pass.
        copy_s: copies of the layers one after the other, at the rates that were measured for their sizes.
    """

    component: str
    layers: int
    copied_bytes: int
    passes: int
    compute_s: float
    copy_s: float


def list_findings(model: ModelProfile, node: NodeProfile, default: Workload | None) -> tuple[str, ...]:
    """What a user should know of both profiles, and the command that plans with them.

    Args:
        model, node: the profiles, of one device.
        default: the request of the model that a command means where nothing is typed; None to spell out all of it.
    """
    return (
        *_where_time_goes(model),
        *_whether_copies_hide(model, node),
        *_what_interferes(node),
        *_what_is_missing(model),
        *_how_reliable(model, node),
        _what_next(model, node, default),
    )


def _where_time_goes(model: ModelProfile) -> Iterator[str]:
    times = {name: time_s for name, time_s in _sum_request(model.facts).items() if time_s > 0}
    if not times:
        return
    total_s = sum(times.values())
    ordered = sorted(times, key=lambda name: -times[name])
    parts = [f"{name} {format_seconds(times[name])} ({round_percent(times[name] / total_s)})" for name in ordered]
    if len(parts) == 1:
        yield f"A request computes {format_seconds(total_s)} in {ordered[0]}, the only component that was measured"
    else:
        yield f"A request computes {format_seconds(total_s)}, as far as it was measured: {', '.join(parts)}"


def _sum_request(facts: ModelFacts) -> Mapping[str, float]:
    """Measured seconds of a request by component."""
    times: dict[str, float] = {}
    for use, work in zip(facts.request.uses, facts.work, strict=True):
        spent_s = work.outside.measured_s + sum(
            group.passes * _measured_pass_s(group_work)
            for group, group_work in zip(use.groups, work.groups, strict=True)
        )
        times[use.component] = times.get(use.component, 0.0) + spent_s
    return times


def _measured_pass_s(work: GroupWork) -> float:
    return work.outside.measured_s + sum(layer.measured_s for layers in work.layers.values() for layer in layers)


def _whether_copies_hide(model: ModelProfile, node: NodeProfile) -> Iterator[str]:
    kind = next(
        (kind for kind in ("pinned_h2d", "pageable_h2d") if any(link.kind == kind for link in node.links)), None
    )
    curve = sorted((link.size_bytes, link.timing.median_s) for link in node.links if link.kind == kind)
    if not curve:
        return
    where = "" if node.node.kind.backend == "cpu" else " from pinned memory"
    if kind == "pageable_h2d":
        where = " from pageable memory, for which compute waits"
    passes = list_pass_times(model, curve)
    least = _LEAST_COPIED_RATIO * sum(map(_weigh, passes))
    for times in [times for times in passes if _weigh(times) >= least][:_MOST_COMPONENTS]:
        pass_name = f"One of {times.passes} passes" if times.passes > 1 else "The pass"
        yield (
            f"{pass_name} of {times.component} computes {format_seconds(times.compute_s)} and copies {times.layers} "
            f"layers ({format_size(times.copied_bytes)}) in {format_seconds(times.copy_s)}{where}: "
            f"{_judge(times, waits=kind == 'pageable_h2d')}"
        )


def list_pass_times(model: ModelProfile, curve: Curve) -> list[PassTimes]:
    """The pass of every measured component that copies most in a request; most bytes in all first.

    Args:
        model: the profile.
        curve: seconds of a copy by its size.
    """
    found: dict[str, PassTimes] = {}
    for use, work in zip(model.facts.request.uses, model.facts.work, strict=True):
        for group, group_work in zip(use.groups, work.groups, strict=True):
            times = _time_pass(model.facts, use.component, group, group_work, curve)
            known = found.get(use.component)
            if times is not None and (known is None or _weigh(times) > _weigh(known)):
                found[use.component] = times
    return sorted(found.values(), key=_weigh, reverse=True)


def _time_pass(facts: ModelFacts, component: str, group: PassGroup, work: GroupWork, curve: Curve) -> PassTimes | None:
    """None where the layers were not measured, or there are none."""
    sizes = [layer.run_bytes for name in group.stacks for layer in facts.model.component(component).stack(name).layers]
    layers = [layer for stack in work.layers.values() for layer in stack]
    if not sizes or not all(layer.measured_s > 0 for layer in layers):
        return None
    return PassTimes(
        component=component,
        layers=len(sizes),
        copied_bytes=sum(sizes),
        passes=group.passes,
        compute_s=_measured_pass_s(work),
        copy_s=sum(interpolate_s(curve, size) for size in sizes),
    )


def _weigh(times: PassTimes) -> int:
    return times.passes * times.copied_bytes


def _judge(times: PassTimes, *, waits: bool) -> str:
    ratio = times.copy_s / times.compute_s
    if waits:
        return f"a streamed pass takes {round_percent(ratio)} longer"
    if ratio > 1 + _ALIKE_RATIO:
        return f"copies last {ratio:.2g} times as long as compute and cannot all hide behind it"
    if ratio > 1 - _ALIKE_RATIO:
        return "about as long as each other, so that copies hide only if nothing slows them"
    return "copies can hide behind compute"


def _what_interferes(node: NodeProfile) -> Iterator[str]:
    for record in node.interference:
        compute, copies = record.compute_slowdown_ratio, record.copy_slowdown_ratio
        if max(compute, copies) >= _LEAST_SLOWDOWN_RATIO:
            yield (
                f"While both go on, compute takes {round_percent(compute)} longer and copies {round_percent(copies)} "
                f"longer ({record.load})"
            )


def _what_is_missing(model: ModelProfile) -> Iterator[str]:
    """Pieces and components without measured times."""
    parts = [*describe_unmeasured(model)]
    used = dict.fromkeys(use.component for use in model.facts.request.uses)
    left_out = [name for name in used if name not in model.components]
    if left_out:
        parts.append(f"{', '.join(left_out)} (not profiled: compute is estimated)")
    if parts:
        yield f"Not measured: {'; '.join(parts)}"


def _how_reliable(model: ModelProfile, node: NodeProfile) -> Iterator[str]:
    taken = [*take_pieces(model), *take_links(node.links), *take_interference(node.interference)]
    disturbed = [item for item in taken if item.disturbances]
    loose = [item for item in taken if not item.timing.is_settled]
    parts = []
    if disturbed:
        parts.append(f"{_count(disturbed, taken)} were disturbed ({'; '.join(merge_disturbances(taken))})")
    if loose:
        parts.append(f"{_count(loose, taken)} did not settle (spread {describe_spreads(loose)})")
    if not parts:
        return
    remedy = "measure again with --anew when nothing else runs" if disturbed else "--thorough takes more samples"
    yield f"{' and '.join(parts)}: {remedy}"


def _count(some: Sequence[Taken], all_of_them: Sequence[Taken]) -> str:
    return f"{len(some)} of {len(all_of_them)} timings"


def _what_next(model: ModelProfile, node: NodeProfile, default: Workload | None) -> str:
    facts = model.facts
    words = ["autotune", "search", "--model", facts.model.name, "--device", node.node.device]
    if model.options != RunOptions():
        return (
            f"Plan with these figures: give the model profile's file as `autotune search --profile FILE`; by itself "
            f"`{shlex.join(words[:4])}` takes only profiles made with default options"
        )
    words += list_options(facts.workload, default)
    return f"Plan with these figures: `{shlex.join(words)}`"
