"""HunyuanVideo: text to video (Llama-3-8B and CLIP-L encoders, DiT of 20 double and 40 single blocks, 3D VAE)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from autotune.catalog.entry import CatalogEntry, Progress, SettledWorkload
from autotune.workload import Recipe, Workload
from runtime.deployment import Deployment
from runtime.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autotune.catalog.built_component import ComponentBuilder
    from autotune.model_facts import ModelFacts

# SGLang-diffusion 0.5.23, configs/pipeline_configs/hunyuan.py and configs/models/encoders/{llama,clip}.py.
TEMPLATE_TOKENS = 95
"""Tokens of the prompt template that the encoder reads and the pipeline drops (``crop_start``)."""
MAX_ENCODER_TOKENS = 256
CLIP_TOKENS = 77
SIDE_MULTIPLE = 16
"""Eight pixels per latent, two latents per patch."""
FRAMES_PER_LATENT = 4

CONFIGS: dict[str, dict[str, object]] = {
    "text_encoder": {
        "vocab_size": 128320,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "text_encoder_2": {
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
    "transformer": {},
    "vae": {},
}

SOURCES = (
    "transformer: defaults of diffusers HunyuanVideoTransformer3DModel, equal to hunyuanvideo-community/HunyuanVideo "
    "transformer/config.json, released in bfloat16 (scripts/convert_hunyuan_video_to_diffusers.py of diffusers)",
    "text_encoder: hunyuanvideo-community/HunyuanVideo text_encoder/config.json (the language model of "
    "llava-llama-3-8b-v1_1 without its head), released in float16",
    "text_encoder_2: hunyuanvideo-community/HunyuanVideo text_encoder_2/config.json (CLIP ViT-L/14), float16",
    "vae: defaults of diffusers AutoencoderKLHunyuanVideo, equal to hunyuanvideo-community/HunyuanVideo "
    "vae/config.json; SGLang-diffusion 0.5.23 builds it without the encoder (configs/pipeline_configs/hunyuan.py); "
    "released in float32: assumed, the conversion keeps the original's dtype",
    "dtypes: configs/pipeline_configs/hunyuan.py of SGLang-diffusion 0.5.23: bfloat16 DiT, float16 encoders and VAE",
    "size, frames, steps and guidance: configs/sample/hunyuan.py of SGLang-diffusion 0.5.23; prompt: the longest",
    "deployment: class defaults of configs/pipeline_configs/model_deployment_config.py of SGLang-diffusion 0.5.23",
)

DEPLOYMENT = Deployment(makes_images=False, default_steps=50)

DEFAULT_WORKLOAD = Workload(
    width=1280, height=720, frames=125, steps=50, prompt_tokens=MAX_ENCODER_TOKENS - TEMPLATE_TOKENS
)


def count_latent_frames(frames: int) -> int:
    """Latent frames of a video: one for the first frame and one for every four after it."""
    return (frames - 1) // FRAMES_PER_LATENT + 1


def settle_workload(workload: Workload) -> SettledWorkload:
    """Check a video request for HunyuanVideo, cut its sides and its prompt, and bring its frames to 4 n + 1.

    Raises:
        InputError: a side is below one patch.
    """
    width, height = (side // SIDE_MULTIPLE * SIDE_MULTIPLE for side in (workload.width, workload.height))
    if min(width, height) < SIDE_MULTIPLE:
        nearest = (max(SIDE_MULTIPLE, width), max(SIDE_MULTIPLE, height))
        raise InputError(
            f"{workload.width}x{workload.height} is smaller than one patch of HunyuanVideo: the nearest is "
            f"--width {nearest[0]} --height {nearest[1]}"
        )
    frames = (count_latent_frames(workload.frames) - 1) * FRAMES_PER_LATENT + 1
    tokens = min(workload.prompt_tokens, MAX_ENCODER_TOKENS - TEMPLATE_TOKENS)
    notes = []
    if (width, height) != (workload.width, workload.height):
        notes.append(
            f"{workload.width}x{workload.height} is cut to {width}x{height}: sides are multiples of {SIDE_MULTIPLE}"
        )
    if frames != workload.frames:
        notes.append(f"{workload.frames} frames become {frames}: the VAE makes 4 n + 1")
    if tokens != workload.prompt_tokens:
        notes.append(
            f"{workload.prompt_tokens} prompt tokens are cut to {tokens}: with its template it has {MAX_ENCODER_TOKENS}"
        )
    if workload.recipe is Recipe.EXACT:
        notes.append("the quality recipe changes nothing for HunyuanVideo: its VAE decodes one tile at a time")
    settled = replace(workload, width=width, height=height, frames=frames, prompt_tokens=tokens)
    return SettledWorkload(workload=settled, notes=tuple(notes))


def _build(configs: Mapping[str, Mapping[str, object]], workload: Workload) -> dict[str, ComponentBuilder]:
    from autotune.catalog.hunyuan_video_capture import build_hunyuan_video  # noqa: PLC0415 - imports torch

    return build_hunyuan_video(configs, workload)


def _capture(settled: SettledWorkload, progress: Progress) -> ModelFacts:
    from autotune.catalog.hunyuan_video_capture import capture_hunyuan_video  # noqa: PLC0415 - imports torch

    return capture_hunyuan_video(settled, CONFIGS, SOURCES, progress)


HUNYUAN_VIDEO = CatalogEntry(
    name="HunyuanVideo",
    aliases=("hunyuanvideo-community/HunyuanVideo", "hunyuan-video", "Hunyuan"),
    title="HunyuanVideo text to video",
    default_workload=DEFAULT_WORKLOAD,
    configs=CONFIGS,
    sources=SOURCES,
    smaller_canvas=(960, 544),
    settle=settle_workload,
    capture=_capture,
    build=_build,
)
