"""What each placement of one component costs by itself: the rows from which the exact solver puts plans together.

Components meet in two places only: in the sum of device bytes of a phase, and on the copy engine, when the next diffusion
transformer queues its heads while an earlier component is in use (its *copy ahead*). Everything else about a component
follows from its own placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.evaluate import Evaluator
from autotune.replay_core import Clock, run_segment
from runtime.plan import Placement
from runtime.program import Block

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

# Longer than any copy ahead: with the copy engine busy this long a use's times are "backlog plus a constant", and a time
# that depends on a backlog b is max(A, B + b). Comparing it at b = 0 and here therefore compares it everywhere.
_LONG_BACKLOG_S = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAhead:
    """What one component queues while the use at ``position`` begins, for its own use at ``wanted_at``."""

    position: int
    wanted_at: int
    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionTable:
    """Placements of one component, one row each.

    Attributes:
        component: index of the component.
        placements: what each row places.
        own_s: seconds of the component's own uses in a later request while no other component copies. Never more than
            its share of any request: on one copy engine, more copies never make anything earlier.
        ahead: index into ``aheads`` of what the row copies ahead.
        aheads: distinct copies ahead; the first is None, for nothing.
        phase_bytes: device bytes per phase of life, shape (rows, phases).
        changed: settings that differ from the server's defaults.
        traces: times under other components' copies that decide dominance, shape (rows, any); none when nobody copies
            ahead during the component's uses.
    """

    component: int
    placements: tuple[Placement, ...]
    own_s: Floats
    ahead: Ints
    aheads: tuple[CopyAhead | None, ...]
    phase_bytes: Ints
    changed: Ints
    traces: Floats

    def __len__(self) -> int:
        return len(self.placements)

    def take(self, rows: Rows) -> OptionTable:
        """Only ``rows``, in that order."""
        return OptionTable(
            component=self.component,
            placements=tuple(self.placements[row] for row in rows),
            own_s=self.own_s[rows],
            ahead=self.ahead[rows],
            aheads=self.aheads,
            phase_bytes=self.phase_bytes[rows],
            changed=self.changed[rows],
            traces=self.traces[rows],
        )


def compute_options(evaluator: Evaluator, component: int, placements: tuple[Placement, ...]) -> OptionTable:
    """Rows for ``placements`` of the component with index ``component``, given by explicit flags; without traces."""
    keys: dict[tuple[int, tuple[int, ...]] | None, int] = {None: 0}
    aheads: list[CopyAhead | None] = [None]
    ahead_of_row, own_s, phases = [], [], []
    for placement in placements:
        own_s.append(replay_own_uses(evaluator, component, placement).total_s)
        phases.append(evaluator.component_phases(component, placement, explicit=True))
        copied = copy_ahead(evaluator, component, placement)
        key = None if copied is None else (copied.position, tuple(copied.block.moves))
        if key not in keys:
            keys[key] = len(aheads)
            aheads.append(copied)
        ahead_of_row.append(keys[key])
    return OptionTable(
        component=component,
        placements=placements,
        own_s=np.array(own_s),
        ahead=np.array(ahead_of_row),
        aheads=tuple(aheads),
        phase_bytes=np.array(phases, dtype=np.int64),
        changed=np.array([changed_settings(evaluator, component, placement) for placement in placements]),
        traces=np.zeros((len(placements), 0)),
    )


def changed_settings(evaluator: Evaluator, component: int, placement: Placement) -> int:
    """Settings of ``placement`` that differ from what the server would choose: the mode, and each knob."""
    default_mode = evaluator.cost_model.facts.model.components[component].default_mode
    return placement.changed_settings + (placement.mode != default_mode)


def copy_ahead(evaluator: Evaluator, component: int, placement: Placement) -> CopyAhead | None:
    """What the component copies while an earlier one is in use in a later request."""
    script = evaluator.lifecycle.script(component, placement, explicit=True).requests[-1]
    for position, block in script.ahead.items():
        wanted_at = min(own for own in script.begin if own > position)
        return CopyAhead(position=position, wanted_at=wanted_at, block=block)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTimes:
    """Own uses of one component: their total length, and per use its length and when the copy engine was free."""

    total_s: float
    use_s: tuple[float, ...]
    copy_free_s: tuple[float, ...]


def replay_own_uses(
    evaluator: Evaluator,
    component: int,
    placement: Placement,
    *,
    ahead: CopyAhead | None = None,
    backlog_s: float = 0.0,
    positions: Sequence[int] | None = None,
) -> OwnTimes:
    """Replay the component's own uses of a later request, each begun with none of its copies in flight.

    Args:
        ahead: what another component queues at the beginning of one of these uses.
        backlog_s: how long the copy engine is still busy for others when each use begins.
        positions: only the uses at these positions; all of them, and moves after other uses, when None.
    """
    lifecycle = evaluator.lifecycle
    script = lifecycle.script(component, placement, explicit=True).requests[-1]
    clock = Clock(evaluator.cost_model.costs_of_one(component, placement))
    use_s, copy_free_s = [], []
    for position, begin in script.begin.items():
        if positions is not None and position not in positions:
            continue
        clock.settle()
        clock.copy_free_s = backlog_s
        clock.run(begin.timed)
        if ahead is not None and ahead.position == position:
            clock.run(ahead.block.timed)
        clock.run(lifecycle.mark(position).timed)
        for segment in script.visits[position]:
            run_segment(clock, segment)
        use_s.append(clock.compute_free_s)
        copy_free_s.append(clock.copy_free_s)
    for block in script.after.values() if positions is None else ():
        clock.settle()
        clock.run(block.timed)
        use_s.append(clock.compute_free_s)
        copy_free_s.append(clock.copy_free_s)
    return OwnTimes(total_s=sum(use_s), use_s=tuple(use_s), copy_free_s=tuple(copy_free_s))


def with_traces(evaluator: Evaluator, table: OptionTable, aheads: tuple[CopyAhead, ...]) -> OptionTable:
    """``table`` with the times of each row under every copy ahead that meets one of its uses, and behind a long backlog.

    Rows that are no better in any of these can never be better in a whole plan. Components that are not used between a
    copy ahead and the use that it is for need none.
    """
    uses = evaluator.lifecycle.request.uses
    name = evaluator.cost_model.facts.model.components[table.component].name
    positions = [
        position
        for position, use in enumerate(uses)
        if use.component == name and any(ahead.position <= position < ahead.wanted_at for ahead in aheads)
    ]
    if not positions:
        return table
    cases: list[tuple[CopyAhead | None, float]] = [(None, _LONG_BACKLOG_S)]
    cases += [(ahead, 0.0) for ahead in aheads if ahead.position in positions]
    rows = []
    for placement in table.placements:
        times: list[float] = []
        for ahead, backlog_s in cases:
            own = replay_own_uses(
                evaluator, table.component, placement, ahead=ahead, backlog_s=backlog_s, positions=positions
            )
            times += [*own.use_s, *own.copy_free_s]
        rows.append(times)
    return replace(table, traces=np.array(rows))


def drop_dominated(table: OptionTable) -> OptionTable:
    """Keep the rows that no other row beats or equals in everything that a whole plan can feel.

    Order of the survivors: by own time, then by settings changed, then by bytes.
    """
    columns = np.column_stack([table.own_s, table.changed, table.phase_bytes, table.traces])
    columns = columns[:, np.sort(np.unique(columns, axis=1, return_index=True)[1])]
    order = np.lexsort(columns.T[::-1])
    no_more = _copies_no_more(table.aheads)
    kept_rows: list[int] = []
    kept = np.empty((len(order), columns.shape[1]))
    kept_ahead = np.empty(len(order), dtype=np.int64)
    for row in order:
        count = len(kept_rows)
        no_worse = (kept[:count] <= columns[row]).all(axis=1)
        if (no_worse & no_more[kept_ahead[:count], table.ahead[row]]).any():
            continue
        kept[count], kept_ahead[count] = columns[row], table.ahead[row]
        kept_rows.append(int(row))
    return table.take(np.array(kept_rows, dtype=np.intp))


def _copies_no_more(aheads: tuple[CopyAhead | None, ...]) -> npt.NDArray[np.bool_]:
    """Entry ``[one, other]``: whether ``one`` queues a part of what ``other`` queues, at the same place."""
    matrix = np.zeros((len(aheads), len(aheads)), dtype=np.bool_)
    for row, one in enumerate(aheads):
        for column, other in enumerate(aheads):
            matrix[row, column] = one is None or (
                other is not None and one.position == other.position and set(one.block.moves) <= set(other.block.moves)
            )
    return matrix
