"""Leaving runs out: each is predicted after calibrating on others of its model and card. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.fidelity.case import Case

MOST_FOLDS = 4
"""Larger families are left out in as many parts: each fit replays every other run some hundred times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Runs that are left out, and those that are fitted instead."""

    left_out: tuple[Case, ...]
    fitted: tuple[Case, ...]


def list_folds(cases: Sequence[Case]) -> tuple[Fold, ...]:
    """Every run of every family is left out once; repeats of one configuration are left out together."""
    families: dict[object, dict[object, list[Case]]] = {}
    for case in cases:
        run, setup = case.observation, case.observation.setup
        if run.ran_out:
            continue
        family = families.setdefault((setup.model, setup.variant, setup.device, setup.tp_size), {})
        family.setdefault((setup, case.plan), []).append(case)
    folds: list[Fold] = []
    for configurations in families.values():
        repeats = list(configurations.values())
        count = min(len(repeats), MOST_FOLDS)
        for number in range(count):
            left_out = [case for same in repeats[number::count] for case in same]
            fitted = [case for index, same in enumerate(repeats) if index % count != number for case in same]
            if fitted:
                folds.append(Fold(left_out=tuple(left_out), fitted=tuple(fitted)))
    return tuple(folds)
