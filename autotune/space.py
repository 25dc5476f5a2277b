"""The space that is searched: for every component, the placements worth telling apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.errors import InputError
from runtime.model_spec import ComponentSpec, ModelSpec
from runtime.plan import Placement
from runtime.residency import Lifetime, Mode, Policy

DEFAULT_MAX_PREFETCH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """Limits of the search.

    Attributes:
        max_prefetch: largest prefetch size tried, clamped to each component's longest stack.
        modes: modes tried, in the order in which ties are broken.
    """

    max_prefetch: int = DEFAULT_MAX_PREFETCH
    modes: tuple[Mode, ...] = (Mode.RESIDENT, Mode.LAYERWISE_OFFLOAD, Mode.COMPONENT_OFFLOAD)

    def __post_init__(self) -> None:
        if self.max_prefetch < 1:
            raise InputError(f"--max-prefetch is {self.max_prefetch}: at least one layer is always fetched ahead")

    def placements(self, component: ComponentSpec) -> tuple[Placement, ...]:
        """Every placement of ``component`` that can differ from the others."""
        found: list[Placement] = []
        for mode in self.modes:
            if mode is Mode.LAYERWISE_OFFLOAD:
                found += self._streamed(component)
            else:
                found.append(Placement(component=component.name, mode=mode))
        return tuple(found)

    def size(self, model: ModelSpec) -> int:
        """Plans in the space."""
        product = 1
        for component in model.components:
            product *= len(self.placements(component))
        return product

    def _streamed(self, component: ComponentSpec) -> Iterator[Placement]:
        longest = component.max_layers
        for resident in range(longest + 1 if longest else 0):
            for prefetch in range(1, min(longest, self.max_prefetch) + 1):
                for policy in Policy:
                    for lifetime in Lifetime:
                        placement = Placement(
                            component=component.name,
                            mode=Mode.LAYERWISE_OFFLOAD,
                            prefetch=prefetch,
                            resident=resident,
                            policy=policy,
                            lifetime=lifetime,
                        )
                        if fold(placement, component) == placement:
                            yield placement


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
