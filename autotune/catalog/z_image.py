"""Z-Image-Turbo: text to image in few steps (Qwen3-4B encoder, single-stream DiT of 30 blocks, convolutional VAE)."""

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

ENCODER_TOKENS = 512
ROW_MULTIPLE = 32
"""Text and image rows are each padded to a multiple of this (``SEQ_LEN_MULTIPLE`` of the server's pipeline config)."""

CONFIGS: dict[str, dict[str, object]] = {
    "text_encoder": {
        "vocab_size": 151936,
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "transformer": {},
    "vae": {
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "block_out_channels": (128, 256, 512, 512),
        "layers_per_block": 2,
        "latent_channels": 16,
        "norm_num_groups": 32,
        "sample_size": 1024,
        "use_quant_conv": False,
        "use_post_quant_conv": False,
    },
}

SOURCES = (
    "transformer: defaults of diffusers ZImageTransformer2DModel, equal to Tongyi-MAI/Z-Image-Turbo "
    "transformer/config.json: 6,154,908,736 parameters, released in float32 (24,619,634,944 bytes)",
    "text_encoder: Tongyi-MAI/Z-Image-Turbo text_encoder/config.json (Qwen3-4B, the head is the vocabulary table): "
    "4,022,468,096 parameters in bfloat16",
    "vae: Tongyi-MAI/Z-Image-Turbo vae/config.json, the VAE of FLUX.1: 83,819,683 parameters, released in float32",
    "parameters and released sizes: test/unit/test_server_args.py of SGLang-diffusion 0.5.23",
    "dtypes and deployment: configs/pipeline_configs/zimage.py and base.py of SGLang-diffusion 0.5.23, bfloat16 as run",
    "size, steps and guidance: configs/sample/zimage.py of SGLang-diffusion 0.5.23; prompt length: assumed",
)

DEPLOYMENT = Deployment(makes_images=True, keep_resident_min_gib=30.0, default_steps=9)

DEFAULT_WORKLOAD = Workload(width=1024, height=1024, frames=1, steps=9, prompt_tokens=ENCODER_TOKENS)


def settle_workload(workload: Workload) -> SettledWorkload:
    """Check an image request for Z-Image-Turbo and bring its prompt to the rows that the DiT sees.

    Raises:
        InputError: the size or the frames cannot be served.
    """
    settled = settle_image("Z-Image-Turbo", workload)
    rows = min(ENCODER_TOKENS, -(-workload.prompt_tokens // ROW_MULTIPLE) * ROW_MULTIPLE)
    notes = [
        f"the text encoder reads {ENCODER_TOKENS} tokens, padding included; the DiT reads the prompt's own, padded to "
        f"a multiple of {ROW_MULTIPLE}"
    ]
    if rows != workload.prompt_tokens:
        notes.append(f"{workload.prompt_tokens} prompt tokens become {rows} rows")
    padded = replace(settled.workload, prompt_tokens=rows)
    return SettledWorkload(workload=padded, notes=(*settled.notes, *notes))


def _build(configs: Mapping[str, Mapping[str, object]], workload: Workload) -> dict[str, ComponentBuilder]:
    from autotune.catalog.z_image_capture import build_z_image  # noqa: PLC0415 - imports torch

    return build_z_image(configs, workload)


def _capture(settled: SettledWorkload, progress: Progress) -> ModelFacts:
    from autotune.catalog.z_image_capture import capture_z_image  # noqa: PLC0415 - imports torch

    return capture_z_image(settled, CONFIGS, SOURCES, progress)


Z_IMAGE_TURBO = CatalogEntry(
    name="Z-Image-Turbo",
    aliases=("Tongyi-MAI/Z-Image-Turbo", "ZImage-Turbo", "z_image_turbo"),
    title="Z-Image-Turbo text to image",
    default_workload=DEFAULT_WORKLOAD,
    configs=CONFIGS,
    sources=SOURCES,
    smaller_canvas=(512, 512),
    settle=settle_workload,
    capture=_capture,
    build=_build,
)
