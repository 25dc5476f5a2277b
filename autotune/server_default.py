"""What the server chooses by itself: the placement of every component that no flag places.

SGLang-diffusion 0.5.23 on one CUDA card with its own memory. Source of the rules: ``runtime/server_args/auto_tune.py``
and the order in which ``runtime/server_args/server_args.py`` applies them; ``tests/data/sglang_default_cases.jsonl``
was recorded from it.

- ``speed`` and ``manual``: everything stays resident, whether it fits or not.
- ``memory``: text encoders, image encoders and the default VAE group stream, the DiT too where the model's deployment
  says so; any other DiT is moved whole.
- ``auto``: as ``memory``, with the deployment's word on this mode, except that everything stays resident when free
  device memory is twice the weights or more; that, from the model's threshold on, the groups that it names stay
  resident, and an image DiT always; and that a DiT which the deployment streams under ``memory`` also streams here when
  it needs more than 80 % of what is free.
- A component that has no layers to stream stays where it was: the DiT is moved whole, all others are resident.

Options that place some components change the choice for the others (``Stated``). Only then does the outcome depend on
whether the card has less than 30 GiB in all, which the server asks, too: without options the answer sets
whole-component offload for groups that then stream or are kept resident.

Not covered, because the figures of a model do not tell: several cards (FSDP), cards that share the host's memory,
quantized or replaced weights, distilled models with fixed denoising steps, and a checkpoint that is not on this disk
yet (the server then cannot size it and skips the two rules that need sizes).

``memory`` changes more than placements, and predictions have to follow:

- a streamed component's weights outside its layers go back to the host at the end of each use and return at the next
  one, unless they are at most a tenth of the device memory that is free then (``PARKS_NON_LAYER_WEIGHTS``;
  ``runtime/managers/memory_managers/layerwise_offload.py``, called from
  ``component_residency_strategies.py``). The copies are pageable, so they are not overlapped.
- MiniMax-H3 decodes one tile and one window per pass at every quality (``DECODES_SINGLE_TILES``;
  ``configs/pipeline_configs/minimax_h3.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from autotune.export.component_groups import (
    LAYERWISE_DEFAULT_GROUP,
    is_dit,
    is_dit_or_helper,
    is_in_layerwise_selection,
)
from runtime.deployment import Deployment
from runtime.engines.sglang import SglangEngine
from runtime.errors import InputError, UnsupportedError
from runtime.model_spec import ComponentSpec, ModelSpec
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy
from runtime.units import GIB


class PerformanceMode(StrEnum):
    """Values of the server's ``--performance-mode``; it takes no other spelling."""

    MANUAL = "manual"
    AUTO = "auto"
    SPEED = "speed"
    MEMORY = "memory"


# auto_tune.py: AUTO_ALL_RESIDENT_WEIGHT_MULTIPLE, AUTO_DIT_MAX_DEVICE_FRACTION, and the two task kinds' thresholds.
ALL_RESIDENT_WEIGHT_MULTIPLE = 2
DIT_MAX_FREE_RATIO = 0.8
IMAGE_KEEP_RESIDENT_MIN_GIB = 45.0
OTHER_KEEP_RESIDENT_MIN_GIB = 120.0

# server_args.py, _adjust_offload.
LOW_MEMORY_GIB = 30
_ENCODERS = ("text_encoder", "image_encoder")

PARKS_NON_LAYER_WEIGHTS = frozenset({PerformanceMode.MEMORY})
DECODES_SINGLE_TILES = frozenset({PerformanceMode.MEMORY})

# The one folder that the server sizes to see whether the DiT overflows the card; other DiT towers are not asked.
_SIZED_DIT = "transformer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What the options of a command change in the server's choice for the components that they leave to it.

    Attributes:
        groups: component groups (``dit``, ``text_encoder``, ``image_encoder``, ``vae``) whose first component has a
            mode by option (``transformer`` for the DiT): the server makes no choice for such a group, so that another
            component of it (``transformer_2``) falls back to being moved whole or resident.
        selects_streams: whether options list what streams (``--layerwise-offload-components``, or
            ``--dit-layerwise-offload true``): nothing else streams then, and under ``auto`` the encoders that are not
            listed are moved whole.
        device_total_bytes: memory of the card, which decides whether an image encoder is moved then.
    """

    groups: frozenset[str] = frozenset()
    selects_streams: bool = False
    device_total_bytes: int = 0


NOTHING_STATED = Stated()


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultPlacement:
    """What the server settles for one component, in its own values.

    Attributes:
        mode: how the component is kept.
        prefetch_value: below 1 a share of the layers, from 1 a count; 0 is one layer.
        resident_value: the same for layers that stay; no default keeps any.
        policy: which layers would stay.
        lifetime: how long they would stay.
    """

    mode: Mode
    prefetch_value: float = 0.0
    resident_value: float = 0.0
    policy: Policy = Policy.LEADING
    lifetime: Lifetime = Lifetime.FORWARD


def parse_performance_mode(text: str) -> PerformanceMode:
    """``text`` as a performance mode.

    Raises:
        InputError: the server has no such mode; its parser refuses other spellings, too.
    """
    try:
        return PerformanceMode(text)
    except ValueError:
        known = ", ".join(PerformanceMode)
        raise InputError(f"--performance-mode {text!r} is unknown: the server knows {known}") from None


def choose_default(model: ModelSpec, *, device_total_bytes: int, device_free_bytes: int, performance_mode: str) -> Plan:
    """The plan that the server follows when no flag places a component of ``model``.

    Args:
        model: its deployment holds the server's figures for it.
        device_total_bytes: memory of the card.
        device_free_bytes: what is free on it before the server loads anything.
        performance_mode: one of ``PerformanceMode``.

    Raises:
        UnsupportedError: the server has no known configuration for the model.
        InputError: an unknown performance mode, or more free memory than the card has.
    """
    mode = parse_performance_mode(performance_mode)
    if not 0 <= device_free_bytes <= device_total_bytes:
        raise InputError(
            f"{device_free_bytes} bytes are said to be free on a card of {device_total_bytes}: give 0 up to its total"
        )
    if model.deployment is None:
        raise UnsupportedError(
            f"the server has no known configuration for {model.name}, so what it would choose cannot be said: "
            "place every component yourself"
        )
    chosen = default_modes(
        model.deployment,
        {component.name: estimate_loaded_bytes(component) for component in model.components},
        device_free_bytes=device_free_bytes,
        performance_mode=mode,
        unstreamable=frozenset(component.name for component in model.components if component.max_layers == 0),
    )
    placements = tuple(_place(name, default) for name, default in chosen.items())
    return Plan(engine=SglangEngine.name, placements=placements, explicit=False)


def estimate_loaded_bytes(component: ComponentSpec) -> int:
    """What the server's own sizing counts for ``component``: every released weight in the precision it is loaded in.

    That precision is the one a whole move casts to, where there is such a cast, else the one it runs in. Weights in the
    released files that are never loaded are counted, too, since the server adds up file headers.
    """
    loaded_bytes = component.cast_bytes or component.run_bytes
    if component.checkpoint_bytes == 0:
        return loaded_bytes
    return loaded_bytes + component.unread_checkpoint_bytes * loaded_bytes // component.checkpoint_bytes


def default_modes(
    deployment: Deployment,
    loaded_bytes: Mapping[str, int],
    *,
    device_free_bytes: int,
    performance_mode: PerformanceMode,
    unstreamable: Collection[str] = (),
    stated: Stated = NOTHING_STATED,
) -> dict[str, DefaultPlacement]:
    """The server's rule itself, for the components that ``loaded_bytes`` names, in its order.

    Args:
        deployment: the server's figures for the model.
        loaded_bytes: weights of each component in the precision that the server is configured to load them in.
        device_free_bytes: what is free on the card before anything is loaded.
        performance_mode: the preset.
        unstreamable: components that turn out to have no layers the server can stream.
        stated: what options say; the answer holds for the components that they leave to the server.
    """
    streamed = _streamed_groups(deployment, loaded_bytes, device_free_bytes, performance_mode)
    streamed = () if stated.selects_streams else tuple(group for group in streamed if group not in stated.groups)
    moved = _moved_groups(deployment, loaded_bytes, device_free_bytes, performance_mode, stated)
    dit_prefetch = deployment.dit_prefetch_value if performance_mode is PerformanceMode.AUTO else 0.0

    def choose(name: str) -> DefaultPlacement:
        if name not in unstreamable and any(is_in_layerwise_selection(name, group) for group in streamed):
            return DefaultPlacement(mode=Mode.LAYERWISE_OFFLOAD, prefetch_value=dit_prefetch if is_dit(name) else 0.0)
        is_moved = any(_is_moved_with(name, group) for group in moved)
        return DefaultPlacement(mode=Mode.COMPONENT_OFFLOAD if is_moved else Mode.RESIDENT)

    return {name: choose(name) for name in loaded_bytes}


def _streamed_groups(
    deployment: Deployment, loaded_bytes: Mapping[str, int], free_bytes: int, mode: PerformanceMode
) -> tuple[str, ...]:
    """The groups whose components stream."""
    if mode in (PerformanceMode.SPEED, PerformanceMode.MANUAL):
        return ()
    groups: tuple[str, ...] = LAYERWISE_DEFAULT_GROUP
    if mode in deployment.dit_layerwise_modes or _dit_overflows(deployment, loaded_bytes, free_bytes, mode):
        groups = ("dit", *groups)
    if mode is PerformanceMode.MEMORY:
        return groups
    kept = _kept_groups(deployment, loaded_bytes, free_bytes)
    return tuple(group for group in groups if group not in kept)


def _moved_groups(
    deployment: Deployment, loaded_bytes: Mapping[str, int], free_bytes: int, mode: PerformanceMode, stated: Stated
) -> tuple[str, ...]:
    """The groups whose components, where they do not stream, are moved whole: the DiT with the helpers around it.

    Under ``auto`` encoders are moved, too, where the server made no choice whether they stream.
    """
    if mode is PerformanceMode.MEMORY:
        return ("dit",)
    if mode is not PerformanceMode.AUTO:
        return ()
    kept = frozenset(_kept_groups(deployment, loaded_bytes, free_bytes)) - stated.groups
    unchosen = [group for group in _ENCODERS if stated.selects_streams or group in stated.groups]
    if deployment.makes_images and stated.device_total_bytes >= LOW_MEMORY_GIB * GIB:
        unchosen = [group for group in unchosen if group != "image_encoder"]
    return tuple(group for group in ("dit", *unchosen) if group not in kept)


def _is_moved_with(name: str, group: str) -> bool:
    return is_dit_or_helper(name) if group == "dit" else is_in_layerwise_selection(name, group)


def _kept_groups(deployment: Deployment, loaded_bytes: Mapping[str, int], free_bytes: int) -> tuple[str, ...]:
    """The groups that ``auto`` keeps resident because there is room."""
    if free_bytes >= ALL_RESIDENT_WEIGHT_MULTIPLE * sum(loaded_bytes.values()):
        return ("dit", *LAYERWISE_DEFAULT_GROUP)
    if free_bytes < _keep_resident_min_gib(deployment) * GIB:
        return ()
    return (*deployment.keep_resident_groups, "dit") if deployment.makes_images else deployment.keep_resident_groups


def _keep_resident_min_gib(deployment: Deployment) -> float:
    if deployment.keep_resident_min_gib is not None:
        return deployment.keep_resident_min_gib
    return IMAGE_KEEP_RESIDENT_MIN_GIB if deployment.makes_images else OTHER_KEEP_RESIDENT_MIN_GIB


def _dit_overflows(
    deployment: Deployment, loaded_bytes: Mapping[str, int], free_bytes: int, mode: PerformanceMode
) -> bool:
    """Whether ``auto`` streams a DiT that the deployment streams under ``memory`` only, because it hardly fits."""
    return (
        mode is PerformanceMode.AUTO
        and PerformanceMode.MEMORY in deployment.dit_layerwise_modes
        and free_bytes < _keep_resident_min_gib(deployment) * GIB
        and loaded_bytes.get(_SIZED_DIT, 0) > free_bytes * DIT_MAX_FREE_RATIO
    )


def _place(name: str, default: DefaultPlacement) -> Placement:
    """``default`` as a placement.

    Raises:
        UnsupportedError: its prefetch value is a share of the layers, which differs from stack to stack.
    """
    value = default.prefetch_value
    if value != 0 and value < 1:
        raise UnsupportedError(
            f"the server's default prefetch of {name} is {value}, a share of its layers: only counts are supported"
        )
    return Placement(component=name, mode=default.mode, prefetch=max(1, int(value)))
