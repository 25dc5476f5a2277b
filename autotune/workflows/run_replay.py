"""The plan of a run folder, replayed with the folder's profile: timeline, passes, stalls, memory by owner. Pure.

A replay counts only if it comes to the figures of the plan document: another version of this program may replay
otherwise, and two answers in one report help nobody.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator, UseTimes
from autotune.live_owners import walk_owners
from autotune.memory_model import MemoryModel, MemorySettings
from autotune.phases import phase_names, phase_uses
from autotune.profile import Profile
from autotune.trace_timeline import Trace, trace_request
from autotune.workflows.host import view_host
from reports.run_data import LayerStall, MemoryPhase, Owner, PassWindow
from runtime.engines.registry import find_engine
from runtime.errors import InputError
from runtime.plan_document import PlanDocument
from runtime.prediction import PhasePrediction
from runtime.timeline import Repeats, Stall, Timeline

ALL_COMPONENTS = "all components"
"""Whose streamed layers are where nothing tells the components apart."""

# Sums of the same seconds in another order differ by less than this share.
_ROUNDING_RATIO = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a replay adds to a plan document; see ``RunData``."""

    timeline: Timeline
    windows: tuple[PassWindow, ...]
    stalls: tuple[LayerStall, ...]
    memory: tuple[MemoryPhase, ...]


def replay_run(document: PlanDocument, profile: Profile) -> Replay:
    """Replay the plan of ``document`` with the facts that it was made from.

    Raises:
        InputError: ``profile`` is another one, or the replay does not come to the document's figures.
        UnsupportedError: an engine that this program does not know.
    """
    if document.profile_id != profile.digest:
        raise InputError(
            f"is not the profile that plan.json was made from: its digest is {profile.digest}, the plan names "
            f"{document.profile_id}; it is another run's, or another version of this program wrote it"
        )
    evaluator = Evaluator(
        CostModel(profile.facts, profile.rates),
        # Only what is live is asked for; what is charged besides stands in the document.
        MemoryModel(profile.facts, MemorySettings(context_bytes=profile.context_bytes)),
        find_engine(document.plan.engine),
        view_host(document.host, document.tp_size),
    )
    trace = trace_request(evaluator, document.plan)
    owners = walk_owners(evaluator.lifecycle.build_program(document.plan), evaluator.cost_model.stack_costs)
    _check_agrees(document, trace, owners)
    firsts = [use.total_s for use in trace.evaluation.first_uses]
    return Replay(
        timeline=trace.timeline,
        windows=tuple(_list_windows(trace)),
        stalls=sum_stalls(trace.timeline),
        memory=describe_memory(document, owners, firsts),
    )


def describe_memory(
    document: PlanDocument, owners: tuple[Mapping[str, int], ...] = (), firsts: list[float] | None = None
) -> tuple[MemoryPhase, ...]:
    """The phases of ``document`` by owner.

    Args:
        document: says what is charged, and for what.
        owners: per phase, streamed bytes by component; without it the components are not told apart.
        firsts: how long the uses of the first request take; without it phases of that request have no length.

    Raises:
        InputError: the phases or uses of the prediction are not those of the request.
    """
    names = tuple(phase.phase for phase in document.prediction.phases)
    laters = [use.end_s - use.start_s for use in document.prediction.uses]
    if names != phase_names(document.request) or len(laters) != len(document.request.uses):
        raise InputError("has a prediction of other phases or uses than its request; make the plan again")
    lengths = {"first request": firsts or [0.0] * len(laters), "later request": laters}
    found = []
    for index, (phase, use) in enumerate(zip(document.prediction.phases, phase_uses(document.request), strict=True)):
        request = phase.phase.partition(":")[0]
        found.append(
            MemoryPhase(
                phase=phase.phase,
                seconds=lengths[request][use] if use is not None else 0.0,
                by_component=owners[index] if owners else {ALL_COMPONENTS: phase.streamed_bytes},
                parts=_part(phase),
            )
        )
    return tuple(found)


def _part(phase: PhasePrediction) -> dict[Owner, int]:
    """What is charged in ``phase``, by owner: context, workspaces and the allocator's rounding are what is left."""
    return {
        Owner.STANDING: phase.standing_bytes,
        Owner.STREAMED: phase.streamed_bytes,
        Owner.ACTIVATIONS: phase.activation_bytes,
        Owner.OVERHEAD: phase.charged_bytes - phase.live_bytes - phase.kept_free_bytes,
        Owner.RESERVE: phase.kept_free_bytes,
    }


def _check_agrees(document: PlanDocument, trace: Trace, owners: tuple[Mapping[str, int], ...]) -> None:
    prediction, found_s = document.prediction, trace.evaluation.latency_s
    streamed = [phase.streamed_bytes for phase in prediction.phases]
    same_time = math.isclose(found_s, prediction.latency_s, rel_tol=_ROUNDING_RATIO)
    if not same_time or [sum(owner.values()) for owner in owners] != streamed:
        raise InputError(
            f"does not lead to the plan's figures any more: a replay takes {found_s:.6g} s, plan.json says "
            f"{prediction.latency_s:.6g} s; {document.program} made them, so plan again with this version"
        )


def _list_windows(trace: Trace) -> Iterator[PassWindow]:
    """The first and the last replayed pass of the pass group that takes most of the longest use."""
    position, use = max(enumerate(trace.evaluation.uses), key=lambda item: item[1].total_s)
    group = _longest_group(use)
    passes = [one for one in trace.passes if (one.use, one.group) == (position, group)]
    for title, one in zip(("first pass", "steady pass"), passes[:1] + passes[1:][-1:], strict=False):
        yield PassWindow(title=title, component=use.component, start_s=one.start_s, end_s=one.end_s)


def _longest_group(use: UseTimes) -> int:
    return max(range(len(use.passes)), key=lambda group: use.passes[group].total_s, default=-1)


def sum_stalls(timeline: Timeline) -> tuple[LayerStall, ...]:
    """Waits by layer, the passes that the timeline leaves out counted."""
    total: defaultdict[tuple[str, str | None, int | None], float] = defaultdict(float)
    for stall in timeline.stalls:
        if stall.component is None:
            continue
        # What a stack's pass waits for before its first layer is noted as a wait for the stack.
        layer = 0 if stall.stack is not None and stall.layer is None else stall.layer
        times = 1 + sum(repeats.times for repeats in timeline.repeats if _is_repeated(stall, repeats))
        total[stall.component, stall.stack, layer] += times * (stall.end_s - stall.start_s)
    return tuple(
        LayerStall(component=component, stack=stack, layer=layer, stall_s=stall_s)
        for (component, stack, layer), stall_s in total.items()
    )


def _is_repeated(stall: Stall, repeats: Repeats) -> bool:
    """Whether ``stall`` lies in the stretch that ``repeats`` repeats."""
    slack_s = repeats.period_s * _ROUNDING_RATIO
    return repeats.at_s - repeats.period_s - slack_s <= stall.start_s and stall.end_s <= repeats.at_s + slack_s
