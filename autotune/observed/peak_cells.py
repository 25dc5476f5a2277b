"""The peak of a row, from the cells ``peak_vram`` and ``peak_unit``: bytes, who counted them, or a mere cap. Pure.

**GB of the server is GiB.** SGLang-diffusion prints ``GB`` and ``MB`` but divides by 2^30 and 2^20: in
``runtime/managers/gpu_worker.py`` of every release from 0.5.14 to 0.5.23 ``peak_memory_mb`` is ``peak_reserved_bytes
/ (1024**2)``, and GB, where they are printed, are ``/ (1024**3)``. The public rows agree: for Qwen-Image on an RTX
5090 thirty more resident layers of 648.2 MiB add 19.04 "GB", and they are 18.99 GiB but 20.39 GB. So GB and MB of
rows of that server are binary, unless the driver counted them; elsewhere they are decimal, as written.

**Its peak is what torch reserved.** ``Peak GPU memory`` in its log and ``peak_memory_mb`` in its answers are
``max_memory_reserved`` in the same file. A peak that was *sampled* was polled from outside, so the driver counted it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.observed.observation import ObservedPeak, PeakKind, Reason
from autotune.observed.quantities import MOST_TEXT, NUMBER, Figure, parse_figure, shorten, to_bytes
from autotune.observed.refusal import RowRefusedError

_DRIVER = re.compile(
    r"nvidia-smi|\bsmi\b|\bnvml\b|\bmonitor\b|\bexternal\b|\bdriver\b|whole-gpu|\bsampl(?:ed|ing)\b|device memory",
    re.IGNORECASE,
)
_SAMPLED = re.compile(r"nvidia-smi|\bsmi\b|\bsampl(?:ed|ing)\b|\bmonitor\b", re.IGNORECASE)
_RESERVED = re.compile(r"reserved", re.IGNORECASE)
_ALLOCATED = re.compile(r"allocat(?:ed|ion)", re.IGNORECASE)
_SERVER_REPORT = re.compile(r"\breported\b|\(server\)|peak gpu memory|peak_memory_mb|server log", re.IGNORECASE)
_CAP = re.compile(r"\b(?:cap|limit)\b", re.IGNORECASE)
_NO_PEAK = re.compile(
    r"\bdelta\b|\bafter load\b|\bduring load\b|\bat load\b|\bneeded\b|\bfree\b|\bbudget\b|\btotal\b|\brequested\b",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\s*([KMGT]i?B|[KMGT]|bytes|B)(?![\w/])", re.IGNORECASE)
_PART = re.compile(rf"(?P<number>{NUMBER})\s*(?P<unit>[KMGT]i?B\b)?\s*(?P<label>[A-Za-z][A-Za-z -]*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedPeak:
    """What a row says of device memory.

    Attributes:
        peak: the most; None where the cells hold none.
        dropped: why the cells hold none that can be compared; empty where they are empty or hold one.
        assumed: how they were read, one sentence each.
        caveats: why it may be too low, one sentence each.
    """

    peak: ObservedPeak | None = None
    dropped: str = ""
    assumed: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()


def read_peak(value: str, unit_text: str, *, is_sglang: bool, activations_of: str = "") -> StatedPeak:
    """The peak that the two cells hold.

    Args:
        value: the cell ``peak_vram``.
        unit_text: the cell ``peak_unit``: a unit, then who counted, in words.
        is_sglang: whether the simulated server was measured.
        activations_of: the component whose working memory it is; empty where it is a whole process's.

    Raises:
        RowRefusedError: a figure that is damaged, without a unit, or with two that differ.
    """
    if not value:
        return StatedPeak()
    if _CAP.search(value) and not re.search(r"[0-9]", value):
        return StatedPeak()
    chosen = _choose_part(value, unit_text, prefers_allocated=bool(activations_of))
    if chosen is None:
        return StatedPeak(dropped=f"peak_vram is {shorten(value)!r} ({shorten(unit_text)}), no peak of a run")
    text, label = chosen
    figure = parse_figure(text, "peak_vram")
    if figure.is_bound or (_CAP.search(unit_text) and not _ALLOCATED.search(unit_text)):
        return StatedPeak()
    words = f"{label} {unit_text}"
    if _NO_PEAK.search(label or unit_text):
        return StatedPeak(dropped=f"peak_vram is {shorten(value)!r} ({shorten(unit_text)}), no peak of a run")
    unit = _read_unit(figure, unit_text)
    kind = PeakKind.ACTIVATIONS if activations_of else _read_kind(label, unit_text, is_sglang=is_sglang)
    is_decimal = bool(re.fullmatch(r"[MG]B|[mg]b", unit))
    is_binary = is_decimal and is_sglang and kind is not PeakKind.DRIVER
    size_bytes = to_bytes(figure.value, f"{unit[0]}iB" if is_binary else unit, "peak_vram")
    assumed = [figure.note] if figure.note else []
    if is_binary:
        assumed.append(f"{unit} of the peak is read as {unit[0].upper()}iB: the server divides by powers of 1024")
    elif is_decimal:
        assumed.append(f"{unit} of the peak is read as a power of 1000, as written")
    if kind is PeakKind.UNSTATED:
        assumed.append("who counted the peak is not stated")
    caveats = ("the peak was sampled: a short one may be missed",) if _SAMPLED.search(words) else ()
    peak = ObservedPeak(size_bytes=size_bytes, kind=kind, component=activations_of)
    return StatedPeak(peak=peak, assumed=tuple(assumed), caveats=caveats)


def _choose_part(value: str, unit_text: str, *, prefers_allocated: bool) -> tuple[str, str] | None:
    """The figure to take and its label; None where several stand there and none is a peak of the whole."""
    if len(value) > MOST_TEXT:
        return value, ""
    parts = [part.strip() for part in re.split(r"\s*/\s*|;\s*|\s\+\s", value) if part.strip()]
    labels = [label.strip() for label in re.split(r"\s*/\s*", _strip_unit(unit_text))]
    read = [_PART.fullmatch(part) for part in parts]
    if len(parts) == 1:
        single = read[0]
        if single and single["label"] and single["unit"] is None and _UNIT.match(single["label"]):
            return value, ""
        return (
            (f"{single['number']}{single['unit'] or ''}", single["label"])
            if single and single["label"]
            else (value, "")
        )
    figures = [
        (f"{part['number']}{part['unit'] or ''}", part["label"] or (labels[index] if len(labels) == len(parts) else ""))
        for index, part in enumerate(read)
        if part
    ]
    first, second = (_ALLOCATED, _RESERVED) if prefers_allocated else (_RESERVED, _ALLOCATED)
    for wanted in (first, second, re.compile(r"steady|peak|inference", re.IGNORECASE)):
        for text, label in figures:
            if wanted.search(label):
                return text, label
    return None


def _strip_unit(unit_text: str) -> str:
    match = _UNIT.match(unit_text)
    return unit_text[match.end() :] if match else unit_text


def _read_unit(figure: Figure, unit_text: str) -> str:
    match = _UNIT.match(unit_text)
    column = match[1] if match else ""
    if figure.unit and column and figure.unit.casefold() != column.casefold():
        raise RowRefusedError(
            Reason.UNREADABLE, f"the peak has two units, {figure.unit} and {column}: give one figure with one unit"
        )
    if not figure.unit and not column:
        raise RowRefusedError(
            Reason.UNREADABLE, f"peak_unit is {shorten(unit_text)!r}: begin it with the unit, GiB or MiB"
        )
    return figure.unit or column


def _read_kind(label: str, unit_text: str, *, is_sglang: bool) -> PeakKind:
    for text in (label, unit_text):
        if _DRIVER.search(text):
            return PeakKind.DRIVER
        reserved, allocated = _RESERVED.search(text), _ALLOCATED.search(text)
        if bool(reserved) != bool(allocated):
            return PeakKind.RESERVED if reserved else PeakKind.ALLOCATED
    return PeakKind.RESERVED if is_sglang and _SERVER_REPORT.search(unit_text) else PeakKind.UNSTATED
