"""What the exact solver needs to know about host memory: which copies of a component are pinned depends on the others.

The engine hosts components in a fixed order, and each finds what those before it left: a *state*. For every component
this module lists the states in which it can begin, and for every state and placement the option that results (the
placement with its copies where they then wait) and the state that it leaves.

States are rounded: what is left of the host's memory is cut to multiples of a step between components, and figures that
make no difference to the components that follow are made equal, so that the number of states stays small. The solver
may so think that a little less is pinned than the server will pin; what it chooses is replayed without rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from autotune.evaluate import Evaluator
from autotune.own_use import Option
from runtime.engines.host_rules import HostRule
from runtime.hosting import PinBudget
from runtime.plan import Placement
from runtime.residency import Mode

Indices = npt.NDArray[np.intp]

# Each step multiplies the options to be predicted; the solver refines its answer with true states afterwards.
_STEPS = 32
_AMPLE_BYTES = 2**50


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChoices:
    """One component in every state of the host.

    Attributes:
        component: its index.
        options: distinct combinations of a placement and where its copies wait.
        option: index into ``options``, shape (states, placements).
        next_state: state in which the next component begins, same shape.
        left_bytes: memory that may still be pinned and committed in that state, shape (states, placements, 2).
        is_resident: per placement, whether nothing of it is on the host: that changes what all others find.
    """

    component: int
    options: tuple[Option, ...]
    option: Indices
    next_state: Indices
    left_bytes: npt.NDArray[np.int64]
    is_resident: npt.NDArray[np.bool_]

    def take(self, rows: Indices) -> HostChoices:
        """Only the placements in ``rows``, in that order."""
        return HostChoices(
            component=self.component,
            options=self.options,
            option=self.option[:, rows],
            next_state=self.next_state[:, rows],
            left_bytes=self.left_bytes[:, rows],
            is_resident=self.is_resident[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGraph:
    """All components, in the order in which they are hosted.

    Attributes:
        choices: one per component, in that order.
        start: first state for every combination of resident components, one axis of length 2 per component of the
            model; the index is 1 where the component is resident.
    """

    choices: tuple[HostChoices, ...]
    start: Indices


def build_graph(evaluator: Evaluator, placements: Sequence[Sequence[Placement]]) -> HostGraph:
    """The states of the host under all ``placements``, given per component of the model."""
    if evaluator.always_pins:
        return _build_indifferent(evaluator, placements)
    rule = evaluator.host_rule
    order = rule.order
    counts = len(placements)
    readings = _States(rule, evaluator, order)
    start = np.zeros((2,) * counts, dtype=np.intp)
    possible = [{int(placement.mode is Mode.RESIDENT) for placement in rows} for rows in placements]
    for mask in product(*possible):
        start[mask] = readings.number(rule.start([not resident for resident in mask]))
    choices = []
    for position, component in enumerate(order):
        following = order[position + 1 :]
        later = _States(rule, evaluator, following) if following else None
        choices.append(_choose(rule, component, placements[component], readings, later))
        if later is not None:
            readings = later
    return HostGraph(choices=tuple(choices), start=start)


def _build_indifferent(evaluator: Evaluator, placements: Sequence[Sequence[Placement]]) -> HostGraph:
    """One state: every layer is pinned under any plan."""
    choices = tuple(
        HostChoices(
            component=component,
            options=tuple(Option(component=component, placement=placement) for placement in rows),
            option=np.arange(len(rows))[None, :],
            next_state=np.zeros((1, len(rows)), dtype=np.intp),
            left_bytes=np.zeros((1, len(rows), 2), dtype=np.int64),
            is_resident=np.zeros(len(rows), dtype=np.bool_),
        )
        for component, rows in enumerate(placements)
    )
    return HostGraph(choices=choices, start=np.zeros((1,) * len(choices), dtype=np.intp))


class _States:
    """Distinct readings with which one component can begin."""

    def __init__(self, rule: HostRule, evaluator: Evaluator, remaining: Sequence[int]) -> None:
        self.readings: list[PinBudget] = []
        self._numbers: dict[PinBudget, int] = {}
        self._pins = rule.memory.pins
        self._step = max(rule.memory.available_bytes // _STEPS, 1)
        components = evaluator.lifecycle.model.components
        layers = [layer for index in remaining for stack in components[index].stacks for layer in stack.layers]
        self._run_bytes = sum(layer.run_bytes for layer in layers)
        self._smallest_bytes = min((layer.run_bytes for layer in layers), default=0)
        self._view_bytes = sum(layer.view_bytes for layer in layers)
        self._smallest_view_bytes = min((layer.view_bytes for layer in layers if layer.view_bytes), default=0)

    def number(self, reading: PinBudget) -> int:
        """The state of ``reading``, a new one if it has none yet."""
        rounded = self._round(reading)
        if rounded not in self._numbers:
            self._numbers[rounded] = len(self.readings)
            self.readings.append(rounded)
        return self._numbers[rounded]

    def _round(self, reading: PinBudget) -> PinBudget:
        spendable, available = reading.spendable_bytes, reading.available_bytes
        if self._pins and spendable >= self._run_bytes:
            return PinBudget(spendable_bytes=self._run_bytes, available_bytes=_AMPLE_BYTES)
        spendable = 0 if spendable < self._smallest_bytes or not self._pins else self._cut(spendable)
        if not reading.would_not_fit(self._view_bytes):
            available = _AMPLE_BYTES
        elif not spendable and reading.would_not_fit(self._smallest_view_bytes):
            available = 0
        else:
            available = self._cut(available)
        return PinBudget(spendable_bytes=spendable, available_bytes=available)

    def _cut(self, size_bytes: int) -> int:
        return size_bytes // self._step * self._step


def _choose(
    rule: HostRule, component: int, placements: Sequence[Placement], states: _States, later: _States | None
) -> HostChoices:
    numbers: dict[Option, int] = {}
    rows = [list(_host_rows(rule, component, placements, reading, numbers, later)) for reading in list(states.readings)]
    table = np.array(rows, dtype=np.intp)
    left = [(reading.spendable_bytes, reading.available_bytes) for reading in later.readings] if later else [(0, 0)]
    return HostChoices(
        component=component,
        options=tuple(numbers),
        option=table[:, :, 0],
        next_state=table[:, :, 1],
        left_bytes=np.array(left, dtype=np.int64)[table[:, :, 1]],
        is_resident=np.array([placement.mode is Mode.RESIDENT for placement in placements]),
    )


def _host_rows(
    rule: HostRule,
    component: int,
    placements: Iterable[Placement],
    reading: PinBudget,
    numbers: dict[Option, int],
    later: _States | None,
) -> Iterator[tuple[int, int]]:
    """Per placement its option and the state that it leaves."""
    for placement in placements:
        hosting, left = rule.host(component, placement, reading)
        option = Option(component=component, placement=placement, hosting=hosting)
        yield numbers.setdefault(option, len(numbers)), later.number(left) if later is not None else 0
