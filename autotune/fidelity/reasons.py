"""Why a prediction may miss what was observed: rules about servers, figures and placements, not single runs. Pure.

What an observation's own caveats say comes first; that the server was another release comes last, because it explains
everything and nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.fidelity.case import Case
from autotune.fidelity.comparison import ComparedFigure, Kind
from autotune.fidelity.passes import find_denoisers
from autotune.fidelity.unstated_request import is_request_assumed
from autotune.observed.observation import ObservedPeak, PeakKind
from autotune.work import UseWork
from runtime.hosting import HostTier
from runtime.plan import Placement
from runtime.residency import Mode, Policy

TOLERATED_PEAK_RATIO = 0.05
"""Errors of peaks below this need no reason."""

TOLERATED_LATENCY_RATIO = 0.1
"""The same of latencies."""

SHORT_S = 0.1
"""Times below this hold as much work of the host, which launches kernels one by one, as of the card."""

_NOT_SHOWN = "the source does not show the request: its size and steps are the model's default ones"
_DECODER_WORDS = ("the decoder's", "before the decoder's")
_LATENCY_WORDS = ("stage clocks", "copied synchronously", "pins by layer", "pinned whole")
_GENERIC_WORDS = ("an older server than", "the row says")


def list_reasons(case: Case, figure: ComparedFigure) -> tuple[str, ...]:
    """Why ``figure`` of ``case`` may be off, one sentence each; none where it is not off by more than is tolerated."""
    tolerated = TOLERATED_PEAK_RATIO if figure.kind is Kind.PEAK else TOLERATED_LATENCY_RATIO
    errors = [figure.error_ratio, *([] if figure.calibrated_error_ratio is None else [figure.calibrated_error_ratio])]
    if max(map(abs, errors)) <= tolerated:
        return ()
    own = _list_caveats(case, figure.kind, figure.components)
    rules = _explain_peak(case, figure) if figure.kind is Kind.PEAK else _explain_latency(case, figure)
    generic = tuple(text for text in own if text.startswith(_GENERIC_WORDS))
    return (*(text for text in own if text not in generic), *rules, *generic)


def list_exhaustion_reasons(case: Case) -> tuple[str, ...]:
    """Why a run may have run out of memory where the prediction does not."""
    return _list_caveats(case, Kind.PEAK)


def list_difference_reasons(case: Case, other: Case, figure: ComparedFigure) -> tuple[str, ...]:
    """Why the difference between two runs of one set-up may be off: what is true of one of them alone, first."""
    own, its = (dict.fromkeys(_explain_latency(item, figure)) for item in (case, other))
    apart = [text for text in (*own, *its) if (text in own) is not (text in its)]
    both = [text for text in own if text in its]
    return (*apart, *both, *_list_caveats(case, Kind.LATENCY, figure.components))


def _list_caveats(case: Case, kind: Kind, components: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The caveats of a run that are about figures of ``kind``, and of ``components`` where these are not all."""
    denoises = components and set(components) <= set(find_denoisers(case.ground.facts))
    texts = [
        text for text in dict.fromkeys(case.observation.caveats) if not (denoises and text.startswith(_DECODER_WORDS))
    ]
    if kind is Kind.LATENCY:
        return tuple(text for text in texts if not text.startswith("the peak "))
    return tuple(text for text in texts if not any(word in text for word in _LATENCY_WORDS))


def _explain_latency(case: Case, figure: ComparedFigure) -> Iterator[str]:
    components = figure.components or tuple(component.name for component in case.ground.facts.model.components)
    if figure.observed < SHORT_S or figure.predicted < SHORT_S:
        yield "it is short: the host's work of launching kernels is not modelled"
    if figure.components and any(_convolves(work) for work in _works(case, components)):
        yield "convolutions are estimated at the efficiency of matrix products, which they do not reach"
    if figure.components and any(case.plan.placement(name).mode is Mode.COMPONENT_OFFLOAD for name in components):
        yield (
            "a component that is moved whole is copied tensor by tensor, which takes longer than the layers of the "
            "same bytes; small components most"
        )
    for name in find_denoisers(case.ground.facts):
        stacks = case.ground.facts.model.component(name).stacks
        again = sum(count_copied_again(case.plan.placement(name), len(stack.layers)) for stack in stacks)
        if name in components and again:
            yield (
                f"with this prefetch size releases from 0.5.19 on give {again} layer(s) back that were copied past the "
                "head, before every pass, and copy them again; earlier ones kept them (layerwise_offload.py: "
                "prepare_for_next_req)"
            )
    if is_request_assumed(case.observation):
        yield _NOT_SHOWN
    if any("forward" in text and "a step instead of" in text for text in case.observation.assumed):
        yield "how many forwards a step makes is not stated, and was taken from what the link can carry"
    yield from _explain_host(case, components)
    if case.observation.setup.tp_size > 1:
        yield "how fast ranks exchange results is derived from one profile of two cards"


def _explain_host(case: Case, components: tuple[str, ...]) -> Iterator[str]:
    hosting = case.ground.build_evaluator({}).hosting_of(case.plan)
    names = [component.name for component in case.ground.facts.model.components]
    own = [item for name, item in zip(names, hosting.components, strict=True) if name in components]
    if any(item.count(HostTier.MAPPED) for item in own):
        yield "weights are read from a drive: its rate, and what the page cache kept, are assumed"
    if any(item.count(HostTier.PAGEABLE) for item in own):
        yield "copies from pageable memory: one public host gave 2.6 to 6 GB/s"


def _explain_peak(case: Case, figure: ComparedFigure) -> Iterator[str]:
    peak, setup = case.observation.peak, case.observation.setup
    assert peak is not None  # the figure is of it
    if peak.kind is PeakKind.DRIVER and setup.tp_size > 1:
        yield "the driver also counts what the ranks' communication library holds on each card, which is not modelled"
    if is_request_assumed(case.observation):
        yield _NOT_SHOWN
    if peak.kind is PeakKind.UNSTATED:
        yield "who counted the peak is not stated; it is compared as what torch reserves"
    if _decode_is_highest(case, peak):
        yield (
            "the decode is charged as the library's own decoder needs it (reserved over live memory: PM304, PM306); "
            "the server's is another: from 0.5.21 on it pads and lays out its convolutions in one pass"
        )


def _works(case: Case, components: tuple[str, ...]) -> list[UseWork]:
    return [work for work in case.ground.facts.work if work.component in components]


def _convolves(work: UseWork) -> bool:
    """Whether the use is a convolutional decoder's: facts give these an allocator ratio of their own."""
    return work.reserved_ratio is not None


def _decode_is_highest(case: Case, peak: ObservedPeak) -> bool:
    phases = case.ground.build_evaluator({}).evaluate(case.plan).phases
    highest = max(phases[1:], key=lambda phase: phase.charged_bytes)
    names = [work.component for work in case.ground.facts.work if _convolves(work)]
    return peak.kind is not PeakKind.ALLOCATED and any(highest.phase.endswith(f": {name}") for name in names)


def count_copied_again(placement: Placement, layers: int) -> int:
    """Layers of a stack of ``layers`` that a pass copies past the head of the next one.

    Under the leading policy alone, which asks for whole batches and wraps around; the next pass gives them back.
    """
    if placement.mode is not Mode.LAYERWISE_OFFLOAD or placement.policy is not Policy.LEADING:
        return 0
    ahead = min(placement.prefetch, layers)
    streamed = placement.streamed_layers(layers)
    asked = {
        (layer + step) % layers
        for layer in range(0, layers, ahead)
        for step in range(ahead, 2 * ahead)
        if layer + step >= layers
    }
    return len(asked & set(streamed[ahead:]))
