"""MiniMax-H3: video with sound from text.

A Qwen3-VL-32B text encoder, a DiT of 50 blocks, a video VAE (transformer decoder) and an audio VAE (BigVGAN decoder).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from autotune.catalog.entry import CatalogEntry, Progress, SettledWorkload
from autotune.catalog.minimax_h3_variants import VARIANTS, derive_variant
from autotune.workload import Recipe, Workload
from runtime.deployment import Deployment
from runtime.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autotune.catalog.built_component import ComponentBuilder
    from autotune.model_facts import ModelFacts

# SGLang-diffusion 0.5.23, pipelines_core/stages/model_specific_stages/minimax_h3: canvas.py, resolved_plan.py,
# constants.py, time_request.py. Frame and latent counts are the video VAE's clip_length 17 and token_drop 3.
CANVAS_MULTIPLE = 32
CANVAS_MAX_PIXELS = 768 * 1344
MAX_ASPECT_RATIO = 4.0
FRAMES_PER_SECOND = 24
AUDIO_LATENTS_PER_SECOND = 40
FRAMES_PER_CLIP = 17
LATENTS_PER_CLIP = 5
DURATION_RANGE_S = (4.0, 15.0)
# Server, configs/models/vaes/minimax_h3_video.py: decoder_tile_batch under the default quality; "exact" takes one tile.
TILES_PER_PASS = {Recipe.DEFAULT: 64, Recipe.EXACT: 1}
RELEASED_LANGUAGE_LAYERS = 64
"""Language layers in the text encoder's file (Qwen/Qwen3-VL-32B-Instruct config.json); the server reads 50."""

CONFIGS: dict[str, dict[str, object]] = {
    "text_encoder": {
        "text_config": {
            "vocab_size": 151936,
            "hidden_size": 5120,
            "intermediate_size": 25600,
            "num_hidden_layers": 50,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        "vision_config": {
            "depth": 27,
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_heads": 16,
            "num_position_embeddings": 2304,
            "out_hidden_size": 5120,
            "deepstack_visual_indexes": [8, 16, 24],
        },
    },
    "transformer": {},
    "video_vae": {},
    "audio_vae": {},
}

SOURCES = (
    "transformer: defaults of diffusers MiniMaxH3Transformer3DModel, the released configuration; with the stored "
    "rotary frequencies they reproduce the index total of 66,280,430,144 bytes",
    "text_encoder: Qwen/Qwen3-VL-32B-Instruct config.json with 50 of 64 language layers and no head, as "
    "configs/models/encoders/minimax_h3_qwen3vl.py of SGLang-diffusion 0.5.23 selects",
    "video_vae: defaults of diffusers AutoencoderKLMiniMaxH3, released in float32; the decoder's linear layers are "
    "float16 from load (runtime/models/vaes/minimax_h3_video_vae/vae_vit.py, loader/component_loaders/vae_loader.py)",
    "audio_vae: defaults of diffusers AutoencoderKLMiniMaxH3Audio, float32",
    "dtypes and deployment: configs/pipeline_configs/minimax_h3.py of SGLang-diffusion 0.5.23; default steps: "
    "configs/sample/minimax_h3.py",
)

DEPLOYMENT = Deployment(
    makes_images=False,
    dit_layerwise_modes=("auto", "memory"),
    keep_resident_min_gib=120.0,
    keep_resident_groups=("dit", "text_encoder", "vae"),
    default_steps=50,
)

DEFAULT_WORKLOAD = Workload(width=1344, height=768, frames=124, steps=50, prompt_tokens=512)


def resolve_canvas(width: int, height: int) -> tuple[int, int]:
    """The canvas that the server makes of a wish: at most 768 x 1344 pixels, then both sides rounded to 32.

    Source: ``minimax_h3_resolve_spatial_shape`` in the server's resolved_plan.py, with the ratio held to 1:4 .. 4:1.
    """
    wide = float(min(width, height * MAX_ASPECT_RATIO))
    high = float(min(height, width * MAX_ASPECT_RATIO))
    shrink = min(1.0, math.sqrt(CANVAS_MAX_PIXELS / (wide * high)))
    sides = [max(1, round(side * shrink / CANVAS_MULTIPLE)) * CANVAS_MULTIPLE for side in (wide, high)]
    return sides[0], sides[1]


def align_frames(frames: int) -> int:
    """The next frame count of the form 17 n + 5, which is what the video VAE covers."""
    return frames + (LATENTS_PER_CLIP - frames) % FRAMES_PER_CLIP


def count_latent_frames(frames: int) -> int:
    """Latent frames of an aligned frame count: 5 n + 2."""
    return (frames - LATENTS_PER_CLIP) // FRAMES_PER_CLIP * LATENTS_PER_CLIP + 2


def count_audio_latents(frames: int) -> int:
    """Audio latents of one channel over the length of the video."""
    return round(frames / FRAMES_PER_SECOND * AUDIO_LATENTS_PER_SECOND)


def count_video_rows(workload: Workload) -> int:
    """Rows of the packed sequence that hold video: one per latent frame and patch of 32 x 32 pixels."""
    patches = (workload.width // CANVAS_MULTIPLE) * (workload.height // CANVAS_MULTIPLE)
    return count_latent_frames(workload.frames) * patches


def count_packed_rows(workload: Workload) -> int:
    """Rows of the packed sequence: text, two audio channels, video."""
    return workload.prompt_tokens + 2 * count_audio_latents(workload.frames) + count_video_rows(workload)


def settle_workload(workload: Workload) -> SettledWorkload:
    """Check a request and round its frames as the server does.

    Raises:
        InputError: the canvas, the duration, the number of steps or the batch cannot be served.
    """
    _check_shape(workload)
    aligned = replace(workload, frames=align_frames(workload.frames))
    passes, rows = workload.steps - 1, count_packed_rows(aligned)
    notes = [
        f"{workload.steps} sigma points run {passes} forwards (guidance is distilled, one forward each); "
        f"SGLang-diffusion 0.5.23 counts forwards, so its num_inference_steps is {passes} for this request",
        f"the packed sequence has {rows:,} rows; the server pads it to a multiple of 64, which is not counted",
    ]
    if aligned != workload:
        notes.append(f"{workload.frames} frames are rounded up to {aligned.frames}: the video VAE covers 17 n + 5")
    return SettledWorkload(workload=aligned, notes=tuple(notes))


def _check_shape(workload: Workload) -> None:
    if workload.batch != 1:
        raise InputError(
            f"--batch is {workload.batch}: MiniMax-H3 makes one video per request; use --batch 1 and repeat the request"
        )
    if workload.steps < 2:
        raise InputError(f"--steps is {workload.steps}: a schedule needs at least 2 sigma points")
    canvas = resolve_canvas(workload.width, workload.height)
    if canvas != (workload.width, workload.height):
        raise InputError(
            f"{workload.width}x{workload.height} is no canvas of MiniMax-H3: sides are multiples of {CANVAS_MULTIPLE}, "
            f"1:4 to 4:1, about {CANVAS_MAX_PIXELS:,} pixels at most; "
            f"the nearest is --width {canvas[0]} --height {canvas[1]}"
        )
    first, last = (align_frames(round(limit_s * FRAMES_PER_SECOND)) for limit_s in DURATION_RANGE_S)
    frames = align_frames(workload.frames)
    if not first <= frames <= last:
        raise InputError(
            f"--frames is {workload.frames}: MiniMax-H3 makes 4 to 15 seconds at {FRAMES_PER_SECOND} frames a second; "
            f"the nearest is --frames {min(max(frames, first), last)}"
        )


def _build(configs: Mapping[str, Mapping[str, object]], workload: Workload) -> dict[str, ComponentBuilder]:
    from autotune.catalog.minimax_h3_capture import build_h3  # noqa: PLC0415 - imports torch

    return build_h3(configs, workload)


def _capture(settled: SettledWorkload, progress: Progress) -> ModelFacts:
    from autotune.catalog.minimax_h3_capture import capture_h3  # noqa: PLC0415 - imports torch

    return capture_h3(settled, CONFIGS, SOURCES, progress)


H3 = CatalogEntry(
    name="H3",
    aliases=("MiniMax-H3", "MiniMaxAI/MiniMax-H3"),
    title="MiniMax-H3 text to video with sound",
    default_workload=DEFAULT_WORKLOAD,
    configs=CONFIGS,
    sources=SOURCES,
    smaller_canvas=(864, 480),
    settle=settle_workload,
    capture=_capture,
    build=_build,
    variants=VARIANTS,
    derive=derive_variant,
)
