"""The exact optimum: every combination of placements that is not dominated, as arrays.

A plan's latency is bounded below by the sum of its components' own times, with the one copy ahead that meets a use
counted in (``bound_s``); the bound is the latency itself unless a copy ahead outlasts the use that it meets. Plans are
visited in the order of the bound and replayed whole, until no bound is left below the best replayed latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.collector import paused_collector
from autotune.evaluate import Evaluator, Score
from autotune.options import Floats, Ints, OptionTable, compute_options, drop_dominated, meets, with_traces
from autotune.own_use import CopyAhead, replay_use
from autotune.space import SearchSpace
from runtime.errors import UnsupportedError
from runtime.plan import Placement, Plan

DEFAULT_TIE_RATIO = 0.005

# Arrays of this many plans take about 1 GiB together; no catalog model comes near it.
_MOST_COMBINATIONS = 30_000_000

# Plans looked at in one step along the trade-off: many more cost time after each corner, many fewer between corners.
_SCANNED_AT_ONCE = 4096

# A placement takes about half a millisecond and tens of kilobytes; the largest catalog model has 5,000.
_MOST_PLACEMENTS = 20_000

# Replayed and summed times differ by rounding only; a bound this close to a latency is that latency.
_ROUNDING_RATIO = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactSolution:
    """Answer for one cap.

    Attributes:
        optimum: the fastest plan that fits, before tie-breaking.
        optimum_score: its latency and charged bytes.
        chosen: among the plans within ``tie_ratio`` of the optimum, the one that needs least VRAM, then changes the
            fewest settings.
        chosen_score: its latency and charged bytes.
    """

    optimum: Plan
    optimum_score: Score
    chosen: Plan
    chosen_score: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One corner of the trade-off curve: the least latency for caps from ``charged_bytes`` on."""

    charged_bytes: int
    latency_s: float
    plan: Plan


def _check_size(choices: list[tuple[Placement, ...]]) -> None:
    """Refuse a space whose tables alone would take minutes and gigabytes."""
    count = sum(len(placements) for placements in choices)
    if count > _MOST_PLACEMENTS:
        raise UnsupportedError(
            f"the model has {count:,} placements to predict, more than {_MOST_PLACEMENTS:,}: lower --max-prefetch; "
            "longer stacks are not supported"
        )


class ExactSolver:
    """All plans of one search space; built once, then asked for any cap."""

    def __init__(
        self,
        evaluator: Evaluator,
        space: SearchSpace,
        allowed: Mapping[str, tuple[Placement, ...]] | None = None,
    ) -> None:
        self.evaluator = evaluator
        components = evaluator.cost_model.facts.model.components
        choices = [(allowed or {}).get(component.name) or space.placements(component) for component in components]
        _check_size(choices)
        with paused_collector():
            tables = [compute_options(evaluator, index, placements) for index, placements in enumerate(choices)]
            self.tables = tuple(self._prune(tables))
        sizes = [len(table) for table in self.tables]
        self._shape = tuple(sizes)
        count = int(np.prod(sizes, dtype=np.float64))
        if count > _MOST_COMBINATIONS:
            raise UnsupportedError(
                f"{count:.3g} combinations of placements are left after pruning, more than {_MOST_COMBINATIONS:,}: "
                "lower --max-prefetch"
            )
        self.bound_s: Floats = self._sum_bounds().ravel()
        self.charged_bytes: Ints = self._sum_charges().ravel()
        self.changed: Ints = self._sum_changes().ravel()
        self._scores: dict[int, Score] = {}

    def solve(self, cap_bytes: int, tie_ratio: float = DEFAULT_TIE_RATIO) -> ExactSolution | None:
        """The optimum under ``cap_bytes``; None when nothing fits."""
        fits = np.flatnonzero(self.charged_bytes <= cap_bytes)
        if not len(fits):
            return None
        optimum = self._fastest(fits)
        threshold_s = self._score(optimum).latency_s * (1 + tie_ratio)
        tied = fits[self.bound_s[fits] <= threshold_s]
        order = tied[np.lexsort((self.bound_s[tied], self.changed[tied], self.charged_bytes[tied]))]
        chosen = next(row for row in order if self._score(row).latency_s <= threshold_s)
        return ExactSolution(
            optimum=self._plan(optimum),
            optimum_score=self._score(optimum),
            chosen=self._plan(chosen),
            chosen_score=self._score(chosen),
        )

    def smallest(self) -> tuple[Plan, Score]:
        """The plan that needs least VRAM, the fastest among those."""
        row = int(np.lexsort((self.bound_s, self.charged_bytes))[0])
        return self._plan(row), self._score(row)

    def trade_off(self) -> tuple[CurvePoint, ...]:
        """Corners of latency over VRAM, from the smallest plan up; each is strictly faster than the one before."""
        order = np.lexsort((self.bound_s, self.charged_bytes))
        points: list[CurvePoint] = []
        best_s = np.inf
        begin = 0
        while begin < len(order):
            rows = order[begin : begin + _SCANNED_AT_ONCE]
            faster = np.flatnonzero(self.bound_s[rows] < best_s * (1 - _ROUNDING_RATIO))
            begin += int(faster[0]) + 1 if len(faster) else len(rows)
            score = self._score(rows[faster[0]]) if len(faster) else None
            if score is None or score.latency_s >= best_s * (1 - _ROUNDING_RATIO):
                continue
            best_s = score.latency_s
            if points and points[-1].charged_bytes == score.charged_bytes:
                points.pop()
            plan = self._plan(rows[faster[0]])
            points.append(CurvePoint(charged_bytes=score.charged_bytes, latency_s=best_s, plan=plan))
        return tuple(points)

    def _fastest(self, rows: npt.NDArray[np.intp]) -> int:
        best_row, best_s = -1, np.inf
        for row in rows[np.argsort(self.bound_s[rows], kind="stable")]:
            if self.bound_s[row] >= best_s * (1 - _ROUNDING_RATIO):
                break
            latency_s = self._score(row).latency_s
            if latency_s < best_s:
                best_row, best_s = int(row), latency_s
        return best_row

    def _score(self, row: int | np.intp) -> Score:
        key = int(row)
        if key not in self._scores:
            self._scores[key] = self.evaluator.score(self._plan(key))
        return self._scores[key]

    def _plan(self, row: int | np.intp) -> Plan:
        picks = np.unravel_index(int(row), self._shape)
        placements = tuple(table.placements[int(pick)] for table, pick in zip(self.tables, picks, strict=True))
        return Plan(engine=self.evaluator.engine.name, placements=placements)

    def _prune(self, tables: list[OptionTable]) -> list[OptionTable]:
        """Drop dominated rows, first where no other component's copies are ever met: that leaves fewer to meet."""
        waits = [meets(self.evaluator, table, others) for table, others in _with_aheads_of_others(tables)]
        pruned = [
            table if waiting else drop_dominated(with_traces(self.evaluator, table, ()))
            for table, waiting in zip(tables, waits, strict=True)
        ]
        return [
            drop_dominated(with_traces(self.evaluator, table, others)) if waiting else table
            for (table, others), waiting in zip(_with_aheads_of_others(pruned), waits, strict=True)
        ]

    def _sum_bounds(self) -> Floats:
        total = np.zeros(self._shape)
        for index, table in enumerate(self.tables):
            total += self._axis(table.own_s, index)
        for owner, table in enumerate(self.tables):
            for number in np.unique(table.ahead):
                for ahead in table.aheads[number]:
                    total += self._delay_s(ahead) * self._axis(table.ahead == number, owner)
        return total

    def _delay_s(self, ahead: CopyAhead) -> Floats:
        """How much longer the use that meets ``ahead`` takes, per row of the component in use, on that one's axis."""
        name = self.evaluator.lifecycle.request.uses[ahead.position].component
        index = next(position for position, table in enumerate(self.tables) if table.placements[0].component == name)
        delays = [
            replay_use(self.evaluator, index, placement, ahead.position, met=ahead)[0]
            - replay_use(self.evaluator, index, placement, ahead.position)[0]
            for placement in self.tables[index].placements
        ]
        return self._axis(np.array(delays), index)

    def _sum_charges(self) -> Ints:
        phases = np.vstack(
            [
                np.concatenate([table.phase_bytes for table in self.tables]),
                self.evaluator.memory_model.charged_overhead_bytes,
            ]
        )
        peak = np.zeros(self._shape, dtype=np.int64)
        for phase in np.unique(phases, axis=1, return_index=True)[1]:
            total = np.full(self._shape, self.evaluator.memory_model.charged_overhead_bytes[phase], dtype=np.int64)
            for index, table in enumerate(self.tables):
                total += self._axis(table.phase_bytes[:, phase], index)
            np.maximum(peak, total, out=peak)
        return peak

    def _sum_changes(self) -> Ints:
        total = np.zeros(self._shape, dtype=np.int64)
        for index, table in enumerate(self.tables):
            total += self._axis(table.changed, index)
        return total

    def _axis(self, values: npt.NDArray[Any], index: int) -> npt.NDArray[Any]:
        """``values`` of one component laid along its axis of the array of all plans."""
        shape = [1] * len(self.tables)
        shape[index] = len(values)
        return values.reshape(shape)


def _with_aheads_of_others(tables: list[OptionTable]) -> Iterator[tuple[OptionTable, list[CopyAhead]]]:
    """Each table with every distinct copy ahead of the other tables' rows."""
    for table in tables:
        others = (other for other in tables if other is not table)
        aheads = (ahead for other in others for number in np.unique(other.ahead) for ahead in other.aheads[number])
        yield table, list({ahead.key: ahead for ahead in aheads}.values())
