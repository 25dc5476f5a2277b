"""Qwen-Image: text to image (Qwen2.5-VL-7B encoder, 60-block DiT, causal 3D-convolution VAE)."""

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

TEMPLATE_TOKENS = 34
"""Tokens of the prompt template that the encoder reads and the pipeline drops (``drop_idx`` of the server)."""

MAX_PROMPT_TOKENS = 1024
FORWARDS_PER_STEP = 2

CONFIGS: dict[str, dict[str, object]] = {
    "text_encoder": {
        "text_config": {
            "vocab_size": 152064,
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]},
        },
        "vision_config": {
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": 3584,
        },
    },
    "transformer": {},
    "vae": {},
}

SOURCES = (
    "transformer: defaults of diffusers QwenImageTransformer2DModel, equal to Qwen/Qwen-Image transformer/config.json",
    "text_encoder: Qwen/Qwen-Image text_encoder/config.json (Qwen2.5-VL-7B); SGLang-diffusion 0.5.23 builds it without "
    "the vision tower and with the language-model head (runtime/models/encoders/qwen2_5vl.py)",
    "vae: defaults of diffusers AutoencoderKLQwenImage, equal to Qwen/Qwen-Image vae/config.json",
    "dtypes: configs/pipeline_configs/qwen_image.py of SGLang-diffusion 0.5.23, bfloat16 throughout, as released",
    "steps and guidance: configs/sample/qwenimage.py of SGLang-diffusion 0.5.23; size: the square of the model card "
    "(the server itself falls back to 1280x720); prompt length: assumed",
    "deployment: class defaults of configs/pipeline_configs/model_deployment_config.py of SGLang-diffusion 0.5.23",
)

# The larger threshold in the server's qwen_image.py belongs to Qwen-Image-Layered alone.
DEPLOYMENT = Deployment(makes_images=True, default_steps=50)

DEFAULT_WORKLOAD = Workload(width=1024, height=1024, frames=1, steps=50, prompt_tokens=512)


def settle_workload(workload: Workload) -> SettledWorkload:
    """Check an image request for Qwen-Image and cut its prompt as the server does.

    Raises:
        InputError: the size or the frames cannot be served.
    """
    settled = settle_image("Qwen-Image", workload)
    longest = MAX_PROMPT_TOKENS - TEMPLATE_TOKENS
    if workload.prompt_tokens <= longest:
        return settled
    note = f"{workload.prompt_tokens} prompt tokens are cut to {longest}: with its template it has {MAX_PROMPT_TOKENS}"
    cut = replace(settled.workload, prompt_tokens=longest)
    return SettledWorkload(workload=cut, notes=(*settled.notes, note))


def _build(configs: Mapping[str, Mapping[str, object]], workload: Workload) -> dict[str, ComponentBuilder]:
    from autotune.catalog.qwen_image_capture import build_qwen_image  # noqa: PLC0415 - imports torch

    return build_qwen_image(configs, workload)


def _capture(settled: SettledWorkload, progress: Progress) -> ModelFacts:
    from autotune.catalog.qwen_image_capture import capture_qwen_image  # noqa: PLC0415 - imports torch

    return capture_qwen_image(settled, CONFIGS, SOURCES, progress)


QWEN_IMAGE = CatalogEntry(
    name="Qwen-Image",
    aliases=("Qwen/Qwen-Image", "qwen_image", "QwenImage"),
    title="Qwen-Image text to image",
    default_workload=DEFAULT_WORKLOAD,
    configs=CONFIGS,
    sources=SOURCES,
    smaller_canvas=(512, 512),
    settle=settle_workload,
    capture=_capture,
    build=_build,
)
