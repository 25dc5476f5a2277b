"""The search space in Optuna's terms: which parameters a plan has, and back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from autotune.neighbours import draw_neighbour
from autotune.space import SearchSpace
from runtime.errors import InputError
from runtime.model_spec import ComponentSpec, ModelSpec
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy


class Suggester(Protocol):
    """The part of an Optuna trial that is used here."""

    def suggest_int(self, name: str, low: int, high: int, *, log: bool) -> int:
        """A whole number between ``low`` and ``high``, both included."""
        ...

    def suggest_categorical(self, name: str, choices: tuple[str, ...]) -> object:
        """One of ``choices``."""
        ...


class StudySpace:
    """Parameters of one model's plans.

    Per component: ``<name>.mode``, ``.prefetch``, ``.resident_plus_1``, ``.policy`` and ``.lifetime``, asked for in
    every trial whatever the mode, so that samplers see one fixed space; the two counts are on a logarithmic scale,
    because under a tight cap only small ones fit (without either, 300 cold TPE trials for a model near its floor find
    nothing).
    A parameter with one possible value is fixed, not suggested. Plans that behave alike are one plan (``fold``).
    """

    def __init__(self, model: ModelSpec, space: SearchSpace, engine: str) -> None:
        self._model = model
        self._space = space
        self._engine = engine
        self.size = space.size(model)

    def suggest(self, trial: Suggester) -> Plan:
        """Ask ``trial`` for every parameter and return the folded plan."""
        placements = [self._suggest_component(trial, component) for component in self._model.components]
        return Plan(engine=self._engine, placements=tuple(placements))

    def fold(self, plan: Plan) -> Plan:
        """``plan`` with every placement folded, and with all that is fixed.

        Raises:
            InputError: the plan was made for another model, or lies outside the space.
        """
        plan.check_fits_model(self._model)
        placements = []
        for component in self._model.components:
            placement = self._space.settle(plan.placement(component.name), component)
            if placement not in self._space.placements(component):
                raise InputError(f"{component.name}: {placement.describe()} lies outside the searched space")
            placements.append(placement)
        return Plan(engine=self._engine, placements=tuple(placements))

    def draw_neighbour(self, plan: Plan, rng: random.Random, is_known: Callable[[Plan], bool]) -> Plan | None:
        """A plan near ``plan`` that is not known yet; None when none is found."""
        return draw_neighbour(self._model, self._space, plan, rng, is_known)

    def to_params(self, plan: Plan) -> dict[str, Any]:
        """The parameters that would have suggested ``plan``."""
        params: dict[str, Any] = {}
        for component in self._model.components:
            placement = plan.placement(component.name)
            values: dict[str, Any] = {
                "mode": str(placement.mode),
                "prefetch": placement.prefetch,
                "resident_plus_1": placement.resident + 1,
                "policy": str(placement.policy),
                "lifetime": str(placement.lifetime),
            }
            for knob, choices in self._choices(component).items():
                if len(choices) > 1:
                    params[f"{component.name}.{knob}"] = values[knob]
        return params

    def distributions(self, params: dict[str, Any]) -> dict[str, BaseDistribution]:
        """Optuna's distribution of each parameter in ``params``."""
        found: dict[str, BaseDistribution] = {}
        for component in self._model.components:
            for knob, choices in self._choices(component).items():
                name = f"{component.name}.{knob}"
                if name not in params:
                    continue
                if isinstance(choices, range):
                    found[name] = IntDistribution(choices[0], choices[-1], log=True)
                else:
                    found[name] = CategoricalDistribution(choices)
        return found

    def grid(self) -> dict[str, list[Any]]:
        """Every parameter with all its values."""
        return {
            f"{component.name}.{knob}": list(choices)
            for component in self._model.components
            for knob, choices in self._choices(component).items()
            if len(choices) > 1
        }

    @property
    def grid_size(self) -> int:
        """Points of the full grid, those that fold together counted apart."""
        points = 1
        for values in self.grid().values():
            points *= len(values)
        return points

    def describe(self) -> dict[str, list[str]]:
        """The space as plain values, for the study's key; what is fixed has no parameter and stands apart."""
        found = {name: [str(value) for value in values] for name, values in self.grid().items()}
        return found | {f"{fixed.component} fixed": [repr(fixed)] for fixed in self._space.fixed}

    def _suggest_component(self, trial: Suggester, component: ComponentSpec) -> Placement:
        choices = self._choices(component)

        def pick(knob: str) -> object:
            values = choices[knob]
            if len(values) == 1:
                return values[0]
            name = f"{component.name}.{knob}"
            if isinstance(values, range):
                return trial.suggest_int(name, values[0], values[-1], log=True)
            return trial.suggest_categorical(name, values)

        picked: dict[str, Any] = {knob: pick(knob) for knob in choices}
        mode = Mode(picked["mode"])
        if mode is not Mode.LAYERWISE_OFFLOAD:
            return Placement(component=component.name, mode=mode)
        placement = Placement(
            component=component.name,
            mode=mode,
            prefetch=picked["prefetch"],
            resident=picked["resident_plus_1"] - 1,
            policy=Policy(picked["policy"]),
            lifetime=Lifetime(picked["lifetime"]),
        )
        return self._space.settle(placement, component)

    def _choices(self, component: ComponentSpec) -> dict[str, range | tuple[str, ...]]:
        modes = tuple(str(mode) for mode in self._space.modes_of(component))
        if str(Mode.LAYERWISE_OFFLOAD) not in modes:
            return {"mode": modes}
        knobs = self._space.knobs_of(component)
        return {
            "mode": modes,
            "prefetch": knobs.prefetch,
            "resident_plus_1": range(knobs.resident.start + 1, knobs.resident.stop + 1),
            "policy": tuple(str(policy) for policy in knobs.policy),
            "lifetime": tuple(str(lifetime) for lifetime in knobs.lifetime),
        }
