"""Steps, forwards and passes of the component that denoises. Pure."""

from __future__ import annotations

from dataclasses import replace

from autotune.export.component_groups import is_dit
from autotune.model_facts import ModelFacts
from runtime.errors import InputError
from runtime.model_spec import PassGroup, UseSpec


def find_denoisers(facts: ModelFacts) -> tuple[str, ...]:
    """The components that run in every step: diffusion transformers, by their names.

    Raises:
        InputError: the model has none.
    """
    found = tuple(dict.fromkeys(use.component for use in facts.request.uses if is_dit(use.component)))
    if not found:
        raise InputError(f"{facts.model.name} has no component that denoises")
    return found


def _main_group(use: UseSpec) -> PassGroup:
    return max(use.groups, key=lambda group: group.passes)


def count_denoiser_passes(facts: ModelFacts) -> int:
    """Passes of the denoisers in a request: forwards of all steps."""
    names = find_denoisers(facts)
    return sum(_main_group(use).passes for use in facts.request.uses if use.component in names and use.groups)


def forwards_per_step(facts: ModelFacts) -> int:
    """Forwards of the denoiser in one step; 50 sigma points of a flow model make 49 steps or 50."""
    return max(1, round(count_denoiser_passes(facts) / facts.workload.steps))


def with_forwards(facts: ModelFacts, forwards: int) -> ModelFacts:
    """``facts`` of a request whose steps make ``forwards`` forwards, such as one without guidance.

    Raises:
        InputError: fewer than one.
    """
    own = forwards_per_step(facts)
    if forwards < 1:
        raise InputError(f"{forwards} forwards per step: at least one is made")
    if forwards == own:
        return facts
    names = find_denoisers(facts)

    def change(use: UseSpec) -> UseSpec:
        if use.component not in names or not use.groups:
            return use
        main = _main_group(use)
        groups = tuple(
            replace(group, passes=group.passes // own * forwards) if group is main else group for group in use.groups
        )
        return replace(use, groups=groups)

    note = f"{forwards} forward{'s' if forwards > 1 else ''} of {' and '.join(names)} a step instead of {own}"
    request = replace(facts.request, uses=tuple(map(change, facts.request.uses)))
    return replace(facts, request=request, notes=(*facts.notes, note))
