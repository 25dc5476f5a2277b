"""Reads Qwen-Image's bytes and work from the classes of diffusers and transformers. Imports torch: load it late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_qwenimage import AutoencoderKLQwenImage
from diffusers.models.transformers.transformer_qwenimage import QwenImageTransformer2DModel
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLForConditionalGeneration

from autotune.capture import capture_forward
from autotune.catalog.component_capture import (
    CapturedComponent,
    assemble_facts,
    capture_image_vae,
    is_copied_at_load,
    made_from,
    meta_empty,
    one_group,
)
from autotune.catalog.entry import Progress, SettledWorkload
from autotune.catalog.qwen_image import DEPLOYMENT, FORWARDS_PER_STEP, TEMPLATE_TOKENS
from autotune.meta_tracker import WorkTracker
from autotune.meta_weights import build_component, cast_weights, count_bytes
from autotune.model_facts import ModelFacts
from autotune.workload import Workload

LANGUAGE, BLOCKS = "model.language_model.layers", "transformer_blocks"

NOTES = (
    "the server guides Qwen-Image with a negative prompt by default: each step is two forwards, counted as two passes "
    "with the same number of text rows (its own negative prompt is shorter)",
    "the negative prompt is encoded once and kept by the server's conditioning cache: later requests encode one prompt",
    "prompt_tokens counts the text rows of the DiT; the encoder reads 34 tokens of template more",
    "the server merges the text stream's query, key and value projections of each block at load: they cannot stay "
    "mapped",
    "the server keeps this encoder's vocabulary table and language-model head on the device, and applies the head",
    "activation peaks are those of the library's eager graph: an estimate for the server, which fuses several steps",
)


def _capture_text_encoder(config: Mapping[str, Any], workload: Workload) -> CapturedComponent:
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**config))
    cast_weights(model, torch.bfloat16)
    vision_bytes = count_bytes(model.model.visual.parameters())
    del model.model.visual
    language = model.model.language_model
    stacks = {LANGUAGE: language.layers}
    spec = build_component(
        "text_encoder",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        is_transformed=is_copied_at_load,
        unread_checkpoint_bytes=vision_bytes,
    )
    tokens = workload.prompt_tokens + TEMPLATE_TOKENS

    def run(_: WorkTracker) -> None:
        ids = meta_empty(1, tokens, dtype=torch.long)
        positions = meta_empty(3, 1, tokens, dtype=torch.long)
        encoded = language(input_ids=ids, position_ids=positions, attention_mask=None, use_cache=False)
        model.lm_head(encoded.last_hidden_state)

    return one_group(spec, capture_forward(model, run, stacks=stacks), (LANGUAGE,))


def _capture_transformer(config: Mapping[str, Any], workload: Workload) -> CapturedComponent:
    with torch.device("meta"):
        model = QwenImageTransformer2DModel(**config)
    cast_weights(model, torch.bfloat16)
    stacks = {BLOCKS: model.transformer_blocks}
    spec = build_component(
        "transformer",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="component-offload",
        is_dit=True,
        is_transformed=made_from("add_q_proj", "add_k_proj", "add_v_proj"),
    )
    high, wide = workload.height // 16, workload.width // 16

    def run(_: WorkTracker) -> None:
        model(
            hidden_states=meta_empty(workload.batch, high * wide, model.config.in_channels, dtype=torch.bfloat16),
            encoder_hidden_states=meta_empty(
                workload.batch, workload.prompt_tokens, model.config.joint_attention_dim, dtype=torch.bfloat16
            ),
            timestep=meta_empty(workload.batch, dtype=torch.bfloat16),
            img_shapes=[[(1, high, wide)]] * workload.batch,
            return_dict=False,
        )

    forward = capture_forward(model, run, stacks=stacks)
    return one_group(spec, forward, (BLOCKS,), passes=FORWARDS_PER_STEP * workload.steps)


def _capture_vae(config: Mapping[str, Any], workload: Workload) -> CapturedComponent:
    with torch.device("meta"):
        model = AutoencoderKLQwenImage(**config)
    cast_weights(model, torch.bfloat16)
    return capture_image_vae(model, (workload.batch, model.config.z_dim, 1, workload.height // 8, workload.width // 8))


def capture_qwen_image(
    settled: SettledWorkload, configs: Mapping[str, Mapping[str, Any]], sources: tuple[str, ...], progress: Progress
) -> ModelFacts:
    """Bytes, request and work of Qwen-Image under a settled workload."""
    captures = {"text_encoder": _capture_text_encoder, "transformer": _capture_transformer, "vae": _capture_vae}
    captured: dict[str, CapturedComponent] = {}
    for name, capture in captures.items():
        progress(f"reading {name} of Qwen-Image")
        captured[name] = capture(configs[name], settled.workload)
    return assemble_facts(
        "Qwen-Image",
        settled,
        captured,
        loaded=tuple(captures),
        sources=sources,
        notes=NOTES,
        deployment=DEPLOYMENT,
    )
