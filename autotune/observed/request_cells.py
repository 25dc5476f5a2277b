"""The request of a row: its size, frames and steps, from the cells ``workload`` and ``steps`` and their columns. Pure.

What a row does not say is taken from the catalog's default request and listed in ``assumed``. Nothing is taken where
the row describes another request without its size (``short request``), nor for a video of unknown size where the
figure depends on it: the sizes that people use differ by a factor of three in work.

Steps count as in ``docs/decisions/004-steps-are-sigma-points.md``: ``50 (49 updates)`` and ``50`` are 50 points,
``20 NFE`` and ``7 evals`` count forwards, which is one less for MiniMax-H3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.catalog import ltx_2, minimax_h3
from autotune.catalog.entry import CatalogEntry
from autotune.observed.observation import REQUEST_NOT_SHOWN, Reason
from autotune.observed.quantities import parse_count, shorten
from autotune.observed.refusal import RowRefusedError
from autotune.workload import Workload
from runtime.errors import InputError

SIGMA_POINT_MODELS = frozenset({minimax_h3.H3.name})
"""Models whose steps are points of a schedule, one more than its forwards."""

_FRAMES_PER_SECOND = {minimax_h3.H3.name: minimax_h3.FRAMES_PER_SECOND, ltx_2.LTX_2.name: ltx_2.FRAMES_PER_SECOND}
_SIZE = re.compile(r"(?<![0-9])([0-9]{2,5})\s?[x\u00d7]\s?([0-9]{2,5})(?![0-9])")
_LINES = re.compile(r"(?<![0-9])([0-9]{3,4})p\b", re.IGNORECASE)
_FRAMES = re.compile(r"(?<![0-9.])([0-9]{1,5})\s?(?:f|frames?)\b", re.IGNORECASE)
_SECONDS = re.compile(r"(?<![0-9.])([0-9]{1,3}(?:\.[0-9]{1,3})?)\s?(?:s|sec|seconds?)\b", re.IGNORECASE)
_STEPS_IN_TEXT = re.compile(r"(?<![0-9])([0-9]{1,4})\s?steps?\b", re.IGNORECASE)
_STEPS = (
    (re.compile(r"[0-9]{1,4} \(([0-9]{1,4}) sigmas?(?: points?)?\)", re.IGNORECASE), False),
    (re.compile(r"([0-9]{1,4})(?: sigmas?(?: points?)?)?", re.IGNORECASE), False),
    (re.compile(r"([0-9]{1,4})(?: steps?)?(?: \([0-9]+(?: (?:updates|forwards|passes))?\))?", re.IGNORECASE), False),
    (re.compile(r"([0-9]{1,4}) (?:NFEs?|evals?|forwards?|updates)", re.IGNORECASE), True),
)
"""How people write steps, and whether that counts forwards."""
_STEPS_BY_MODEL = re.compile(r"([A-Za-z][\w.-]*) ([0-9]{1,4})(?:[,;] |$)")
_NO_SIZE = re.compile(r"\b(short|load|image request|job)\b", re.IGNORECASE)
_PICTURES_IN = re.compile(r"\b(i2v|i2va|ref2va?|fl2va|ti2va?|first-frame)\b", re.IGNORECASE)
_UNSURE = re.compile(r"\b(assum\w*|not visible|not stated|likely)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRequest:
    """The request of a row.

    Attributes:
        workload: what is simulated.
        assumed: what the row does not say, one sentence each.
        caveats: how the run's request differs from it, one sentence each.
    """

    workload: Workload
    assumed: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()


def read_request(
    entry: CatalogEntry, cells: Mapping[str, str], *, needs_size: bool, needs_steps: bool
) -> StatedRequest:
    """The request that the cells of a row describe.

    Args:
        entry: the model.
        cells: of the row, by column.
        needs_size: whether what was observed depends on pixels and frames.
        needs_steps: whether it depends on the number of steps.

    Raises:
        RowRefusedError: no size where it matters, several sizes, or a request that the model cannot serve.
    """
    text, default = cells.get("workload", ""), entry.default_workload
    missing: list[str] = []
    assumed: list[str] = []
    if _UNSURE.search(text):
        assumed.append(f"{REQUEST_NOT_SHOWN}; the table says {shorten(text, 200)!r}")
    size = _read_size(entry, cells, text)
    if size is None:
        if needs_size:
            _require_default(entry, cells, text)
        size = (default.width, default.height)
        missing.append(f"size {size[0]}x{size[1]}")
    frames = _read_frames(entry, cells, text)
    if frames is None:
        frames = default.frames
        if frames > 1:
            missing.append(f"{frames} frames")
    steps = _read_steps(entry, cells, text) if needs_steps else default.steps
    if steps is None:
        steps = default.steps
        missing.append(f"{steps} steps")
    missing.append(f"{default.prompt_tokens} prompt tokens")
    assumed.append(f"not stated and taken from the default request of {entry.name}: {', '.join(missing)}")
    workload = _build(entry, width=size[0], height=size[1], frames=frames, steps=steps)
    pictures = _PICTURES_IN.search(text)
    caveats = (
        (f"the request was {pictures[0]}: it began from pictures, the simulated one from text",) if pictures else ()
    )
    return StatedRequest(workload=workload, assumed=tuple(assumed), caveats=caveats)


def _read_size(entry: CatalogEntry, cells: Mapping[str, str], text: str) -> tuple[int, int] | None:
    width, height = cells.get("width", ""), cells.get("height", "")
    if width or height:
        return parse_count(width, "width"), parse_count(height, "height")
    sizes = list(dict.fromkeys((int(match[1]), int(match[2])) for match in _SIZE.finditer(text)))
    if len(sizes) > 1:
        raise RowRefusedError(
            Reason.NOT_EXPRESSIBLE,
            f"workload is {shorten(text)!r}: one request has one size; give each run its own row",
        )
    if sizes:
        return sizes[0]
    lines = _LINES.search(text)
    canvases = [(entry.default_workload.width, entry.default_workload.height), entry.smaller_canvas]
    return next((canvas for canvas in canvases if lines and min(canvas) == int(lines[1])), None)


def _require_default(entry: CatalogEntry, cells: Mapping[str, str], text: str) -> None:
    """Refuse where the default size may not stand for one that is not stated."""
    says_other = _NO_SIZE.search(text) or _LINES.search(text)
    has_no_column = "workload" not in cells and "width" not in cells
    if says_other or (entry.default_workload.frames > 1 and not has_no_column and text.casefold() != "default"):
        raise RowRefusedError(
            Reason.NO_WORKLOAD,
            f"workload is {shorten(text)!r}, which names no size, and what was observed depends on it: write it like "
            f"{entry.default_workload.width}x{entry.default_workload.height} {entry.default_workload.frames}f",
        )


def _read_frames(entry: CatalogEntry, cells: Mapping[str, str], text: str) -> int | None:
    if cells.get("frames"):
        return parse_count(cells["frames"], "frames")
    if entry.default_workload.frames == 1:
        return 1
    frames = _FRAMES.search(text)
    if frames:
        return int(frames[1])
    seconds, rate = _SECONDS.search(text), _FRAMES_PER_SECOND.get(entry.name)
    return round(float(seconds[1]) * rate) if seconds and rate else None


def _read_steps(entry: CatalogEntry, cells: Mapping[str, str], text: str) -> int | None:
    written = cells.get("steps", "")
    if not re.search(r"[0-9]", written):
        in_text = _STEPS_IN_TEXT.search(text)
        return int(in_text[1]) if in_text else None
    for pattern, counts_forwards in _STEPS:
        match = pattern.fullmatch(written)
        if match:
            return int(match[1]) + int(counts_forwards and entry.name in SIGMA_POINT_MODELS)
    by_model = {name.casefold(): int(steps) for name, steps in _STEPS_BY_MODEL.findall(written)}
    if by_model and not _STEPS_BY_MODEL.sub("", written):
        return next((by_model[name.casefold()] for name in entry.names if name.casefold() in by_model), None)
    raise RowRefusedError(
        Reason.NOT_EXPRESSIBLE,
        f"steps is {shorten(written)!r}: one request has one number of steps; write it like 50, 50 (49 updates) or "
        "20 NFE",
    )


def _build(entry: CatalogEntry, *, width: int, height: int, frames: int, steps: int) -> Workload:
    try:
        workload = Workload(
            width=width,
            height=height,
            frames=frames,
            steps=steps,
            prompt_tokens=entry.default_workload.prompt_tokens,
        )
        return entry.settle(workload).workload
    except InputError as error:
        raise RowRefusedError(Reason.NOT_EXPRESSIBLE, f"{entry.name} has no such request: {error}") from None
