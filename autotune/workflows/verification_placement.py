"""Checks of what a server was told and set up: model, version, placements, pins. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autotune.catalog.registry import find_model
from autotune.observed.server_log import ServerLog, StackPins
from autotune.observed.verdict import Aspect, Check, Outcome
from runtime.errors import InputError
from runtime.model_spec import ComponentSpec
from runtime.plan import Placement
from runtime.plan_document import PlanDocument
from runtime.prediction import HostPrediction
from runtime.residency import Lifetime, Mode
from runtime.units import GIB, format_gib

PIN_TOLERANCE_LAYERS = 1
"""What is free on a host differs a little from start to start."""

_NO_LOG = "no log was given"
_RESTART = "Start the server with the plan's own command (serve.sh, or `autotune export plan.json`)"


def check_model(document: PlanDocument, named: str) -> Check:
    """Whether what the server served is the plan's model; ``named`` is its path, empty where nothing says it."""
    remedy = "The log or dump is of another run: give those of the run with this plan"
    expected, observed = document.model.name, named or "not said"
    planned, served = _catalog_name(expected), _catalog_name(named)
    if not named or planned is None or served is None:
        outcome = Outcome.CONFIRMED if named == expected else Outcome.NOT_OBSERVABLE
        if named and outcome is Outcome.NOT_OBSERVABLE:
            observed = f"{named}, which is no name of the catalog"
    else:
        outcome = Outcome.CONFIRMED if planned == served else Outcome.MISMATCH
    return Check(
        aspect=Aspect.MODEL, subject="the server", expected=expected, observed=observed, outcome=outcome, remedy=remedy
    )


def _catalog_name(name: str) -> str | None:
    try:
        return find_model(name).name
    except InputError:
        return None


def check_version(document: PlanDocument, log: ServerLog | None) -> Check:
    """Whether the server is of the release that the plan is for, by its name or by the wording of its lines."""
    expected = document.plan.engine.partition("@")[2]
    planned = _parse_release(expected)
    outcome, observed = Outcome.NOT_OBSERVABLE, "the log names no release"
    if log is None:
        observed = _NO_LOG
    elif log.version:
        outcome = Outcome.CONFIRMED if log.version == expected else Outcome.MISMATCH
        observed = log.version
    elif log.oldest is not None or log.newest is not None:
        observed = f"{_describe_range(log)} by its wording"
        too_old = log.newest is not None and planned > log.newest
        too_new = log.oldest is not None and planned < log.oldest
        outcome = Outcome.MISMATCH if too_old or too_new else Outcome.NOT_OBSERVABLE
    return Check(
        aspect=Aspect.VERSION,
        subject="the server",
        expected=expected,
        observed=observed,
        outcome=outcome,
        remedy=f"Releases schedule and host layers differently: install sglang=={expected}, or take the predictions "
        "for what they are, of another release",
    )


def _parse_release(text: str) -> tuple[int, int, int]:
    numbers = [int(number) for number in re.findall(r"\d+", text)[:3]]
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch


def _describe_range(log: ServerLog) -> str:
    oldest, newest = (
        None if release is None else ".".join(str(part) for part in release) for release in (log.oldest, log.newest)
    )
    if oldest is None or newest is None:
        return f"{newest} or older" if oldest is None else f"{oldest} or newer"
    return oldest if oldest == newest else f"{oldest} to {newest}"


def check_placements(document: PlanDocument, log: ServerLog | None) -> Iterator[Check]:
    """One check per component, and one of the ranks of tensor parallelism where the plan or the server has several."""
    ranks = None if log is None else log.arguments.get("tp_size")
    if document.tp_size > 1 or (isinstance(ranks, int) and ranks > 1):
        known = isinstance(ranks, int)
        agrees = Outcome.CONFIRMED if ranks == document.tp_size else Outcome.MISMATCH
        yield Check(
            aspect=Aspect.PLACEMENT,
            subject="tensor parallel ranks",
            expected=str(document.tp_size),
            observed=str(ranks) if known else (_NO_LOG if log is None else "the log does not say"),
            outcome=agrees if known else Outcome.NOT_OBSERVABLE,
            remedy=f"Each rank holds and computes another share than was planned. {_RESTART}",
        )
    for component in document.model.components:
        placement = document.plan.placement(component.name)
        expected = describe_expected(placement, component)
        observed = None if log is None else describe_observed(log, component.name)
        if observed is None:
            outcome = Outcome.NOT_OBSERVABLE
        else:
            outcome = Outcome.CONFIRMED if _agrees(expected, observed) else Outcome.MISMATCH
        yield Check(
            aspect=Aspect.PLACEMENT,
            subject=component.name,
            expected=expected,
            observed=observed or (_NO_LOG if log is None else "the log does not say"),
            outcome=outcome,
            remedy=_explain_placement(log, component.name),
        )


def describe_expected(placement: Placement, component: ComponentSpec) -> str:
    """A placement in the words of ``describe_observed``."""
    lengths = [len(stack.layers) for stack in component.stacks if stack.layers]
    if placement.mode is not Mode.LAYERWISE_OFFLOAD:
        return str(placement.mode)
    ahead = sorted({min(placement.prefetch, length) for length in lengths})
    resident = sum(min(placement.resident, length) for length in lengths)
    text = f"{placement.mode}, resident {resident}/{sum(lengths)}, prefetch {', '.join(str(size) for size in ahead)}"
    # Without residents neither policy nor lifetime changes anything.
    return f"{text}, {placement.policy}, {placement.lifetime}" if resident else text


def describe_observed(log: ServerLog, component: str) -> str | None:
    """What the log says of ``component``, in as many words as the release has for it; None where it says nothing."""
    streamed = log.find_streamed(component)
    if streamed is not None:
        parts: list[str] = [str(Mode.LAYERWISE_OFFLOAD)]
        if streamed.layers is not None:
            parts += [
                f"resident {streamed.resident}/{streamed.layers}",
                f"prefetch {', '.join(str(size) for size in streamed.prefetch)}",
            ]
            parts += [*streamed.policies, *streamed.lifetimes] if streamed.resident else []
        return ", ".join(parts)
    whole = log.find_whole_mode(component)
    if whole is not None:
        return str(whole)
    told = log.arguments.get("component_residency")
    mode = told.get(component) if isinstance(told, dict) else None
    return mode if isinstance(mode, str) and mode != str(Mode.LAYERWISE_OFFLOAD) else None


def _agrees(expected: str, observed: str) -> bool:
    """Whether every word that was observed is expected, at the same place."""
    found = observed.split(", ")
    return expected.split(", ")[: len(found)] == found


def _explain_placement(log: ServerLog | None, component: str) -> str:
    told = None if log is None else log.arguments.get("component_residency")
    if isinstance(told, dict) and component not in told:
        return f"The server was not told where {component} goes: its arguments do not name it. {_RESTART}"
    return f"The option did not reach the server, or it was overruled by another one. {_RESTART}"


def check_pins(document: PlanDocument, log: ServerLog | None) -> Iterator[Check]:
    """One check per stack that the plan streams."""
    for predicted in document.prediction.hosting:
        if document.plan.placement(predicted.component).mode is not Mode.LAYERWISE_OFFLOAD or not predicted.hosted:
            continue
        found = None if log is None else find_pins(log, predicted, document.plan.placement(predicted.component))
        if found is None:
            outcome = Outcome.NOT_OBSERVABLE
        else:
            close = abs(found.pinned - predicted.pinned) <= PIN_TOLERANCE_LAYERS and found.layers == predicted.hosted
            outcome = Outcome.CONFIRMED if close else Outcome.MISMATCH
        yield Check(
            aspect=Aspect.PINS,
            subject=f"{predicted.component}.{predicted.stack}",
            expected=f"{predicted.pinned} of {predicted.hosted} pinned",
            observed=_describe_pins(found) if found else (_NO_LOG if log is None else "the log does not say"),
            outcome=outcome,
            tolerance=f"{PIN_TOLERANCE_LAYERS} layer",
            remedy=_explain_pins(document, predicted, found),
        )


def find_pins(log: ServerLog, predicted: HostPrediction, placement: Placement) -> StackPins | None:
    """Where the layers of a stack wait by the log; None where it does not say."""
    own = [item for item in log.pins if item.component == predicted.component]
    for item in own:
        if item.stack == predicted.stack:
            return item
    streamed = log.find_streamed(predicted.component)
    if streamed is None or not log.logs_pins or (streamed.stacks and predicted.stack not in streamed.stacks):
        return None
    # Stacks of which every layer is pinned have no line.
    layers = streamed.stacks.get(predicted.stack, predicted.layers)
    kept = min(placement.resident, layers) if placement.lifetime is Lifetime.PERMANENT else 0
    return StackPins(
        component=predicted.component,
        stack=predicted.stack,
        layers=layers - kept,
        pinned=layers - kept,
        pageable=0,
        mapped=0,
    )


def _describe_pins(found: StackPins) -> str:
    text = f"{found.pinned} of {found.layers} pinned"
    rest = [f"{count} {word}" for count, word in ((found.pageable, "pageable"), (found.mapped, "mapped")) if count]
    return ", ".join([text, *rest])


def _explain_pins(document: PlanDocument, predicted: HostPrediction, found: StackPins | None) -> str:
    planned = f"The plan expected {format_gib(predicted.spendable_bytes)} to be spendable on pins for this stack"
    if found is None or found.spendable_gib is None:
        had = ""
    else:
        had = f", the server had {format_gib(found.spendable_gib * GIB)}"
    return (
        f"{planned}{had}: the host had more or less memory free than the {format_gib(document.host.memory_bytes)} that "
        "were planned with. Free it, or plan with what there is (--host-memory)"
    )
