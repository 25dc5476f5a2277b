"""Did a plan take effect? Its expectations beside what a server logged and dumped. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.fidelity.prior import REPEAT_RATIO
from autotune.observed.perf_dump import PerfDump
from autotune.observed.run_observation import FIRST_REQUEST, GENERATED, compute_step_s
from autotune.observed.server_log import ServerLog
from autotune.observed.verdict import Check, NotRead, Outcome, Verification
from autotune.workflows.verification_figures import check_passes, check_peaks, check_times, derive_expected
from autotune.workflows.verification_placement import (
    check_model,
    check_pins,
    check_placements,
    check_version,
    describe_expected,
    describe_observed,
)
from runtime.errors import InputError, UnsupportedError
from runtime.plan_document import PlanDocument

SAME_PEAK_RATIO = 0.01
"""Peaks of torch's counters repeat to the byte where placements are equal; this leaves room for another prompt."""
LEAST_DIFFERENCE_RATIO = 0.05
"""By how much two plans must be predicted to differ for equal observations to mean anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPlan:
    """A plan and what a server wrote while it was meant to follow it; ``name`` is what messages call it."""

    name: str
    document: PlanDocument
    log: ServerLog | None = None
    dump: PerfDump | None = None

    def __post_init__(self) -> None:
        if self.log is None and self.dump is None:
            raise InputError(f"nothing was observed of {self.name}: give the server's log, its perf dump, or both")
        if self.document.plan.engine.partition("@")[0] != "sglang":
            raise UnsupportedError(
                f"{self.name} is for the engine {self.document.plan.engine}: logs and dumps are of SGLang-diffusion"
            )


def verify_plan(observed: ObservedPlan) -> Verification:
    """Every expectation of the plan beside what was observed, causes before effects."""
    document, log, dump = observed.document, observed.log, observed.dump
    named = (log.model if log is not None else "") or (dump.model if dump is not None else "")
    checks: tuple[Check, ...] = (
        check_model(document, named),
        check_version(document, log),
        *check_placements(document, log),
        *check_pins(document, log),
        *check_passes(document, log, dump),
        *check_times(document, log, dump),
        *check_peaks(document, log, dump),
    )
    return Verification(plan=observed.name, checks=checks, notes=tuple(_list_notes(observed)))


def _list_notes(observed: ObservedPlan) -> Iterator[str]:
    log, dump = observed.log, observed.dump
    if log is not None:
        yield from log.notes
        yield from (f"{log.where}: {fault}" for fault in log.faults)
        if not log.is_ready:
            yield f"{log.where}: the server never got as far as taking requests, or the log ends before that"
    if dump is not None:
        yield from (f"{dump.where}: {fault}" for fault in dump.faults)
        yield from compute_step_s(dump)[1]
        if dump.tag == GENERATED:
            yield FIRST_REQUEST
    if log is not None and dump is not None and log.model and dump.model and log.model != dump.model:
        yield f"{log.where} is of {log.model}, {dump.where} of {dump.model}: they are of two runs"


def find_unread(runs: Sequence[ObservedPlan]) -> tuple[NotRead, ...]:
    """Pairs of different plans that were observed alike although they should not have been."""
    found = (_compare_pair(first, second) for first, second in itertools.combinations(runs, 2))
    return tuple(item for item in found if item is not None)


def _compare_pair(first: ObservedPlan, second: ObservedPlan) -> NotRead | None:
    differing = _list_differing(first.document, second.document)
    if not differing:
        return None
    text = _compare_logs(first, second, differing) or _compare_figures(first, second)
    if text is None:
        return None
    return NotRead(plans=(first.name, second.name), text=f"not read: {first.name} and {second.name} {text}")


def _list_differing(first: PlanDocument, second: PlanDocument) -> tuple[str, ...]:
    """Components that the two plans place differently, so that a log shows it; all where the models differ."""
    placed = [
        {part.name: describe_expected(document.plan.placement(part.name), part) for part in document.model.components}
        for document in (first, second)
    ]
    return tuple(name for name in placed[0] | placed[1] if placed[0].get(name) != placed[1].get(name))


def _compare_logs(first: ObservedPlan, second: ObservedPlan, differing: tuple[str, ...]) -> str | None:
    if first.log is None or second.log is None:
        return None
    seen = [(name, describe_observed(first.log, name), describe_observed(second.log, name)) for name in differing]
    alike = [f"{name} ({one})" for name, one, other in seen if one is not None and one == other]
    if not alike:
        return None
    return (
        f"differ in {', '.join(differing)}, and the server set up the same: {', '.join(alike)}. It did not read the "
        "options of one of them: start it with each plan's own command, and give each start's own log"
    )


def _compare_figures(first: ObservedPlan, second: ObservedPlan) -> str | None:
    pairs = [_observe_figures(run) for run in (first, second)]
    plans = [derive_expected(run.document) for run in (first, second)]
    predicted = [(plan.step_s, float(plan.allocated_bytes)) for plan in plans]
    alike, differs = [], False
    for index, (what, noise_ratio) in enumerate((("step time", REPEAT_RATIO), ("peak", SAME_PEAK_RATIO))):
        one, other = pairs[0][index], pairs[1][index]
        if not one or not other:
            continue
        if abs(one / other - 1) > noise_ratio:
            return None
        alike.append(what)
        wanted, unwanted = predicted[0][index], predicted[1][index]
        differs |= bool(wanted and unwanted and abs(wanted / unwanted - 1) > LEAST_DIFFERENCE_RATIO)
    if not differs:
        return None
    return (
        f"should differ by more than {LEAST_DIFFERENCE_RATIO:.0%}, and have the same {' and '.join(alike)}: the server "
        "did not read the options of one of them, or both observations are of one run"
    )


def _observe_figures(run: ObservedPlan) -> tuple[float | None, float | None]:
    """Seconds of a step and the peak, as far as both kinds of source have them."""
    request = None if run.log is None else run.log.last_request
    step_s = compute_step_s(run.dump)[0] if run.dump is not None else None
    peak = run.dump.request_peak if run.dump is not None else None
    peak_bytes = peak.peak_allocated_bytes if peak is not None else None
    if run.dump is None and request is not None:
        return request.mean_step_s, float(request.peak_reserved_bytes or 0) or None
    return step_s, None if peak_bytes is None else float(peak_bytes)


def took_effect(verifications: Sequence[Verification], unread: Sequence[NotRead]) -> bool:
    """Whether nothing that was observed speaks against any of the plans."""
    return not unread and all(not item.count(Outcome.MISMATCH) for item in verifications)
