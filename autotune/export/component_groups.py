"""Which component names a group word of the server covers. The words mean different sets in different options.

Source: SGLang-diffusion 0.5.23, component selection; ``tests/data/sglang_flag_cases.jsonl``.
"""

from __future__ import annotations

DIT_NAMES = frozenset(
    {
        "transformer",
        "video_dit",
        "audio_dit",
        "delight_transformer",
        "hy3dshape_model",
        "paint_transformer",
        "unconditional_transformer",
    }
)
# Helpers that the old DiT switches move along with the DiT.
_DIT_HELPER_NAMES = frozenset({"connectors", "dual_tower_bridge", "vision_language_encoder"})
_IMAGE_ENCODER_NAMES = frozenset({"image_encoder", "hy3dshape_conditioner"})
_RESIDENCY_VAE_NAMES = frozenset({"vae", "video_vae", "audio_vae", "delight_vae", "hy3dshape_vae", "paint_vae"})
# In --layerwise-offload-components `vae` leaves the audio decoders out, and counts exact names only.
_LAYERWISE_VAE_NAMES = frozenset({"vae", "video_vae", "condition_image_encoder", "delight_vae", "paint_vae"})
_CPU_OFFLOAD_VAE_NAMES = _RESIDENCY_VAE_NAMES | {
    "vocoder",
    "spatial_upsampler",
    "latent_upscaler",
    "condition_image_encoder",
    "diffusion_decoder",
    "sound_tokenizer",
}

RESIDENCY_GROUPS = ("dit", "text_encoder", "image_encoder", "vae")
LAYERWISE_DEFAULT_GROUP = ("text_encoder", "image_encoder", "vae")
# Words that name no component, so that a map entry under them reaches nothing.
PURE_GROUP_WORDS = frozenset({"dit", "all", "default"})


def base_name(component: str) -> str:
    """``transformer_2`` -> ``transformer``: a trailing number marks another tower of the same kind."""
    stem, separator, number = component.rpartition("_")
    return stem if separator and number.isdigit() else component


def is_dit(component: str) -> bool:
    """Whether the ``--dit-*`` values are this component's defaults."""
    return base_name(component) in DIT_NAMES


def is_dit_or_helper(component: str) -> bool:
    """Whether the old whole-component DiT switches reach it."""
    return is_dit(component) or base_name(component) in _DIT_HELPER_NAMES


def is_text_encoder(component: str) -> bool:
    """Every name that starts or ends with ``text_encoder``."""
    return component.startswith("text_encoder") or component.endswith("text_encoder")


def is_image_encoder(component: str) -> bool:
    """The image encoders, numbered or not."""
    return base_name(component) in _IMAGE_ENCODER_NAMES


def is_in_residency_group(component: str, group: str) -> bool:
    """Whether ``group`` in ``--component-residency`` covers ``component``."""
    if group == "dit":
        return is_dit(component)
    if group == "text_encoder":
        return is_text_encoder(component)
    if group == "image_encoder":
        return is_image_encoder(component)
    return group == "vae" and base_name(component) in _RESIDENCY_VAE_NAMES


def is_in_layerwise_selection(component: str, selector: str) -> bool:
    """Whether ``selector`` in ``--layerwise-offload-components`` covers ``component``."""
    if selector == "all":
        return True
    if selector == "dit":
        return is_dit(component)
    if selector == "text_encoder":
        return is_text_encoder(component)
    if selector == "image_encoder":
        return is_image_encoder(component)
    if selector == "vae":
        return component in _LAYERWISE_VAE_NAMES
    return component == selector


def legacy_switch(component: str) -> str | None:
    """The old whole-component switch that reaches ``component``, as a destination name; None when none does."""
    if is_dit_or_helper(component):
        return "dit_cpu_offload"
    if is_text_encoder(component):
        return "text_encoder_cpu_offload"
    if is_image_encoder(component):
        return "image_encoder_cpu_offload"
    if base_name(component) in _CPU_OFFLOAD_VAE_NAMES:
        return "vae_cpu_offload"
    return None


def is_in_cpu_offload_selection(component: str, selectors: tuple[str, ...]) -> bool:
    """Whether ``--cpu-offload-components`` covers ``component``.

    The server stops at the first group word it knows, in the order below, and asks no further one.
    """
    if "all" in selectors or component in selectors:
        return True
    if "dit" in selectors:
        return is_dit_or_helper(component)
    if "text_encoder" in selectors:
        return is_text_encoder(component)
    if "image_encoder" in selectors:
        return is_image_encoder(component) or base_name(component) == "condition_image_encoder"
    if "vae" in selectors:
        return base_name(component) in _CPU_OFFLOAD_VAE_NAMES
    return False
