"""The exact optimum: every combination of placements that is not dominated, as arrays.

A plan's latency is bounded below by the sum of its components' own times, with the one copy ahead that meets a use
counted in (``bound_s``); the bound is the latency itself unless a copy ahead outlasts the use that it meets. Plans are
visited in the order of the bound and replayed whole, until no bound is left below the best replayed latency. Copies
and compute that slow each other down change none of this but one proof (``_LONG_BACKLOG_S`` of ``autotune.options``).

Where the host cannot pin every layer, a component's times depend on what the others leave of its memory. The states of
the host are then rounded (``autotune.host_states``), placements within a small slack of each other count as one, and
the answer is refined: neighbours under true states, until none is better. That is no proof; brute force on small models
agrees (``tests/property/test_host_properties.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.collector import paused_collector
from autotune.evaluate import Evaluator, Score
from autotune.host_states import HostChoices, build_graph
from autotune.options import (
    Floats,
    Ints,
    OptionTable,
    Rows,
    compute_options,
    find_undominated,
    meets,
    with_traces,
)
from autotune.own_use import CopyAhead, replay_use
from autotune.refine import Climber
from autotune.space import SearchSpace
from runtime.errors import UnsupportedError
from runtime.plan import Placement, Plan
from runtime.units import MIB

DEFAULT_TIE_RATIO = 0.005

# Arrays of this many plans take about 1 GiB together. LTX-2 under 80 GiB has more: a larger space is pruned with slack.
_MOST_COMBINATIONS = 30_000_000

# Plans looked at in one step along the trade-off: many more cost time after each corner, many fewer between corners.
_SCANNED_AT_ONCE = 4096

# A placement takes about half a millisecond and tens of kilobytes; the largest catalog model has 5,000.
_MOST_PLACEMENTS = 20_000

NEVER_BYTES = 2**62
"""Charged to a plan for which the host has no memory: more than any cap."""

# Where states of the host are rounded, placements this close in time (as a share of a request) count as equally fast;
# with a handful of components that stays below the default tie ratio.
_SLACK_RATIO = 0.0001

# Under rounded states plans look slower than they are by up to about this share; ties are looked for that far.
_ROUNDED_STATES_RATIO = 0.004

# Arrays of more plans than this take longer than a larger slack costs; the refinement makes up for it. A space that is
# too large to be exact is treated so, too.
_ROUNDED_COMBINATIONS = 5_000_000
_FIRST_SLACK_BYTES, _LAST_SLACK_BYTES = 8 * MIB, 1024 * MIB

# How many plans are tried for one that the host has memory for, where that is short.
_MOST_TRIED = 2000

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
    """All plans of one search space; built once, then asked for any cap.

    Attributes:
        limit_bytes: plans that need more device memory are left out, the smallest plan excepted; None for no limit.
        bound_s, charged_bytes, changed: one entry per plan; what the host has no memory for is charged infinitely.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        space: SearchSpace,
        allowed: Mapping[str, tuple[Placement, ...]] | None = None,
        limit_bytes: int | None = None,
    ) -> None:
        self.evaluator = evaluator
        components = evaluator.cost_model.facts.model.components
        placements = [(allowed or {}).get(component.name) or space.placements(component) for component in components]
        _check_size(placements)
        self._all_placements = placements
        with paused_collector():
            if limit_bytes is not None:
                placements = [
                    _drop_too_large(evaluator, index, rows, limit_bytes) for index, rows in enumerate(placements)
                ]
            self._is_exact = evaluator.always_pins
            if not self._is_exact:
                placements = [_thin(rows) for rows in placements]
            graph = build_graph(evaluator, placements)
            self._start = graph.start
            self._order = tuple(choices.component for choices in graph.choices)
            choices = sorted(graph.choices, key=lambda item: item.component)
            tables = [compute_options(evaluator, item.options) for item in choices]
            host_bytes = evaluator.host_rule.memory.available_bytes
            self._can_run_short = sum(int(table.held_bytes.max()) for table in tables) > host_bytes
            if not self._can_run_short:
                tables = [replace(table, held_bytes=np.zeros_like(table.held_bytes)) for table in tables]
            self._prune(tables, choices, placements)
        self._shape = tuple(len(rows) for rows in self.placements)
        count = int(np.prod(self._shape, dtype=np.float64))
        if count > _MOST_COMBINATIONS:
            raise UnsupportedError(
                f"{count:.3g} combinations of placements are left after pruning, more than {_MOST_COMBINATIONS:,}: "
                "lower --max-prefetch"
            )
        options = self._follow_host()
        self.bound_s: Floats = self._sum_bounds(options).ravel()
        self._held_bytes: Ints | None = None
        self._needed_bytes: Ints = self._sum_charges(options).ravel()
        self.charged_bytes: Ints = self._needed_bytes
        if self._held_bytes is not None:
            has_room = self._held_bytes <= evaluator.host_rule.memory.available_bytes
            self.charged_bytes = np.where(has_room, self._needed_bytes, NEVER_BYTES)
        self.changed: Ints = self._sum_changes().ravel()
        self._scores: dict[int, Score] = {}

    def solve(self, cap_bytes: int, tie_ratio: float = DEFAULT_TIE_RATIO) -> ExactSolution | None:
        """The optimum under ``cap_bytes``; None when nothing fits."""
        fits = np.flatnonzero(self.charged_bytes <= cap_bytes)
        optimum = self._fastest(fits)
        if optimum is None:
            return None
        if not self._is_exact:
            return self._refine(optimum, fits, cap_bytes, tie_ratio)
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

    def _refine(self, optimum: int, fits: npt.NDArray[np.intp], cap_bytes: int, tie_ratio: float) -> ExactSolution:
        """The optimum of rounded states, improved by its neighbours under true ones, then the tie rule likewise."""
        climber = Climber(self.evaluator, self._all_placements, cap_bytes)
        best = climber.climb(self._plan(optimum), lambda score: (score.latency_s,))
        best_score = self.evaluator.score(best)
        threshold_s = best_score.latency_s * (1 + tie_ratio)
        tied = fits[self.bound_s[fits] <= threshold_s * (1 + _ROUNDED_STATES_RATIO)]
        order = tied[np.lexsort((self.bound_s[tied], self.changed[tied], self.charged_bytes[tied]))]
        start = next(
            (self._plan(row) for row in order[:_MOST_TRIED] if self._score(row).latency_s <= threshold_s), best
        )

        def rank(score: Score) -> tuple[float, ...]:
            return (score.latency_s > threshold_s, score.charged_bytes)

        chosen = min((climber.climb(plan, rank) for plan in (start, best)), key=lambda plan: climber.key(plan, rank))
        return ExactSolution(
            optimum=best,
            optimum_score=best_score,
            chosen=chosen,
            chosen_score=self.evaluator.score(chosen),
        )

    def smallest(self) -> tuple[Plan, Score]:
        """The plan that needs least VRAM, the fastest among those, of those that the host has memory for if any."""
        order = np.lexsort((self.bound_s, self.charged_bytes))
        row = next((row for row in order[:_MOST_TRIED] if math.isfinite(self._score(row).latency_s)), order[0])
        return self._plan(row), self.evaluator.score(self._plan(row))

    def nearest(self, cap_bytes: int) -> Plan:
        """What comes nearest where nothing fits: of the plans within the cap the one that lacks least host memory, else
        the one that needs least VRAM."""
        within = np.flatnonzero(self._needed_bytes <= cap_bytes)
        if self._held_bytes is None or not len(within):
            return self._plan(np.lexsort((self.bound_s, self._needed_bytes))[0])
        return self._plan(within[np.lexsort((self.bound_s[within], self._held_bytes[within]))[0]])

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

    def _fastest(self, rows: npt.NDArray[np.intp]) -> int | None:
        best_row, best_s = None, np.inf
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
            score = self.evaluator.score(self._plan(key))
            self._scores[key] = replace(score, latency_s=np.inf) if score.host_short_bytes else score
        return self._scores[key]

    def _plan(self, row: int | np.intp) -> Plan:
        picks = np.unravel_index(int(row), self._shape)
        placements = tuple(rows[int(pick)] for rows, pick in zip(self.placements, picks, strict=True))
        return Plan(engine=self.evaluator.engine.name, placements=placements)

    def _prune(
        self, tables: list[OptionTable], choices: list[HostChoices], placements: list[tuple[Placement, ...]]
    ) -> None:
        """Drop dominated placements, first where no other component's copies are ever met: that leaves fewer to meet.

        Sets ``tables``, ``choices`` and ``placements`` to what is left.
        """
        self.tables, self.choices = tables, choices
        least_slack_s = _SLACK_RATIO * sum(float(table.own_s.min()) for table in tables)
        slack_s = 0.0 if self._is_exact else least_slack_s
        self.placements = [tuple(rows) for rows in placements]
        waits = [meets(self.evaluator, index, self._aheads_of_others(index)) for index in range(len(tables))]
        for waiting in (False, True):
            for index in [index for index, found in enumerate(waits) if found is waiting]:
                aheads = self._aheads_of_others(index) if waiting else ()
                tables[index] = with_traces(self.evaluator, tables[index], aheads)
                self._keep(index, slack_s)
        slack_bytes = _FIRST_SLACK_BYTES
        most = _MOST_COMBINATIONS if self._is_exact else _ROUNDED_COMBINATIONS
        while math.prod(len(rows) for rows in self.placements) > most and slack_bytes <= _LAST_SLACK_BYTES:
            self._is_exact = False
            slack_s, slack_bytes = max(slack_s * 2, least_slack_s), slack_bytes * 2
            for index in range(len(tables)):
                self._keep(index, slack_s, slack_bytes)

    def _keep(self, index: int, slack_s: float, slack_bytes: int = 0) -> None:
        """Drop what is dominated among the placements of one component."""
        rows = find_undominated(self.tables[index], self.choices[index], slack_s, slack_bytes)
        self.choices[index] = self.choices[index].take(rows)
        self.placements[index] = tuple(self.placements[index][row] for row in rows)

    def _aheads_of_others(self, component: int) -> list[CopyAhead]:
        """Every distinct copy ahead of the other components' placements."""
        found: dict[object, CopyAhead] = {}
        for index, table in enumerate(self.tables):
            if index == component:
                continue
            for number in np.unique(table.ahead[self.choices[index].option]):
                found |= {ahead.key: ahead for ahead in table.aheads[number]}
        return list(found.values())

    def _follow_host(self) -> list[Rows]:
        """Per component, the option that each plan gives it, from the first component that is hosted to the last."""
        bits = np.ix_(*(item.is_resident.astype(np.intp) for item in self.choices))
        state = self._start[bits] if self._start.size > 1 else np.zeros((1,) * len(self._shape), dtype=np.intp)
        found: list[Rows] = [state] * len(self._shape)
        for component in self._order:
            rows = self._axis(np.arange(self._shape[component]), component)
            found[component] = self.choices[component].option[state, rows]
            state = self.choices[component].next_state[state, rows]
        return found

    def _sum_bounds(self, options: list[Rows]) -> Floats:
        total = np.zeros(self._shape)
        for table, option in zip(self.tables, options, strict=True):
            total += table.own_s[option]
        for owner, table in enumerate(self.tables):
            chosen = table.ahead[options[owner]]
            for number in np.unique(chosen):
                for ahead in table.aheads[number]:
                    total += self._delay_s(ahead, options) * (chosen == number)
        return total

    def _delay_s(self, ahead: CopyAhead, options: list[Rows]) -> Floats:
        """How much longer the use that meets ``ahead`` takes, plan by plan."""
        name = self.evaluator.lifecycle.request.uses[ahead.position].component
        index = next(position for position, rows in enumerate(self.placements) if rows[0].component == name)
        delays = np.zeros(len(self.tables[index]))
        for number in np.unique(options[index]):
            option = self.tables[index].options[number]
            met_s = replay_use(self.evaluator, option, ahead.position, met=ahead)[0]
            delays[number] = met_s - replay_use(self.evaluator, option, ahead.position)[0]
        return delays[options[index]]

    def _sum_charges(self, options: list[Rows]) -> Ints:
        overhead = np.asarray(self.evaluator.memory_model.charged_overhead_bytes)
        # The device bytes of a placement are the same wherever its copies wait.
        own = [table.phase_bytes[item.option[0]] for table, item in zip(self.tables, self.choices, strict=True)]
        phases = np.vstack([np.concatenate(own), overhead])
        peak = np.zeros(self._shape, dtype=np.int64)
        for phase in np.unique(phases, axis=1, return_index=True)[1]:
            total = np.full(self._shape, overhead[phase], dtype=np.int64)
            for index, rows in enumerate(own):
                total += self._axis(rows[:, phase], index)
            np.maximum(peak, total, out=peak)
        if self._can_run_short:
            held = sum(table.held_bytes[option] for table, option in zip(self.tables, options, strict=True))
            self._held_bytes = np.broadcast_to(held, self._shape).ravel()
        return peak

    def _sum_changes(self) -> Ints:
        total = np.zeros(self._shape, dtype=np.int64)
        for index, (table, item) in enumerate(zip(self.tables, self.choices, strict=True)):
            total += self._axis(table.changed[item.option[0]], index)
        return total

    def _axis(self, values: npt.NDArray[Any], index: int) -> npt.NDArray[Any]:
        """``values`` of one component laid along its axis of the array of all plans."""
        shape = [1] * len(self._shape)
        shape[index] = len(values)
        return values.reshape(shape)


def _thin(rows: Sequence[Placement]) -> tuple[Placement, ...]:
    """The placements with a prefetch size of 1, 2, 4 and so on; what lies between is left to the refinement."""
    thinned = tuple(row for row in rows if row.prefetch & (row.prefetch - 1) == 0)
    return thinned or tuple(rows)


def _drop_too_large(
    evaluator: Evaluator, component: int, rows: Sequence[Placement], limit_bytes: int
) -> tuple[Placement, ...]:
    """The placements that stay within ``limit_bytes`` by themselves; the smallest ones if none does."""
    memory = evaluator.memory_model
    # Residents alone tell of most rows that are too large; walking through a whole life takes a hundred times as long.
    least = min(memory.charged_overhead_bytes) - limit_bytes
    likely = [row for row in rows if memory.least_bytes(component, row) + least <= 0]
    overhead = np.asarray(memory.charged_overhead_bytes)
    for candidates in filter(None, (likely, rows)):
        phases = [evaluator.component_phases(component, placement, explicit=True) for placement in candidates]
        needed = (np.array(phases) + overhead).max(axis=1)
        if (needed <= limit_bytes).any():
            return tuple(row for row, size in zip(candidates, needed, strict=True) if size <= limit_bytes)
    return tuple(row for row, size in zip(rows, needed, strict=True) if size == needed.min())
