"""Turn server options back into a plan."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.export.option_values import SNAPSHOT_OFFLOAD
from autotune.export.sglang_options import ComponentOptions, ServerOptions
from runtime.errors import FlagError
from runtime.model_spec import ComponentSpec, ModelSpec
from runtime.plan import Placement, Plan
from runtime.residency import Mode


def plan_from_options(
    options: ServerOptions,
    model: ModelSpec,
    *,
    engine: str = "sglang@0.5.23",
    default_modes: Mapping[str, Mode] | None = None,
) -> Plan:
    """The plan that ``options`` ask for.

    Shares become counts, counts are clamped to the component's longest stack. The plan is ``explicit`` when the
    options name the mode of every component.

    Args:
        options: a parsed command line.
        model: the model it would serve.
        engine: what the plan is for.
        default_modes: modes of components that the options leave to the server.

    Raises:
        FlagError: a mode that a plan cannot hold or that nobody stated, a component without layers that should
            stream, or a share that is another count on each stack.
    """
    placements = []
    explicit = True
    for component in model.components:
        found = options.component(component.name)
        mode = found.mode
        if mode is None:
            explicit = False
            mode = (default_modes or {}).get(component.name)
        placements.append(_build_placement(component, found, mode))
    return Plan(engine=engine, placements=tuple(placements), explicit=explicit)


def _build_placement(component: ComponentSpec, found: ComponentOptions, mode: str | None) -> Placement:
    if mode is None:
        raise FlagError(
            f"the options leave {component.name} to the server: name its mode with --component-residency "
            f"{component.name}=..., or state what the server chooses"
        )
    if mode == SNAPSHOT_OFFLOAD:
        raise FlagError(f"{component.name} is {SNAPSHOT_OFFLOAD}, which a plan cannot hold: choose component-offload")
    if mode != Mode.LAYERWISE_OFFLOAD:
        return Placement(component=component.name, mode=Mode(mode))
    if component.max_layers == 0:
        raise FlagError(f"{component.name} has no list of layers: it cannot be {mode}; choose component-offload")
    return Placement(
        component=component.name,
        mode=Mode.LAYERWISE_OFFLOAD,
        prefetch=count_prefetch(component, found),
        resident=count_resident(component, found),
        policy=found.policy,
        lifetime=found.lifetime,
    )


def count_prefetch(component: ComponentSpec, found: ComponentOptions) -> int:
    """Layers that ``found`` asks for ahead, clamped to the longest stack.

    Raises:
        FlagError: a share that is another count on each stack.
    """
    return _single_count(component, "prefetch", {n: max(1, found.counts(n)[0]) for n in _lengths(component)})


def count_resident(component: ComponentSpec, found: ComponentOptions) -> int:
    """Layers that ``found`` keeps on the device, clamped to the longest stack.

    Raises:
        FlagError: a share that is another count on each stack.
    """
    return _single_count(component, "resident", {n: found.counts(n)[1] for n in _lengths(component)})


def _lengths(component: ComponentSpec) -> list[int]:
    return sorted({len(stack.layers) for stack in component.stacks if stack.layers})


def _single_count(component: ComponentSpec, knob: str, counts: dict[int, int]) -> int:
    """The one count that, clamped to each stack's length, gives every stack its own.

    Raises:
        FlagError: there is none.
    """
    clamped = {length: min(count, length) for length, count in counts.items()}
    count = max(clamped.values())
    if any(min(count, length) != wanted for length, wanted in clamped.items()):
        by_stack = ", ".join(f"{wanted} of {length}" for length, wanted in clamped.items())
        raise FlagError(
            f"{knob} of {component.name} is a share that means another count on each stack ({by_stack}): a plan holds "
            "one count; give a whole number of layers"
        )
    return count
