"""FLUX.1-dev: text to image (CLIP-L and T5-XXL encoders, DiT of 19 double and 38 single blocks, convolutional VAE)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from autotune.catalog.entry import CatalogEntry, Progress, SettledWorkload
from autotune.catalog.images import settle_image
from autotune.workload import Workload
from runtime.deployment import Deployment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autotune.catalog.built_component import ComponentBuilder
    from autotune.model_facts import ModelFacts

CLIP_TOKENS = 77
T5_TOKENS = 512

CONFIGS: dict[str, dict[str, object]] = {
    "text_encoder": {
        "vocab_size": 49408,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "max_position_embeddings": CLIP_TOKENS,
        "projection_dim": 768,
        "hidden_act": "quick_gelu",
        "eos_token_id": 2,
    },
    "text_encoder_2": {
        "vocab_size": 32128,
        "d_model": 4096,
        "d_kv": 64,
        "d_ff": 10240,
        "num_layers": 24,
        "num_heads": 64,
        "feed_forward_proj": "gated-gelu",
    },
    "transformer": {"guidance_embeds": True},
    "vae": {
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "block_out_channels": (128, 256, 512, 512),
        "layers_per_block": 2,
        "latent_channels": 16,
        "norm_num_groups": 32,
        "use_quant_conv": False,
        "use_post_quant_conv": False,
    },
}

SOURCES = (
    "transformer: defaults of diffusers FluxTransformer2DModel with guidance_embeds, equal to "
    "black-forest-labs/FLUX.1-dev transformer/config.json",
    "text_encoder: black-forest-labs/FLUX.1-dev text_encoder/config.json (CLIP ViT-L/14 text model)",
    "text_encoder_2: black-forest-labs/FLUX.1-dev text_encoder_2/config.json (T5 v1.1 XXL encoder)",
    "vae: black-forest-labs/FLUX.1-dev vae/config.json",
    "dtypes: configs/pipeline_configs/flux.py of SGLang-diffusion 0.5.23, bfloat16 throughout, as released",
    "size, steps and guidance: configs/sample/flux.py of SGLang-diffusion 0.5.23",
    "deployment: class defaults of configs/pipeline_configs/model_deployment_config.py of SGLang-diffusion 0.5.23",
)

DEPLOYMENT = Deployment(makes_images=True, default_steps=50)

DEFAULT_WORKLOAD = Workload(width=1024, height=1024, frames=1, steps=50, prompt_tokens=T5_TOKENS)


def settle_workload(workload: Workload) -> SettledWorkload:
    """Check an image request for FLUX.1-dev and bring its prompt to the length that the server pads and cuts to.

    Raises:
        InputError: the size or the frames cannot be served.
    """
    settled = settle_image("FLUX.1-dev", workload)
    notes = [f"the server pads and cuts every prompt to {T5_TOKENS} T5 and {CLIP_TOKENS} CLIP tokens"]
    if workload.prompt_tokens != T5_TOKENS:
        notes.append(f"{workload.prompt_tokens} prompt tokens become {T5_TOKENS}")
    padded = replace(settled.workload, prompt_tokens=T5_TOKENS)
    return SettledWorkload(workload=padded, notes=(*settled.notes, *notes))


def _build(configs: Mapping[str, Mapping[str, object]], workload: Workload) -> dict[str, ComponentBuilder]:
    from autotune.catalog.flux_capture import build_flux  # noqa: PLC0415 - imports torch

    return build_flux(configs, workload)


def _capture(settled: SettledWorkload, progress: Progress) -> ModelFacts:
    from autotune.catalog.flux_capture import capture_flux  # noqa: PLC0415 - imports torch

    return capture_flux(settled, CONFIGS, SOURCES, progress)


FLUX_1_DEV = CatalogEntry(
    name="FLUX.1-dev",
    aliases=("black-forest-labs/FLUX.1-dev", "FLUX1-dev", "FLUX.1", "flux-dev"),
    title="FLUX.1-dev text to image",
    default_workload=DEFAULT_WORKLOAD,
    configs=CONFIGS,
    sources=SOURCES,
    smaller_canvas=(512, 512),
    settle=settle_workload,
    capture=_capture,
    build=_build,
)
