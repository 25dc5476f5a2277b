"""Wan2.2-T2V-A14B: text to video with two 14B experts, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.catalog.entry import CatalogEntry, Progress, SettledWorkload
from autotune.catalog.wan import GRID, SHARED_SOURCES, TEXT_ENCODER_CONFIG, TwoExperts, WanModel, settle_wan
from autotune.workload import Workload
from runtime.deployment import Deployment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autotune.catalog.built_component import ComponentBuilder
    from autotune.model_facts import ModelFacts

CONFIGS: dict[str, dict[str, object]] = {
    "text_encoder": TEXT_ENCODER_CONFIG,
    "transformer": {},
    "transformer_2": {},
    "vae": {},
}

SOURCES = (
    *SHARED_SOURCES,
    "transformer: defaults of diffusers WanTransformer3DModel, equal to Wan-AI/Wan2.2-T2V-A14B-Diffusers "
    "transformer/config.json, released in float32",
    "transformer_2: the same class and configuration",
    "text encoder file: taken to be bfloat16, which the server casts to float32 at load",
    "dtypes, boundary, flow shift and deployment: Wan2_2_T2V_A14B_Config in configs/pipeline_configs/wan.py of "
    "SGLang-diffusion 0.5.23; the DiTs run in bfloat16",
    "size, frames, steps and guidance: Wan2_2_T2V_A14B_SamplingParam in configs/sample/wan.py",
    "order of load: runtime/managers/memory_managers/component_loading_order.py",
)

MODEL = WanModel(
    name="Wan2.2-T2V-A14B",
    text_encoder_file_dtype="bfloat16",
    vae_decode_dtype="float32",
    has_vae_encoder=True,
    transformer_mode="layerwise-offload",
    loaded=("transformer_2", "transformer", "text_encoder", "vae"),
    deployment=Deployment(
        makes_images=False,
        dit_layerwise_modes=("auto", "memory"),
        dit_prefetch_value=2.0,
        keep_resident_min_gib=120.0,
        keep_resident_groups=("dit", "vae"),
        default_steps=40,
    ),
    experts=TwoExperts(boundary_ratio=0.875, flow_shift=12.0),
)

DEFAULT_WORKLOAD = Workload(width=1280, height=720, frames=81, steps=40, prompt_tokens=GRID.prompt_tokens)


def settle_workload(workload: Workload) -> SettledWorkload:
    """Check a request for Wan2.2-T2V-A14B and round it as the server does.

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


WAN2_2_T2V_A14B = CatalogEntry(
    name=MODEL.name,
    aliases=("Wan-AI/Wan2.2-T2V-A14B-Diffusers", "Wan2.2-T2V-A14B-Diffusers", "Wan2.2-A14B"),
    title="Wan2.2-T2V-A14B text to video, two experts",
    default_workload=DEFAULT_WORKLOAD,
    configs=CONFIGS,
    sources=SOURCES,
    smaller_canvas=(832, 480),
    settle=settle_workload,
    capture=_capture,
    build=_build,
)
