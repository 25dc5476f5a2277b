"""Wan2.1-T2V-1.3B: text to video with a DiT far smaller than its text encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.catalog.entry import CatalogEntry, Progress, SettledWorkload
from autotune.catalog.wan import GRID, SHARED_SOURCES, TEXT_ENCODER_CONFIG, WanModel, settle_wan
from autotune.workload import Workload
from runtime.deployment import Deployment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autotune.catalog.built_component import ComponentBuilder
    from autotune.model_facts import ModelFacts

CONFIGS: dict[str, dict[str, object]] = {
    "text_encoder": TEXT_ENCODER_CONFIG,
    "transformer": {"num_attention_heads": 12, "ffn_dim": 8960, "num_layers": 30},
    "vae": {},
}

SOURCES = (
    *SHARED_SOURCES,
    "transformer: Wan-AI/Wan2.1-T2V-1.3B-Diffusers transformer/config.json, released in float32",
    "dtypes and deployment: WanT2V480PConfig in configs/pipeline_configs/wan.py of SGLang-diffusion 0.5.23; the DiT "
    "runs in bfloat16, the float32 VAE decodes under bfloat16 autocast and is loaded without its encoder",
    "size, frames, steps and guidance: WanT2V_1_3B_SamplingParams in configs/sample/wan.py",
    "order of load: runtime/managers/memory_managers/component_loading_order.py",
)

MODEL = WanModel(
    name="Wan2.1-T2V-1.3B",
    text_encoder_file_dtype="float32",
    vae_decode_dtype="bfloat16",
    has_vae_encoder=False,
    transformer_mode="component-offload",
    loaded=("text_encoder", "transformer", "vae"),
    deployment=Deployment(
        makes_images=False,
        dit_layerwise_modes=("memory",),
        keep_resident_min_gib=60.0,
        keep_resident_groups=("dit",),
        default_steps=50,
    ),
)

DEFAULT_WORKLOAD = Workload(width=832, height=480, frames=81, steps=50, prompt_tokens=GRID.prompt_tokens)


def settle_workload(workload: Workload) -> SettledWorkload:
    """Check a request for Wan2.1-T2V-1.3B and round it as the server does.

    Raises:
        InputError: a side that the model cannot divide into patches.
    """
    return settle_wan(MODEL, workload)


def _build(configs: Mapping[str, Mapping[str, object]], workload: Workload) -> dict[str, ComponentBuilder]:
    from autotune.catalog.wan_capture import build_wan  # noqa: PLC0415 - imports torch

    return build_wan(MODEL, configs, workload)


def _capture(settled: SettledWorkload, progress: Progress) -> ModelFacts:
    from autotune.catalog.wan_capture import capture_wan  # noqa: PLC0415 - imports torch

    return capture_wan(MODEL, settled, CONFIGS, SOURCES, progress)


WAN2_1_T2V_1_3B = CatalogEntry(
    name=MODEL.name,
    aliases=("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "Wan2.1-T2V-1.3B-Diffusers", "Wan2.1-1.3B"),
    title="Wan2.1-T2V-1.3B text to video",
    default_workload=DEFAULT_WORKLOAD,
    configs=CONFIGS,
    sources=SOURCES,
    smaller_canvas=(480, 272),
    settle=settle_workload,
    capture=_capture,
    build=_build,
)
