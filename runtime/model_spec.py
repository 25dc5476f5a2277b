"""What a pipeline is made of, and in which order a request uses it. Pure facts: bytes and counts, no times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from runtime.deployment import Deployment
from runtime.errors import InputError
from runtime.units import MAX_BYTES

_MOST_PASSES = 1_000_000


def _check_count(name: str, size_bytes: int) -> None:
    if not 0 <= size_bytes <= MAX_BYTES:
        raise InputError(f"{name} is {size_bytes}: bytes lie between 0 and 2^60")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSpec:
    """One unit of residency: weights that move together.

    Attributes:
        checkpoint_bytes: size in the released file.
        run_bytes: size as hosted, copied and resident (after casts the server does at load).
        transformed_bytes: the share of ``run_bytes`` that the server makes at load (fused, reordered or cast weights):
            it is in no file, so it cannot stay mapped.
    """

    checkpoint_bytes: int
    run_bytes: int
    transformed_bytes: int = 0

    def __post_init__(self) -> None:
        _check_count("layer.checkpoint_bytes", self.checkpoint_bytes)
        _check_count("layer.run_bytes", self.run_bytes)
        if not 0 <= self.transformed_bytes <= self.run_bytes:
            raise InputError(
                f"layer.transformed_bytes is {self.transformed_bytes}: it is a share of the {self.run_bytes} run bytes"
            )

    @property
    def view_bytes(self) -> int:
        """The share of ``run_bytes`` that can stay a view of the checkpoint file."""
        return self.run_bytes - self.transformed_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSpec:
    """One list of layers inside a component, named by its module path as the server names it."""

    name: str
    layers: tuple[LayerSpec, ...]

    @property
    def run_bytes(self) -> int:
        """Bytes of all layers, as run."""
        return sum(layer.run_bytes for layer in self.layers)

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of all layers in the released file."""
        return sum(layer.checkpoint_bytes for layer in self.layers)


@dataclass(frozen=True, kw_only=True)
class ComponentSpec:
    """A separately run part of the pipeline.

    Attributes:
        name: the server's name for it (``transformer``, ``video_vae``).
        class_name: the library class whose parameters were counted.
        stacks: the lists of layers that the server can stream, in its order.
        rest_run_bytes: weights outside the stacks that stay on the device, as run.
        rest_checkpoint_bytes: the same in the released file.
        host_table_bytes: vocabulary tables, as run, that stay in host memory while the component streams; not in
            ``rest``.
        host_table_checkpoint_bytes: the same in the released file.
        unread_checkpoint_bytes: bytes of the component's released files that the server never loads.
        offload_host_bytes: pinned host bytes that the whole component takes once it has been moved back from the
            device: torch's pinned allocator rounds each tensor up to a power of two. 0 when unknown.
        run_dtype: the dtype in which the server computes.
        cast_bytes: device bytes of the whole component while a move to the device casts it to another dtype; 0 when no
            move does.
        is_dit: whether the server's ``--dit-*`` options and DiT rules apply.
        default_mode: the mode the server gives it on a card that cannot hold everything.
    """

    name: str
    class_name: str
    stacks: tuple[StackSpec, ...]
    rest_run_bytes: int
    rest_checkpoint_bytes: int
    host_table_bytes: int = 0
    host_table_checkpoint_bytes: int = 0
    unread_checkpoint_bytes: int = 0
    offload_host_bytes: int = 0
    run_dtype: str
    cast_bytes: int = 0
    is_dit: bool = False
    default_mode: str = "layerwise-offload"

    def __post_init__(self) -> None:
        names = [stack.name for stack in self.stacks]
        if len(set(names)) != len(names):
            raise InputError(f"component {self.name!r} names a stack twice: {names}")
        counts = (
            "rest_run_bytes",
            "rest_checkpoint_bytes",
            "host_table_bytes",
            "host_table_checkpoint_bytes",
            "unread_checkpoint_bytes",
            "offload_host_bytes",
            "cast_bytes",
        )
        for field_name in counts:
            _check_count(f"{self.name}.{field_name}", getattr(self, field_name))
        if not self.name.strip() or not self.name.isprintable():
            raise InputError(f"a component is named {self.name!r}: give it a printable name")

    @cached_property
    def stack_run_bytes(self) -> int:
        """Bytes of all layers of all stacks, as run."""
        return sum(stack.run_bytes for stack in self.stacks)

    @cached_property
    def transformed_bytes(self) -> int:
        """Bytes of the layers that the server makes at load."""
        return sum(layer.transformed_bytes for stack in self.stacks for layer in stack.layers)

    @cached_property
    def run_bytes(self) -> int:
        """Bytes of the whole component on the device, as run."""
        return self.stack_run_bytes + self.rest_run_bytes + self.host_table_bytes

    @cached_property
    def checkpoint_bytes(self) -> int:
        """Bytes of the whole component in the released file."""
        stacks = sum(stack.checkpoint_bytes for stack in self.stacks)
        return stacks + self.rest_checkpoint_bytes + self.host_table_checkpoint_bytes

    @cached_property
    def max_layers(self) -> int:
        """Layers of the longest stack; 0 when the component has none and cannot be streamed."""
        return max((len(stack.layers) for stack in self.stacks), default=0)

    def stack(self, name: str) -> StackSpec:
        """The stack called ``name``; KeyError when there is none."""
        for stack in self.stacks:
            if stack.name == name:
                return stack
        raise KeyError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassGroup:
    """``passes`` traversals of ``stacks``, one after another inside each pass (FLUX: double, then single blocks)."""

    stacks: tuple[str, ...]
    passes: int

    def __post_init__(self) -> None:
        if not 1 <= self.passes <= _MOST_PASSES:
            raise InputError(f"a pass group needs 1 to {_MOST_PASSES:,} passes, got {self.passes}")
        if len(set(self.stacks)) != len(self.stacks):
            raise InputError(f"a pass group runs a stack twice: {self.stacks}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UseSpec:
    """One interval in which a component is in use.

    Attributes:
        component: its name.
        groups: passes in order; none when the use runs nothing.
        purpose: tells uses of one component apart where it matters.
        hands_over: whether the next use begins before this one has ended, as between two encoders of one stage.
    """

    component: str
    groups: tuple[PassGroup, ...]
    purpose: str = ""
    hands_over: bool = False

    @property
    def title(self) -> str:
        """The component, with the purpose if there is one."""
        return f"{self.component} ({self.purpose})" if self.purpose else self.component


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """The sequence of uses that makes one request."""

    uses: tuple[UseSpec, ...]

    def check_fits_model(self, model: ModelSpec) -> None:
        """Refuse a request for another model.

        Raises:
            InputError: nothing is used, or a component or a stack is used that ``model`` does not have.
        """
        if not self.uses:
            raise InputError("the request runs nothing: it needs at least one use")
        for use in self.uses:
            known = {stack.name for stack in model.component(use.component).stacks}
            for stack in (name for group in use.groups for name in group.stacks):
                if stack not in known:
                    raise InputError(f"{use.component} runs a stack {stack!r} that it does not have")


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A whole pipeline: components in the order in which the server loads them.

    ``deployment`` is what the server's configuration says about it; None when the server has none that is known.
    """

    name: str
    components: tuple[ComponentSpec, ...]
    sources: tuple[str, ...] = ()
    deployment: Deployment | None = None

    def __post_init__(self) -> None:
        names = [component.name for component in self.components]
        if not names or len(set(names)) != len(names):
            raise InputError(f"{self.name!r} needs components with different names, got {names}")

    def component(self, name: str) -> ComponentSpec:
        """The component called ``name``.

        Raises:
            InputError: the model has none of that name.
        """
        for component in self.components:
            if component.name == name:
                return component
        known = ", ".join(component.name for component in self.components)
        raise InputError(f"{self.name} has no component {name!r}: it has {known}")
