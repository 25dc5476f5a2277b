"""Runs of one set-up that differ in placements: which of them to fit, and what differs between the others. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from autotune.fidelity.case import Case
from autotune.fidelity.comparison import ComparedFigure
from autotune.fidelity.prior import REPEAT_RATIO
from runtime.residency import Mode

TIE_RATIO = 1.5 * REPEAT_RATIO
"""Times closer than this share are the same: the spread of the difference of two runs that repeat within 2 %."""

SIZE_FACTOR = 2.0
"""A difference has the right size when it is predicted within this factor."""


class Verdict(StrEnum):
    """How a predicted difference compares with the observed one."""

    RIGHT = "right"
    WRONG_SIZE = "wrong size"
    WRONG_DIRECTION = "wrong direction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much longer one run took than another of its set-up.

    Attributes:
        run, other: their names.
        what: the part of the request.
        other_s: what the other took, which differences are shares of.
        observed_s: observed difference.
        predicted_s: predicted difference, before calibrating.
        calibrated_s: the same after calibrating on the group's fitted runs.
        reasons: why it may be off; none where it is right.
    """

    run: str
    other: str
    what: str
    other_s: float
    observed_s: float
    predicted_s: float
    calibrated_s: float
    reasons: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Of the calibrated prediction; differences within ``TIE_RATIO`` are none."""
        return judge_difference(self.observed_s, self.calibrated_s, self.other_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Runs of one set-up, some of which were fitted.

    Attributes:
        title: set-up and figures, in words.
        placements: run -> what sets it apart from the others.
        fitted_on: names of the runs that were fitted.
        figures: those of the other runs; their ``calibrated`` rests on ``fitted_on``.
        differences: of the other runs to every fitted one.
    """

    title: str
    placements: dict[str, str]
    fitted_on: tuple[str, ...]
    figures: tuple[ComparedFigure, ...]
    differences: tuple[Difference, ...]


def judge_difference(observed_s: float, predicted_s: float, base_s: float) -> Verdict:
    """How a predicted difference between two runs compares with the observed one; ``base_s`` is the time of one."""
    observed, predicted = observed_s / base_s, predicted_s / base_s
    if abs(observed) <= TIE_RATIO or abs(predicted) <= TIE_RATIO:
        is_near = abs(observed - predicted) <= TIE_RATIO
        return Verdict.RIGHT if is_near else Verdict.WRONG_SIZE
    if observed * predicted < 0:
        return Verdict.WRONG_DIRECTION
    return Verdict.RIGHT if 1 / SIZE_FACTOR <= predicted / observed <= SIZE_FACTOR else Verdict.WRONG_SIZE


def find_groups(cases: Sequence[Case]) -> tuple[tuple[Case, ...], ...]:
    """Runs of one set-up of which the same was observed, where at least two placements differ."""
    found: dict[object, list[Case]] = {}
    for case in cases:
        run = case.observation
        if run.ran_out:
            continue
        parts = tuple((latency.scope, latency.component) for latency in run.latencies)
        found.setdefault((run.setup, parts, run.peak is not None), []).append(case)
    return tuple(tuple(group) for group in found.values() if len({case.plan for case in group}) > 1)


def choose_fitted(group: Sequence[Case]) -> tuple[Case, ...]:
    """The runs of ``group`` to calibrate on: with the least and with the most weights that stay on the card.

    The first of two placements alone; of more both ends, one of each. Among equals the smaller prefetch size wins, and
    components that are moved whole are left to be predicted as long as others are there.
    """
    usable = [case for case in group if not _moves_whole(case)]
    if len({case.plan for case in usable}) < 2:
        usable = list(group)
    ranked = sorted(usable, key=lambda case: (_staying_bytes(case), _prefetch(case)))
    least = ranked[0]
    if len({case.plan for case in group}) == 2:
        return (least,)
    most = min(
        (case for case in ranked if _staying_bytes(case) == _staying_bytes(ranked[-1])),
        key=lambda case: (case.plan == least.plan, _prefetch(case)),
    )
    return (least, most)


def describe_placement(case: Case, others: Sequence[Case]) -> str:
    """What sets the placements of ``case`` apart from those of ``others``."""
    parts = []
    for placement in case.plan.placements:
        if any(other.plan.placement(placement.component) != placement for other in others):
            parts.append(f"{placement.component} {placement.describe()}")
    return ", ".join(parts) or "the same"


def _moves_whole(case: Case) -> bool:
    names = set(case.components)
    return any(
        placement.mode is Mode.COMPONENT_OFFLOAD
        for placement in case.plan.placements
        if not names or placement.component in names
    )


def _staying_bytes(case: Case) -> int:
    """Weights that stay on the card while their component is in use."""
    total = 0
    for component in case.ground.facts.model.components:
        placement = case.plan.placement(component.name)
        if placement.mode is Mode.RESIDENT:
            total += component.run_bytes
        elif placement.mode is Mode.LAYERWISE_OFFLOAD:
            for stack in component.stacks:
                streamed = set(placement.streamed_layers(len(stack.layers)))
                total += sum(layer.run_bytes for index, layer in enumerate(stack.layers) if index not in streamed)
    return total


def _prefetch(case: Case) -> int:
    return sum(placement.prefetch for placement in case.plan.placements)
