"""The space that is searched: for every component, the placements worth telling apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from runtime.errors import InputError
from runtime.model_spec import ComponentSpec, ModelSpec
from runtime.plan import Placement
from runtime.residency import Lifetime, Mode, Policy

DEFAULT_MAX_PREFETCH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSettings:
    """Settings of one component that the search leaves as they are; None where it is free.

    The knobs hold where the component streams; they do not say that it does.
    """

    component: str
    mode: Mode | None = None
    prefetch: int | None = None
    resident: int | None = None
    policy: Policy | None = None
    lifetime: Lifetime | None = None

    @property
    def knobs(self) -> dict[str, Any]:
        """The fixed ones of the knobs."""
        values = {name: getattr(self, name) for name in ("prefetch", "resident", "policy", "lifetime")}
        return {name: value for name, value in values.items() if value is not None}

    def describe(self) -> str:
        """All of them in one line, for people."""
        values = ({} if self.mode is None else {"mode": self.mode}) | self.knobs
        return ", ".join(f"{self.component}.{name}={value}" for name, value in values.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Values of each knob."""

    prefetch: range
    resident: range
    policy: tuple[Policy, ...]
    lifetime: tuple[Lifetime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """Limits of the search.

    Attributes:
        max_prefetch: largest prefetch size tried, clamped to each component's longest stack.
        modes: modes tried, in the order in which ties are broken.
        fixed: what is not searched, at most one entry per component; it may lie outside the other limits.
    """

    max_prefetch: int = DEFAULT_MAX_PREFETCH
    modes: tuple[Mode, ...] = (Mode.RESIDENT, Mode.LAYERWISE_OFFLOAD, Mode.COMPONENT_OFFLOAD)
    fixed: tuple[FixedSettings, ...] = ()

    def __post_init__(self) -> None:
        if self.max_prefetch < 1:
            raise InputError(f"--max-prefetch is {self.max_prefetch}: at least one layer is always fetched ahead")

    def placements(self, component: ComponentSpec) -> tuple[Placement, ...]:
        """Every placement of ``component`` that can differ from the others."""
        found: list[Placement] = []
        for mode in self.modes_of(component):
            if mode is Mode.LAYERWISE_OFFLOAD:
                found += self._streamed(component)
            else:
                found.append(Placement(component=component.name, mode=mode))
        return tuple(found)

    def modes_of(self, component: ComponentSpec) -> tuple[Mode, ...]:
        """Modes that ``component`` can have: it streams only where it has layers."""
        fixed = self._fixed(component).mode
        if fixed is not None:
            return (fixed,)
        return tuple(mode for mode in self.modes if component.max_layers or mode is not Mode.LAYERWISE_OFFLOAD)

    def knobs_of(self, component: ComponentSpec) -> Knobs:
        """Values that each knob of ``component`` can have where it streams, in order."""
        fixed, longest = self._fixed(component), component.max_layers
        return Knobs(
            prefetch=_range(fixed.prefetch, 1, min(longest, self.max_prefetch)),
            resident=_range(fixed.resident, 0, longest),
            policy=tuple(Policy) if fixed.policy is None else (fixed.policy,),
            lifetime=tuple(Lifetime) if fixed.lifetime is None else (fixed.lifetime,),
        )

    def settle(self, placement: Placement, component: ComponentSpec) -> Placement:
        """The plainest placement that behaves like ``placement`` and has all that is fixed.

        One whose mode is fixed to another gets that mode, with plain knobs.
        """
        fixed = self._fixed(component)
        if fixed.mode is not None and placement.mode is not fixed.mode:
            placement = Placement(component=component.name, mode=fixed.mode)
        return _settle_knobs(placement, component, fixed.knobs)

    def size(self, model: ModelSpec) -> int:
        """Plans in the space."""
        product = 1
        for component in model.components:
            product *= len(self.placements(component))
        return product

    def _fixed(self, component: ComponentSpec) -> FixedSettings:
        for settings in self.fixed:
            if settings.component == component.name:
                return settings
        return FixedSettings(component=component.name)

    def _streamed(self, component: ComponentSpec) -> Iterator[Placement]:
        knobs, fixed = self.knobs_of(component), self._fixed(component).knobs
        for resident in knobs.resident:
            for prefetch in knobs.prefetch:
                for policy in knobs.policy:
                    for lifetime in knobs.lifetime:
                        placement = Placement(
                            component=component.name,
                            mode=Mode.LAYERWISE_OFFLOAD,
                            prefetch=prefetch,
                            resident=resident,
                            policy=policy,
                            lifetime=lifetime,
                        )
                        if _settle_knobs(placement, component, fixed) == placement:
                            yield placement


def _settle_knobs(placement: Placement, component: ComponentSpec, fixed: dict[str, Any]) -> Placement:
    if placement.mode is not Mode.LAYERWISE_OFFLOAD or not fixed:
        return fold(placement, component)
    # Fixed knobs decide what the free ones still mean, and stay where folding would make them plain.
    return replace(fold(replace(placement, **fixed), component), **fixed)


def _range(fixed: int | None, low: int, high: int) -> range:
    return range(low, high + 1) if fixed is None else range(fixed, fixed + 1)


def fold(placement: Placement, component: ComponentSpec) -> Placement:
    """The plainest placement that behaves like ``placement``.

    The policies coincide when every layer of every stack stays, or when none stays and one layer is fetched ahead; the
    lifetimes when none stays. With all layers resident nothing is fetched ahead either.
    """
    if placement.mode is not Mode.LAYERWISE_OFFLOAD:
        return placement
    prefetch, resident = placement.prefetch, min(placement.resident, component.max_layers)
    policy, lifetime = placement.policy, placement.lifetime
    all_stay = resident >= component.max_layers
    if all_stay or (resident == 0 and prefetch == 1):
        policy = Policy.LEADING
    if resident == 0:
        lifetime = Lifetime.FORWARD
    if all_stay and lifetime is Lifetime.PERMANENT:
        prefetch = 1
    return Placement(
        component=placement.component,
        mode=placement.mode,
        prefetch=min(prefetch, max(component.max_layers, 1)),
        resident=resident,
        policy=policy,
        lifetime=lifetime,
    )
