"""Best plans for several requests under several caps, and the one plan that serves them all best."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.evaluate import Evaluation, Evaluator, Score
from autotune.exact import ExactSolver
from autotune.model_facts import ModelFacts
from autotune.workflows.planned import NothingFits
from autotune.workflows.planning import PlanningSettings, build_evaluator
from autotune.workflows.target import Target, choose_cap
from reports.plan_table import PlanRow
from runtime.errors import InputError
from runtime.hosting import HostTier
from runtime.plan import Plan
from runtime.residency import Mode
from runtime.target_summary import CapSummary
from runtime.units import format_gib, format_percent, parse_bytes

SAFEST_RULE = (
    "of the best plans that fit every request that anything fits for under the smallest cap, the one that loses least "
    "in its worst case against the fastest plan of each request and cap"
)

# More would take minutes, and nobody reads them.
_MOST_SIZES, _MOST_CAPS = 32, 32

_SIZE = re.compile(r"(?P<width>[0-9]{1,6})x(?P<height>[0-9]{1,6})(?:x(?P<frames>[0-9]{1,6}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What one request asks for; frames None for the model's default."""

    width: int
    height: int
    frames: int | None = None

    @property
    def text(self) -> str:
        """As it is typed."""
        sides = f"{self.width}x{self.height}"
        return sides if self.frames is None else f"{sides}x{self.frames}"

    @property
    def shape(self) -> Mapping[str, Any]:
        """The same as fields of a workload."""
        return {"width": self.width, "height": self.height, "frames": self.frames}


def parse_sizes(text: str) -> tuple[Size, ...]:
    """Sizes such as ``864x480x124,1024x1024``, in their order, each once.

    Raises:
        InputError: one of them is no size, or there are too many.
    """
    sizes: dict[Size, None] = {}
    for part in text.split(","):
        match = _SIZE.fullmatch(part.strip().casefold())
        found = [int(number) for number in match.groups() if number is not None] if match else []
        if not found or min(found) < 1:
            raise InputError(
                f"--sizes: {part.strip()!r} is no size: write width x height x frames like 864x480x124, or 1024x1024 "
                "for an image, with commas between several"
            )
        sizes[Size(width=found[0], height=found[1], frames=found[2] if len(found) > 2 else None)] = None
    _check_count(len(sizes), _MOST_SIZES, "--sizes")
    return tuple(sizes)


def parse_caps(text: str) -> tuple[int, ...]:
    """Caps such as ``12GiB,16GiB`` in bytes, in their order, each once.

    Raises:
        InputError: one of them is no amount of memory, or there are too many.
    """
    caps = tuple(dict.fromkeys(parse_bytes(part) for part in text.split(",")))
    _check_count(len(caps), _MOST_CAPS, "--caps")
    return caps


def _check_count(count: int, most: int, option: str) -> None:
    if count > most:
        raise InputError(f"{option} names {count}: at most {most} at once")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One request under one cap.

    Attributes:
        size: of the request, as people write it.
        asked_bytes: the cap as it was typed.
        cap: the cap that it makes on the device.
        fastest_s: the fastest plan that fits; None where nothing does.
        best: the plan that a search chooses, or the nearest one where nothing fits.
        short: what nothing fits for lack of; None where something fits.
    """

    size: str
    asked_bytes: int
    cap: CapSummary
    fastest_s: float | None
    best: Evaluation
    short: NothingFits | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SafestPlan:
    """One plan for all requests and caps.

    Attributes:
        plan: the plan.
        size, cap_bytes: what it is the best plan for.
        slowdowns: per cell, how much slower it is than the fastest plan; None where it does not fit, or nothing does.
        worst_ratio: the largest slowdown where it has to fit.
    """

    plan: Plan
    size: str
    cap_bytes: int
    slowdowns: tuple[float | None, ...]
    worst_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTable:
    """Best plans, request by request and cap by cap, and the safest choice if there is one."""

    cells: tuple[Cell, ...]
    safest: SafestPlan | None

    @property
    def fits_anywhere(self) -> bool:
        """Whether anything fits in any cell."""
        return any(cell.short is None for cell in self.cells)


def build_table(
    requests: Sequence[ModelFacts],
    caps_bytes: Sequence[int],
    target: Target,
    settings: PlanningSettings,
    notify: Callable[[str], None] = lambda _: None,
) -> PlanTable:
    """Search every request under every cap; the other limits of ``target`` hold as they are.

    Args:
        requests: facts of one model, one entry per request.
        caps_bytes: caps, in the order of the table's rows.
        target: device and host; its own cap is not used.
        settings: how to search; no study is run.
        notify: told each request.
    """
    free_bytes = target.free_bytes if target.free_bytes < target.device.usable_vram_bytes else None
    caps = [choose_cap(target.device, cap_bytes, free_bytes) for cap_bytes in caps_bytes]
    cells: list[Cell] = []
    evaluators: dict[str, Evaluator] = {}
    for facts in requests:
        size = describe_size(facts)
        notify(f"predicting every placement for {size}")
        evaluator = evaluators[size] = build_evaluator(facts, target, settings)
        solver = ExactSolver(evaluator, settings.space, limit_bytes=max(cap.effective_bytes for cap in caps))
        for asked_bytes, cap in zip(caps_bytes, caps, strict=True):
            cells.append(_solve(solver, size, asked_bytes, cap, settings))
    return PlanTable(cells=tuple(cells), safest=_choose_safest(cells, evaluators))


def describe_size(facts: ModelFacts) -> str:
    """The request of ``facts`` as ``--sizes`` takes it."""
    work = facts.workload
    return f"{work.width}x{work.height}" + (f"x{work.frames}" if work.frames > 1 else "")


def _solve(solver: ExactSolver, size: str, asked_bytes: int, cap: CapSummary, settings: PlanningSettings) -> Cell:
    solution = solver.solve(cap.effective_bytes, settings.tie_ratio)
    plan = solution.chosen if solution is not None else solver.nearest(cap.effective_bytes)
    best = solver.evaluator.evaluate(plan)
    return Cell(
        size=size,
        asked_bytes=asked_bytes,
        cap=cap,
        fastest_s=solution.optimum_score.latency_s if solution is not None else None,
        best=best,
        short=None if solution is not None else NothingFits(cap_bytes=cap.effective_bytes, nearest=best),
    )


def _choose_safest(cells: Sequence[Cell], evaluators: Mapping[str, Evaluator]) -> SafestPlan | None:
    """The plan of ``SAFEST_RULE``; the smallest cap is the smallest under which anything fits."""
    fitting = [cell for cell in cells if cell.fastest_s is not None]
    if not fitting:
        return None
    least_bytes = min(cell.cap.effective_bytes for cell in fitting)
    wanted = {cell.size for cell in fitting if cell.cap.effective_bytes == least_bytes}
    candidates: dict[Plan, Cell] = {}
    for cell in fitting:
        candidates.setdefault(cell.best.plan, cell)
    found = []
    for plan, source in candidates.items():
        scores = {size: evaluator.score(plan) for size, evaluator in evaluators.items()}
        slowdowns = tuple(_slowdown(scores[cell.size], cell) for cell in cells)
        required = [ratio for ratio, cell in zip(slowdowns, cells, strict=True) if _is_required(cell, wanted)]
        known = [ratio for ratio in required if ratio is not None]
        if len(known) == len(required):
            safest = SafestPlan(
                plan=plan,
                size=source.size,
                cap_bytes=source.cap.effective_bytes,
                slowdowns=slowdowns,
                worst_ratio=max(known),
            )
            found.append((safest.worst_ratio, max(score.charged_bytes for score in scores.values()), safest))
    return min(found, key=lambda item: item[:2])[2] if found else None


def _is_required(cell: Cell, wanted: set[str]) -> bool:
    """Whether the safest plan has to fit: the request fits under the smallest cap, and something fits here."""
    return cell.size in wanted and cell.fastest_s is not None


def _slowdown(score: Score, cell: Cell) -> float | None:
    if cell.fastest_s is None or score.charged_bytes > cell.cap.effective_bytes or score.host_short_bytes:
        return None
    return score.latency_s / cell.fastest_s - 1 if cell.fastest_s else 0.0


def describe_safest(table: PlanTable) -> tuple[str, ...]:
    """The safest choice, the rule behind it, and its placements."""
    safest = table.safest
    if not table.fits_anywhere:
        return ("nothing fits anywhere: raise --caps or --host-memory, or make the requests smaller",)
    if safest is None:
        return (f"no safest choice: it would be, {SAFEST_RULE}; none of them fits all",)
    placements = "; ".join(f"{item.component}: {item.describe()}" for item in safest.plan.placements)
    return (
        f"safest single choice: {placements}",
        f"it is the best plan for {safest.size} under {format_gib(safest.cap_bytes)} and at worst "
        f"{format_percent(max(safest.worst_ratio, 0.0))} slower than the fastest plan where it has to fit",
        f"the rule: {SAFEST_RULE}",
    )


def list_rows(table: PlanTable) -> tuple[PlanRow, ...]:
    """The table for people."""
    slowdowns = table.safest.slowdowns if table.safest is not None else (None,) * len(table.cells)
    return tuple(
        PlanRow(
            size=cell.size,
            cap=format_gib(cell.cap.effective_bytes),
            latency_s=cell.best.latency_s if cell.short is None else None,
            charged_bytes=cell.best.peak.charged_bytes,
            residents=_describe_residents(cell.best.plan),
            tiers=_describe_tiers(cell.best),
            missing=_describe_missing(cell.short),
            safest_ratio=ratio,
            has_safest=table.safest is not None,
        )
        for cell, ratio in zip(table.cells, slowdowns, strict=True)
    )


def list_records(table: PlanTable) -> list[dict[str, Any]]:
    """The table for programs: one record per request and cap."""
    slowdowns = table.safest.slowdowns if table.safest is not None else (None,) * len(table.cells)
    return [
        {
            "request": cell.size,
            "asked_cap_bytes": cell.asked_bytes,
            "cap_bytes": cell.cap.effective_bytes,
            "fits": cell.short is None,
            "latency_s": cell.best.latency_s if cell.short is None else None,
            "fastest_s": cell.fastest_s,
            "charged_bytes": cell.best.peak.charged_bytes,
            "kept_free_bytes": cell.best.peak.kept_free_bytes,
            "short_bytes": cell.short.short_bytes if cell.short is not None else 0,
            "host_short_bytes": cell.short.host_short_bytes if cell.short is not None else 0,
            "safest_slowdown_ratio": ratio,
            "host_tiers": _describe_tiers(cell.best),
            **{item.component: item.describe() for item in cell.best.plan.placements},
        }
        for cell, ratio in zip(table.cells, slowdowns, strict=True)
    ]


def _describe_residents(plan: Plan) -> str:
    whole = [item.component for item in plan.placements if item.mode is Mode.RESIDENT]
    counts = [
        f"{item.component} {item.resident}"
        for item in plan.placements
        if item.mode is Mode.LAYERWISE_OFFLOAD and item.resident
    ]
    parts = [", ".join(counts) + " layers"] * bool(counts) + [f"all of {', '.join(whole)}"] * bool(whole)
    return "; ".join(parts) or "nothing"


def _describe_tiers(evaluation: Evaluation) -> str:
    parts = []
    for placement, hosting in zip(evaluation.plan.placements, evaluation.hosting.components, strict=True):
        counts = [(hosting.count(tier), tier) for tier in (HostTier.PAGEABLE, HostTier.MAPPED)]
        words = ", ".join(f"{count} {tier}" for count, tier in counts if count)
        if words:
            parts.append(f"{placement.component} {words}")
    return "; ".join(parts) or "all pinned"


def _describe_missing(short: NothingFits | None) -> str:
    if short is None:
        return ""
    if short.short_bytes:
        return f"{format_gib(short.short_bytes)} of VRAM missing"
    return f"{format_gib(short.host_short_bytes)} of host memory missing"
