"""What ``--perf-dump-path`` of SGLang-diffusion wrote about one request.

Settled in ``runtime/utils/perf_logger.py`` and ``runtime/managers/gpu_worker.py`` of 0.5.21 to 0.5.23. Older releases
are taken to write the same keys; ``load_peak``, ``runtime_peak`` and ``warmup_peak`` may be missing:

- ``total_duration_ms`` is the forward of one request on the worker, without saving its output. Warm-up requests are
  never written; every other one with this path is, the last replaces those before.
- ``steps`` are the stages. Beginning and ending the use of a component belongs to its stage: a component that is moved
  whole goes up inside it, and its return to the host is at least begun there.
- ``denoise_steps_ms`` are the denoising steps in order.
- Nobody waits for the device at the ends of stages and steps unless ``SGLANG_DIFFUSION_SYNC_STAGE_PROFILING=1`` is set:
  what a stage has queued may end in the time of a later one.
- ``memory_checkpoints`` are in MiB, whatever ``_mb`` says. Peaks of ``after_forward`` are of this request, on the rank
  that returns the output; ``runtime_peak`` is the most of all requests and ranks so far, ``load_peak`` of loading.
  Only ``peak_reserved_mb`` of ``warmup_peak`` is of the warm-up. Zeros stand for what was not measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.observed.cut_json import mend_cut_json
from runtime.errors import InputError
from runtime.files import as_text, read_file
from runtime.units import MAX_BYTES, MIB

AFTER_FORWARD = "after_forward"
_KEYS = ("total_duration_ms", "steps", "denoise_steps_ms", "memory_checkpoints")
_REMEDY = "give the JSON file that the server wrote to --perf-dump-path"
_LONGEST_MS = 1e10
_MOST_FAULTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """Seconds of one stage of the server's pipeline, by the stage's name."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCheckpoint:
    """Peaks of torch's allocator at one point of a request; None for what was not measured."""

    name: str
    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfDump:
    """One request as the server dumped it.

    Attributes:
        where: the file.
        total_s: the request's forward; None where the dump lacks it.
        stages: in their order.
        steps_s: denoising steps in their order, readable ones alone.
        checkpoints: device memory.
        model: what the server was started with; empty where it is not said.
        tag: ``server_perf_dump`` or ``cli_generate``.
        created: when it was written, as written.
        faults: what could not be read, one sentence each; the rest is here.
    """

    where: str
    total_s: float | None
    stages: tuple[StageTime, ...]
    steps_s: tuple[float, ...]
    checkpoints: tuple[MemoryCheckpoint, ...]
    model: str = ""
    tag: str = ""
    created: str = ""
    faults: tuple[str, ...] = ()

    @property
    def request_peak(self) -> MemoryCheckpoint | None:
        """Peaks of this request; None where they were not measured."""
        return next((point for point in self.checkpoints if point.name == AFTER_FORWARD), None)


def load_perf_dump(path: str | Path) -> PerfDump:
    """Read the dump at ``path``.

    Raises:
        InputError: it cannot be read, or holds nothing that a dump holds.
    """
    try:
        content = read_file(path)
    except OSError as error:
        raise InputError(f"cannot read the perf dump {as_text(path)}: {error.strerror or error}") from error
    return parse_perf_dump(content, as_text(path))


def parse_perf_dump(content: bytes, where: str) -> PerfDump:
    """The dump in ``content``; what is wrong in it becomes ``faults``, and the rest is kept.

    Raises:
        InputError: it holds nothing that a dump holds.
    """
    faults: list[str] = []
    fields = _parse_object(content, where, faults)
    if not any(key in fields for key in _KEYS):
        raise InputError(f"{where} is no perf dump, which has one of {', '.join(_KEYS)}: {_REMEDY}")
    faults += [f"{key} is missing" for key in _KEYS if key not in fields]
    total_s = _read_s(fields["total_duration_ms"], "total_duration_ms", faults) if _KEYS[0] in fields else None
    stages = tuple(
        StageTime(name=name, seconds=seconds)
        for name, seconds in _read_times(fields.get("steps", []), "steps", "name", faults)
        if isinstance(name, str)
    )
    steps = [
        (index, seconds)
        for index, seconds in _read_times(fields.get("denoise_steps_ms", []), "denoise_steps_ms", "step", faults)
        if isinstance(index, int)
    ]
    checkpoints = tuple(_read_checkpoints(fields.get("memory_checkpoints", {}), faults))
    if total_s is None and not stages and not steps and not checkpoints:
        raise InputError(f"nothing in {where} can be used: {'; '.join(faults[:5])}. Run the request again")
    meta = fields.get("meta")
    return PerfDump(
        where=where,
        total_s=total_s,
        stages=stages,
        steps_s=tuple(seconds for _, seconds in sorted(steps)),
        checkpoints=checkpoints,
        model=_text(meta.get("model")) if isinstance(meta, dict) else "",
        tag=_text(fields.get("tag")),
        created=_text(fields.get("timestamp")),
        faults=_shorten(faults),
    )


def _parse_object(content: bytes, where: str, faults: list[str]) -> dict[str, Any]:
    if not content.strip():
        raise InputError(f"{where} is empty: {_REMEDY}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is no text at byte {error.start}: {_REMEDY}") from None
    value = _decode(text)
    if value is None and (mended := mend_cut_json(text)) is not None:
        value = _decode(mended)
        faults.append(f"the file is cut off after {len(text):,} characters: what is complete before that is used")
    if not isinstance(value, dict):
        found = "not JSON" if value is None else f"{_kind(value)} in JSON, not an object"
        raise InputError(f"{where} is {found}: {_REMEDY}")
    return value


def _decode(text: str) -> object:
    # NaN and Infinity are let through, because the server's own writer lets them through; each is a fault of its field.
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_times(value: object, key: str, label: str, faults: list[str]) -> Iterator[tuple[object, float]]:
    """Label and seconds of every readable entry of a list of durations."""
    kind = str if label == "name" else int
    if not isinstance(value, list):
        faults.append(f"{key} is {_kind(value)}, not a list")
        return
    for index, entry in enumerate(value):
        where = f"{key}[{index}]"
        if not isinstance(entry, dict) or type(entry.get(label)) is not kind or "duration_ms" not in entry:
            faults.append(f"{where} is no entry with {label} and duration_ms")
        elif (seconds := _read_s(entry["duration_ms"], f"{where}.duration_ms", faults)) is not None:
            yield entry[label], seconds


def _read_s(value: object, where: str, faults: list[str]) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        faults.append(f"{where} is {_kind(value)}, not a number of milliseconds")
    elif not 0 < value <= _LONGEST_MS:
        faults.append(f"{where} is {str(value)[:30]} ms: a duration is positive and at most {_LONGEST_MS:g} ms")
    else:
        return value / 1000
    return None


def _read_checkpoints(value: object, faults: list[str]) -> Iterator[MemoryCheckpoint]:
    if not isinstance(value, dict):
        faults.append(f"memory_checkpoints is {_kind(value)}, not an object")
        return
    for name, fields in value.items():
        if not isinstance(fields, dict):
            faults.append(f"memory_checkpoints.{str(name)[:60]} is {_kind(fields)}, not an object")
            continue
        peaks = [
            _read_bytes(fields.get(f"peak_{kind}_mb"), f"memory_checkpoints.{name}.peak_{kind}_mb", faults)
            for kind in ("allocated", "reserved")
        ]
        if any(peak is not None for peak in peaks):
            yield MemoryCheckpoint(name=name, peak_allocated_bytes=peaks[0], peak_reserved_bytes=peaks[1])


def _read_bytes(value: object, where: str, faults: list[str]) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        faults.append(f"{where} is {_kind(value)}, not a number of MiB")
    elif not 0 <= value * MIB <= MAX_BYTES:
        faults.append(f"{where} is {str(value)[:30]} MiB: a size is finite and not negative")
    else:
        return round(value * MIB) or None
    return None


def _kind(value: object) -> str:
    """What JSON calls it."""
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), "null")


def _text(value: object) -> str:
    return value[:500] if isinstance(value, str) else ""


def _shorten(faults: list[str]) -> tuple[str, ...]:
    if len(faults) <= _MOST_FAULTS:
        return tuple(faults)
    return (*faults[:_MOST_FAULTS], f"and {len(faults) - _MOST_FAULTS} more")
