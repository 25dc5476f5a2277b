"""The decision: one placement per component, immutable."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime.errors import PlanError
from runtime.model_spec import ModelSpec
from runtime.residency import Lifetime, Mode, Policy, resident_layers, streamed_layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How one component is kept. The knobs apply to each of its stacks, clamped to the stack's length.

    Attributes:
        component: the component's name.
        mode: ``resident``, ``component-offload`` or ``layerwise-offload``.
        prefetch: streamed layers asked for ahead of the executing one, which is not counted; >= 1.
        resident: layers of each stack that stay on the device; >= 0.
        policy: which layers stay.
        lifetime: how long residents stay.

    Outside ``layerwise-offload`` the knobs mean nothing and must keep their defaults, so that equal decisions are
    equal values.
    """

    component: str
    mode: Mode
    prefetch: int = 1
    resident: int = 0
    policy: Policy = Policy.LEADING
    lifetime: Lifetime = Lifetime.FORWARD

    def __post_init__(self) -> None:
        if self.prefetch < 1:
            raise PlanError(f"{self.component}.prefetch is {self.prefetch}: it counts layers ahead and must be >= 1")
        if self.resident < 0:
            raise PlanError(f"{self.component}.resident is {self.resident}: it counts layers and must be >= 0")
        knobs = (self.prefetch, self.resident, self.policy, self.lifetime)
        if self.mode is not Mode.LAYERWISE_OFFLOAD and knobs != (1, 0, Policy.LEADING, Lifetime.FORWARD):
            raise PlanError(
                f"{self.component} is {self.mode}: prefetch, resident, policy and lifetime apply to layerwise-offload "
                "only; leave them out or set the mode to layerwise-offload"
            )

    def describe(self) -> str:
        """The placement in one line, for people."""
        if self.mode is not Mode.LAYERWISE_OFFLOAD:
            return str(self.mode)
        text = f"{self.mode} P={self.prefetch} r={self.resident}"
        return f"{text} {self.policy} {self.lifetime}" if self.resident else text

    def streamed_layers(self, layer_count: int) -> tuple[int, ...]:
        """Layers of a stack of ``layer_count`` that are copied on every pass; none outside layerwise offload."""
        if self.mode is not Mode.LAYERWISE_OFFLOAD:
            return ()
        return streamed_layers(layer_count, self.resident, self.policy)

    def permanent_layers(self, layer_count: int) -> tuple[int, ...]:
        """Layers of a stack of ``layer_count`` that stay from load on and have no host copy."""
        if self.lifetime is not Lifetime.PERMANENT:
            return ()
        return resident_layers(layer_count, self.resident, self.policy)

    @property
    def changed_settings(self) -> int:
        """How many knobs differ from the server's own defaults (one layer ahead, none resident, leading, forward)."""
        return (
            (self.prefetch != 1)
            + (self.resident != 0)
            + (self.policy is not Policy.LEADING)
            + (self.lifetime is not Lifetime.FORWARD)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One placement per component.

    Attributes:
        engine: whose behaviour the plan is for, e.g. ``sglang@0.5.23``.
        placements: one per component, in the model's order.
        explicit: whether the modes are given to the server by flags. A server that chose them itself keeps the text
            encoder's head on the device between requests; one that was told does not.
    """

    engine: str
    placements: tuple[Placement, ...]
    explicit: bool = True

    def __post_init__(self) -> None:
        names = [placement.component for placement in self.placements]
        if len(set(names)) != len(names):
            raise PlanError(f"the plan places a component twice: {', '.join(names)}")

    def placement(self, component: str) -> Placement:
        """The placement of ``component``.

        Raises:
            PlanError: the plan has none for it.
        """
        for placement in self.placements:
            if placement.component == component:
                return placement
        raise PlanError(f"the plan has no placement for component {component!r}")

    def with_placement(self, placement: Placement) -> Plan:
        """The same plan with ``placement`` in the place of that component's own."""
        placements = (placement if own.component == placement.component else own for own in self.placements)
        return replace(self, placements=tuple(placements))

    def streams(self, component: str) -> bool:
        """Whether ``component`` streams layer by layer under this plan."""
        return self.placement(component).mode is Mode.LAYERWISE_OFFLOAD

    def check_fits_model(self, model: ModelSpec) -> None:
        """Refuse a plan that was made for another model.

        Raises:
            PlanError: a component is missing, unknown, or streamed although it has no layers.
        """
        planned = {placement.component for placement in self.placements}
        actual = {component.name for component in model.components}
        if planned != actual:
            raise PlanError(
                f"the plan is not for {model.name}: it places {', '.join(sorted(planned))}, the model has "
                f"{', '.join(sorted(actual))}"
            )
        for component in model.components:
            placement = self.placement(component.name)
            if placement.mode is Mode.LAYERWISE_OFFLOAD and component.max_layers == 0:
                raise PlanError(f"{component.name} has no list of layers: it cannot be {placement.mode}")
            if placement.resident > component.max_layers:
                raise PlanError(
                    f"{component.name}.resident is {placement.resident}: its longest stack has "
                    f"{component.max_layers} layers"
                )
