"""LTX-2: video with sound from text.

A Gemma 3 encoder, connectors, a DiT of 48 blocks with one stream for the picture and one for the sound, a video VAE, an
audio VAE and a vocoder. One stage: no latent is enlarged and denoised again.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from autotune.catalog.entry import CatalogEntry, Progress, SettledWorkload
from autotune.catalog.videos import VideoGrid, settle_video
from autotune.workload import Workload
from runtime.deployment import Deployment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autotune.catalog.built_component import ComponentBuilder
    from autotune.model_facts import ModelFacts

# Server: configs/models/vaes/ltx_video.py, configs/pipeline_configs/ltx_2.py, configs/models/encoders/gemma_3.py.
GRID = VideoGrid(pixels_per_latent=32, latents_per_patch=1, frames_per_latent=8, prompt_tokens=1024)

# Server: configs/sample/ltx_2.py; configs/models/vaes/ltx_audio.py (16,000 samples a second, hops of 160, latents of 4
# hops).
FRAMES_PER_SECOND = 24
AUDIO_LATENTS_PER_SECOND = 16000 / 160 / 4

PROMPTS_PER_PASS = 2
"""Guidance: the prompt and the negative prompt are one batch of one forward."""

# Server: AutoencoderKLLTX2Video in runtime/models/vaes/ltx_2_vae.py; tiling is on by default for this model.
TILE_PIXELS = 512
TILE_STRIDE_PIXELS = 448

CONFIGS: dict[str, dict[str, object]] = {
    "text_encoder": {
        "text_config": {
            "vocab_size": 262208,
            "hidden_size": 3840,
            "intermediate_size": 15360,
            "num_hidden_layers": 48,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "sliding_window": 1024,
        },
        "vision_config": {
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "image_size": 896,
            "patch_size": 14,
            "vision_use_head": False,
        },
    },
    "connectors": {},
    "transformer": {},
    "vae": {"decoder_causal": False, "spatial_compression_ratio": 32, "temporal_compression_ratio": 8},
    "audio_vae": {},
    "vocoder": {},
}

SOURCES = (
    "text_encoder: google/gemma-3-12b-it config.json, the encoder of Lightricks/LTX-2, with its vision tower and "
    "projector (runtime/models/encoders/gemma_3.py of SGLang-diffusion 0.5.23); bfloat16 files are assumed",
    "connectors: defaults of diffusers LTX2TextConnectors (LTX-2.0)",
    "transformer: defaults of diffusers LTX2VideoTransformer3DModel, the sizes of the released 19B model "
    "(scripts/convert_ltx2_to_diffusers.py of huggingface/diffusers, version 2.0)",
    "vae: defaults of diffusers AutoencoderKLLTX2Video with the ratios and the decoder of the same script",
    "audio_vae: defaults of diffusers AutoencoderKLLTX2Audio, equal to configs/models/vaes/ltx_audio.py of the server",
    "vocoder: defaults of diffusers LTX2Vocoder, equal to the same script",
    "dtypes and deployment: configs/pipeline_configs/ltx_2.py and base.py of SGLang-diffusion 0.5.23, bfloat16 "
    "throughout",
    "size, frames, steps and guidance: LTX2SamplingParams in configs/sample/ltx_2.py",
    "order of load: runtime/managers/memory_managers/component_loading_order.py",
)

DEPLOYMENT = Deployment(makes_images=False, keep_resident_min_gib=70.0, keep_resident_groups=("dit",), default_steps=40)

DEFAULT_WORKLOAD = Workload(width=768, height=512, frames=121, steps=40, prompt_tokens=GRID.prompt_tokens)


def count_audio_latents(frames: int) -> int:
    """Audio latents over the length of the video."""
    return round(frames / FRAMES_PER_SECOND * AUDIO_LATENTS_PER_SECOND)


def count_decode_passes(workload: Workload) -> int:
    """Passes of the video decoder: one per tile over all frames."""
    if max(workload.width, workload.height) <= TILE_PIXELS:
        return 1
    return math.prod(math.ceil(side / TILE_STRIDE_PIXELS) for side in (workload.width, workload.height))


def settle_workload(workload: Workload) -> SettledWorkload:
    """Check a request for LTX-2 and round it as the server does.

    Raises:
        InputError: a side below one latent.
    """
    settled = settle_video("LTX-2", workload, GRID)
    frames = settled.workload.frames
    note = (
        f"sound: {count_audio_latents(frames)} latents for {frames} frames at {FRAMES_PER_SECOND} frames a second, the "
        "server's default"
    )
    return replace(settled, notes=(*settled.notes, note))


def _build(configs: Mapping[str, Mapping[str, object]], workload: Workload) -> dict[str, ComponentBuilder]:
    from autotune.catalog.ltx_2_capture import build_ltx_2  # noqa: PLC0415 - imports torch

    return build_ltx_2(configs, workload)


def _capture(settled: SettledWorkload, progress: Progress) -> ModelFacts:
    from autotune.catalog.ltx_2_capture import capture_ltx_2  # noqa: PLC0415 - imports torch

    return capture_ltx_2(settled, CONFIGS, SOURCES, progress)


LTX_2 = CatalogEntry(
    name="LTX-2",
    aliases=("Lightricks/LTX-2", "LTX2", "ltx_2", "LTX-2-19B"),
    title="LTX-2 text to video with sound, one stage",
    default_workload=DEFAULT_WORKLOAD,
    configs=CONFIGS,
    sources=SOURCES,
    smaller_canvas=(640, 384),
    settle=settle_workload,
    capture=_capture,
    build=_build,
)
