"""What each placement of one component costs by itself: the rows from which the exact solver puts plans together.

Components meet in two places only: in the sum of device bytes of a phase, and on the copy engine, when the next
diffusion transformer queues its heads while an earlier component is in use (its *copy ahead*). Everything else about
a component follows from its own placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.evaluate import Evaluator
from autotune.host_states import HostChoices
from autotune.own_use import CopyAhead, Option, copies_ahead, replay_own_uses, replay_use
from runtime.engines.host_rules import held_when_pinned
from runtime.plan import Placement, Plan

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

# Longer than any copy ahead: with the copy engine busy this long a use's times are "backlog plus a constant", and a
# time that depends on a backlog b is max(A, B + b). Comparing it at b = 0 and here therefore compares it everywhere.
# Where copies and compute slow each other down a time may grow with b in other steps, too. That the two ends still
# decide is not proven there; brute force agrees (``tests/property/test_exact_properties.py``).
_LONG_BACKLOG_S = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionTable:
    """Options of one component, one row each: placements with their copies where they wait on the host.

    Attributes:
        options: what each row is.
        own_s: seconds of the component's own uses in a later request while no other component copies. Never more than
            its share of any request: on one copy engine, more copies never make anything earlier.
        ahead: index into ``aheads`` of what the row copies ahead.
        aheads: distinct copies ahead, one per place at which the row queues any; the first is empty.
        phase_bytes: device bytes per phase of life, shape (rows, phases).
        held_bytes: host memory that the row takes and that cannot be dropped.
        changed: settings that differ from the server's defaults.
        traces: times under other components' copies that decide dominance, shape (rows, any); none when nobody copies
            ahead during the component's uses.
    """

    options: tuple[Option, ...]
    own_s: Floats
    ahead: Ints
    aheads: tuple[tuple[CopyAhead, ...], ...]
    phase_bytes: Ints
    held_bytes: Ints
    changed: Ints
    traces: Floats

    def __len__(self) -> int:
        return len(self.options)

    @property
    def component(self) -> int:
        """Index of the component."""
        return self.options[0].component

    def take(self, rows: Rows) -> OptionTable:
        """Only ``rows``, in that order."""
        return OptionTable(
            options=tuple(self.options[row] for row in rows),
            own_s=self.own_s[rows],
            ahead=self.ahead[rows],
            aheads=self.aheads,
            phase_bytes=self.phase_bytes[rows],
            held_bytes=self.held_bytes[rows],
            changed=self.changed[rows],
            traces=self.traces[rows],
        )


def compute_options(evaluator: Evaluator, options: tuple[Option, ...]) -> OptionTable:
    """Rows for ``options`` of one component, given by explicit flags; without traces."""
    numbers: dict[object, int] = {(): 0}
    aheads: list[tuple[CopyAhead, ...]] = [()]
    ahead_of_row, own_s, phases = [], [], []
    for option in options:
        own_s.append(replay_own_uses(evaluator, option))
        phases.append(evaluator.component_phases(option.component, option.placement, explicit=True))
        copied = copies_ahead(evaluator, option)
        key = tuple(part.key for part in copied)
        if key not in numbers:
            numbers[key] = len(aheads)
            aheads.append(copied)
        ahead_of_row.append(numbers[key])
    return OptionTable(
        options=options,
        own_s=np.array(own_s),
        ahead=np.array(ahead_of_row),
        aheads=tuple(aheads),
        phase_bytes=np.array(phases, dtype=np.int64),
        held_bytes=np.array([_held_bytes(evaluator, option) for option in options], dtype=np.int64),
        changed=np.array([changed_settings(evaluator, option.component, option.placement) for option in options]),
        traces=np.zeros((len(options), 0)),
    )


def _held_bytes(evaluator: Evaluator, option: Option) -> int:
    if option.hosting is None:
        return held_when_pinned(evaluator.lifecycle.model.components[option.component], option.placement)
    return option.hosting.held_bytes - sum(stack.courier_bytes for stack in option.hosting.stacks)


def changed_settings(evaluator: Evaluator, component: int, placement: Placement) -> int:
    """Settings of ``placement`` that differ from what the server would choose: the mode, and each knob."""
    default_mode = evaluator.cost_model.facts.model.components[component].default_mode
    return placement.changed_settings + (placement.mode != default_mode)


def count_changes(evaluator: Evaluator, plan: Plan) -> int:
    """Settings of a whole plan that differ from what the server would choose."""
    return sum(changed_settings(evaluator, index, placement) for index, placement in enumerate(plan.placements))


def meets(evaluator: Evaluator, component: int, aheads: Sequence[CopyAhead]) -> bool:
    """Whether any of the component's uses lies between one of ``aheads`` and the use that it is for."""
    return any(ahead.position <= use < ahead.wanted_at for use in _own_uses(evaluator, component) for ahead in aheads)


def with_traces(evaluator: Evaluator, table: OptionTable, aheads: Sequence[CopyAhead]) -> OptionTable:
    """``table`` with each row's times under all that can be on the copy engine during its uses.

    That is: each of ``aheads`` that others queue as one of the uses begins, a long backlog of others, and a long
    backlog before what the row itself copied ahead. Rows that are no better in any of these can never be better in a
    whole plan.
    """
    rows = [
        [
            time_s
            for position in _own_uses(evaluator, table.component)
            for time_s in _trace_use(evaluator, option, position, own, aheads)
        ]
        for option, own in zip(table.options, (table.aheads[number] for number in table.ahead), strict=True)
    ]
    return replace(table, traces=np.array(rows).reshape(len(rows), -1))


def _own_uses(evaluator: Evaluator, component: int) -> list[int]:
    name = evaluator.cost_model.facts.model.components[component].name
    return [position for position, use in enumerate(evaluator.lifecycle.request.uses) if use.component == name]


def _trace_use(
    evaluator: Evaluator,
    option: Option,
    position: int,
    own: tuple[CopyAhead, ...],
    aheads: Sequence[CopyAhead],
) -> list[float]:
    """When the use at ``position`` ends and leaves the copy engine free, case by case."""
    met = [ahead for ahead in aheads if ahead.position == position]
    follows = any(ahead.position < position < ahead.wanted_at for ahead in aheads)
    in_flight = next((part for part in own if part.wanted_at == position), None)
    times: list[float] = []
    for settled in met:
        times += replay_use(evaluator, option, position, met=settled)
    for behind in (None, *met):
        if in_flight is None and not follows:
            times += (0.0, 0.0)  # the use never begins with the copy engine busy
            continue
        times += replay_use(evaluator, option, position, met=behind, in_flight=in_flight, backlog_s=_LONG_BACKLOG_S)
    return times


def find_undominated(table: OptionTable, choices: HostChoices, slack_s: float = 0.0, slack_bytes: int = 0) -> Rows:
    """The placements that no other one beats or equals in everything that a whole plan can feel, in any state.

    A placement can replace another only if it leaves the host as much memory: the others then pin as much. Order of the
    survivors: by own time in the first state, then by settings changed, then by bytes; the other way round where a
    placement that is slower by up to ``slack_s``, or needs up to ``slack_bytes`` more, may replace another.
    """
    option = choices.option
    first = option[0]
    timed = [table.own_s[option].T, *(table.traces[rows] for rows in option)]
    others = [
        table.phase_bytes[first],
        table.held_bytes[option].T,
        *(-left for left in choices.left_bytes),
        ~choices.is_resident[:, None],
        table.changed[first][:, None],
    ]
    times, bytes_and_more = _distinct_columns(np.column_stack(timed)), _distinct_columns(np.column_stack(others))
    columns = np.column_stack([times, bytes_and_more])
    keys = [table.phase_bytes[first].max(axis=1), table.changed[first], times[:, 0]]
    if not slack_s:
        keys = [times[:, 0], table.changed[first], *bytes_and_more.T]
    slack = np.where(np.arange(columns.shape[1]) < times.shape[1], slack_s, float(slack_bytes))
    order = np.lexsort(keys[::-1])
    no_more = _copies_no_more(table.aheads)
    aheads = table.ahead[option].T
    kept_rows: list[int] = []
    kept = np.empty((len(order), columns.shape[1]))
    kept_ahead = np.empty((len(order), len(option)), dtype=np.int64)
    for row in order:
        count = len(kept_rows)
        no_worse = (kept[:count] <= columns[row] + slack).all(axis=1)
        if (no_worse & no_more[kept_ahead[:count], aheads[row]].all(axis=1)).any():
            continue
        kept[count], kept_ahead[count] = columns[row], aheads[row]
        kept_rows.append(int(row))
    return np.array(kept_rows, dtype=np.intp)


def _distinct_columns(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """``values`` without repeated columns."""
    return values[:, np.sort(np.unique(values, axis=1, return_index=True)[1])]


def _copies_no_more(aheads: tuple[tuple[CopyAhead, ...], ...]) -> npt.NDArray[np.bool_]:
    """Entry ``[one, other]``: whether all that ``one`` queues is a part of what ``other`` queues at the same place."""
    return np.array(
        [[all(any(part.is_part_of(whole) for whole in other) for part in one) for other in aheads] for one in aheads]
    )
