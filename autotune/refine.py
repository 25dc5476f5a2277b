"""Improves a plan by its neighbours: what the exact solver does where its arrays are only nearly right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from autotune.evaluate import Evaluator, Score
from autotune.options import count_changes
from runtime.plan import Placement, Plan

Rank = Callable[[Score], tuple[float, ...]]
"""What is to be made small, the most important first."""

# Neighbours differ by so many resident layers; from the best of rounded states a few rounds reach the top.
_NEAR_LAYERS = 2
_MOST_ROUNDS = 12


class Climber:
    """Moves plans to better neighbours under one cap."""

    def __init__(self, evaluator: Evaluator, placements: Sequence[Sequence[Placement]], cap_bytes: int) -> None:
        """``placements`` are those of the search space, per component."""
        self._evaluator = evaluator
        self._placements = placements
        self._cap_bytes = cap_bytes

    def climb(self, plan: Plan, rank: Rank) -> Plan:
        """``plan``, moved until no neighbour that fits is better; fewer changed settings decide between equals."""
        best, best_key = plan, self.key(plan, rank)
        for _ in range(_MOST_ROUNDS):
            found = [other for other in self._neighbours(best) if self._fits(other)]
            candidate = min(found, key=lambda other: self.key(other, rank), default=best)
            candidate_key = self.key(candidate, rank)
            if candidate_key >= best_key:
                break
            best, best_key = candidate, candidate_key
        return best

    def key(self, plan: Plan, rank: Rank) -> tuple[float, ...]:
        """``rank`` of the plan's score, then the settings that it changes."""
        return (*rank(self._evaluator.score(plan)), count_changes(self._evaluator, plan))

    def _fits(self, plan: Plan) -> bool:
        if self._evaluator.charged_bytes(plan) > self._cap_bytes:
            return False
        return self._evaluator.never_runs_short or not self._evaluator.hosting_of(plan).short_bytes

    def _neighbours(self, plan: Plan) -> Iterator[Plan]:
        """Plans of the space that differ in one setting of one component, counts by little."""
        for index, placement in enumerate(plan.placements):
            for other in self._placements[index]:
                if _is_near(placement, other):
                    yield replace(plan, placements=(*plan.placements[:index], other, *plan.placements[index + 1 :]))


def _is_near(placement: Placement, other: Placement) -> bool:
    if other.mode is not placement.mode:
        return other.resident == 0 and other.prefetch == 1
    layers, ahead = abs(other.resident - placement.resident), abs(other.prefetch - placement.prefetch)
    return other != placement and layers <= _NEAR_LAYERS and ahead <= 1 and not (layers and ahead)
