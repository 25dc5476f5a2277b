"""The latencies of a row, from the cells ``latency_s``, ``latency_scope`` and ``notes``. Pure.

Notes are read in three patterns only: ``decode 9.4 s``, ``denoise 141.2 s`` and ``request ~235 s`` (also
``end-to-end``, ``E2E``, ``inference total``, ``server inference``); a figure followed by ``INVALID`` is not used.
Text-encode times in notes are not read: the server's stage clocks do not wait for the device (``perf_logger.py``:
unless ``SGLANG_DIFFUSION_SYNC_STAGE_PROFILING=1``), so that a stage which hands tensors on is timed short and the next
one that waits is timed long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.catalog.entry import CatalogEntry
from autotune.observed.component_words import find_picture_vae, list_denoisers, list_text_encoders
from autotune.observed.observation import ObservedLatency, Scope
from autotune.observed.quantities import NUMBER, parse_duration, read_number, shorten

UNSYNCED_STAGE = (
    "the server's stage clocks do not wait for the device: work still queued when denoising ends is timed in the decode"
)

_REFUSED_SCOPES = (
    (re.compile(r"\bdelta\b|\bdifference\b|[+-][0-9.]+ ?%", re.IGNORECASE), "a difference, not a time"),
    (re.compile(r"\bit/s\b|\bfps\b|frames ?/ ?s|\bbandwidth\b|[kmg]i?b/s", re.IGNORECASE), "a rate, not a time"),
    (re.compile(r"\bload(?:ing)?\b|\bstart-?up\b", re.IGNORECASE), "the time of loading, which is not modelled"),
    (re.compile(r"\bh2d\b|\bmemcpy\b", re.IGNORECASE), "the time of copies alone, which no stage shows"),
    (
        re.compile(r"\bwave\b|\bjob\b|\bforwards total\b|\bs/sample\b|\boutputs\b|-layer pipeline", re.IGNORECASE),
        "the time of something other than one request",
    ),
)
_NOT_NAMED = "of one component, which the row does not name"
_UNKNOWN_PART = "no part of a request that is known: write whole request, denoise, decode, per step or component stage"
_STEP = re.compile(r"per step|s/step|s/it\b|step time|step median|per iteration", re.IGNORECASE)
_DOWN = re.compile(r"\bd2h\b|swap-?out|move[ -]down", re.IGNORECASE)
_ONE_COMPONENT = re.compile(r"component (?:stage|pass|use)", re.IGNORECASE)
_DENOISE = re.compile(r"\bdenois(?:e|ing)\b|\bsampler\b", re.IGNORECASE)
_DECODE = re.compile(r"\b(?:vae )?decod(?:e|ing)\b", re.IGNORECASE)
_ENCODE = re.compile(r"text[ -]encod(?:e|ing|er)", re.IGNORECASE)
_REQUEST = re.compile(
    r"\brequest\b|\be2e\b|end[- ]to[- ]end|\btotal\b|\bpipeline\b|\binference\b|\bwhole\b|\belapsed\b|\bgeneration\b",
    re.IGNORECASE,
)
_STEP_IN_SCOPE = re.compile(rf"({NUMBER})\s?s/step")
_DECODE_NOTE = re.compile(rf"\bdecode ~?({NUMBER}) s\b(?! INVALID)")
_DENOISE_NOTE = re.compile(rf"\bdenoise ~?({NUMBER}) s\b(?! INVALID)")
_REQUEST_NOTE = re.compile(
    rf"\b(?:request|end-to-end|E2E|inference total|server inference) ~?({NUMBER}) s\b(?! INVALID)"
)
_FIRST_REQUEST = re.compile(r"\bwarm-?up\b|\bfirst request\b|\bcold\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedLatencies:
    """What a row says of time.

    Attributes:
        latencies: what can be compared.
        dropped: why a figure that stands there cannot be, one sentence each.
        assumed: how the cells were read, one sentence each.
        caveats: why a figure may differ, one sentence each.
    """

    latencies: tuple[ObservedLatency, ...] = ()
    dropped: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a request that a text names."""

    scope: Scope
    component: str = ""


def read_latencies(
    entry: CatalogEntry, named: tuple[str, ...], *, latency: str, scope: str, notes: str
) -> StatedLatencies:
    """The latencies that the three cells hold.

    Args:
        entry: the model.
        named: components that the row is about.
        latency: the cell ``latency_s``.
        scope: the cell ``latency_scope``; a whole request is meant where it is empty.
        notes: the cell of that name.

    Raises:
        RowRefusedError: a figure that is damaged.
    """
    found: dict[_Part, float] = {}
    dropped, assumed, caveats = [], [], []
    if latency:
        part = _read_scope(entry, named, scope)
        if isinstance(part, str):
            dropped.append(f"latency_s is {shorten(latency)!r} ({shorten(scope)}), {part}")
        else:
            figure = parse_duration(latency, "latency_s")
            found[part] = figure.value
            assumed += [figure.note] if figure.note else []
            assumed += [] if scope else ["latency_scope is empty: a whole later request is meant"]
    in_scope = _STEP_IN_SCOPE.search(scope)
    if in_scope:
        found.setdefault(_Part(Scope.STEP, list_denoisers(entry)[0]), read_number(in_scope[1]))
    for part, seconds in _read_notes(entry, notes):
        found.setdefault(part, seconds)
    if _FIRST_REQUEST.search(notes) and any(part.scope is Scope.REQUEST for part in found):
        found = {part: seconds for part, seconds in found.items() if part.scope is not Scope.REQUEST}
        dropped.append("the time of the whole request is that of the first one after load")
    if any(part.scope is Scope.USE and part.component == find_picture_vae(entry) for part in found) and len(found) > 1:
        caveats.append(UNSYNCED_STAGE)
    latencies = tuple(
        ObservedLatency(seconds=seconds, scope=part.scope, component=part.component)
        for part, seconds in found.items()
        if seconds > 0
    )
    return StatedLatencies(latencies=latencies, dropped=tuple(dropped), assumed=tuple(assumed), caveats=tuple(caveats))


def _read_scope(entry: CatalogEntry, named: tuple[str, ...], scope: str) -> _Part | str:
    """The part that ``scope`` names, or why its time cannot be compared."""
    words = re.sub(r"\([^)]*\)", " ", scope)
    denoisers = list_denoisers(entry)
    parts = (
        *_REFUSED_SCOPES,
        (_STEP, _Part(Scope.STEP, denoisers[0])),
        (_DOWN, _Part(Scope.MOVE_DOWN, named[0]) if len(named) == 1 else _NOT_NAMED),
        (_ONE_COMPONENT, _Part(Scope.USE, "+".join(named)) if named else _NOT_NAMED),
        (_DENOISE, _Part(Scope.USE, "+".join(denoisers))),
        (_DECODE, _Part(Scope.USE, find_picture_vae(entry))),
        (_ENCODE, _Part(Scope.USE, "+".join(list_text_encoders(entry)))),
        (_REQUEST, _Part(Scope.REQUEST)),
    )
    if not words.strip():
        return _Part(Scope.REQUEST)
    return next((part for pattern, part in parts if pattern.search(words)), _UNKNOWN_PART)


def _read_notes(entry: CatalogEntry, notes: str) -> list[tuple[_Part, float]]:
    patterns = (
        (_DECODE_NOTE, _Part(Scope.USE, find_picture_vae(entry))),
        (_DENOISE_NOTE, _Part(Scope.USE, "+".join(list_denoisers(entry)))),
        (_REQUEST_NOTE, _Part(Scope.REQUEST)),
    )
    matches = ((pattern.search(notes), part) for pattern, part in patterns)
    return [(part, read_number(match[1])) for match, part in matches if match]


def invalidate(latencies: StatedLatencies, why: str) -> StatedLatencies:
    """The same without any latency; ``why`` takes their place."""
    return StatedLatencies(dropped=(*latencies.dropped, why)) if latencies.latencies else latencies
