"""Reads Qwen-Image's bytes and work from the classes of diffusers and transformers. Imports torch: load it late."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_qwenimage import AutoencoderKLQwenImage
from diffusers.models.transformers.transformer_qwenimage import QwenImageTransformer2DModel
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLForConditionalGeneration

from autotune.catalog.built_component import BuiltComponent, ComponentBuilder, InputFactory, capture_components
from autotune.catalog.component_capture import (
    assemble_facts,
    build_image_vae,
    is_copied_at_load,
    made_from,
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


def _build_text_encoder(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**config))
    cast_weights(model, torch.bfloat16)
    vision_bytes = count_bytes(model.model.visual.parameters())
    del model.model.visual
    language = model.model.language_model
    stacks = {LANGUAGE: list(language.layers)}
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

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        ids = make_input(1, tokens, dtype=torch.long)
        positions = make_input(3, 1, tokens, dtype=torch.long, integers=range(tokens))
        encoded = language(input_ids=ids, position_ids=positions, attention_mask=None, use_cache=False)
        return model.lm_head(encoded.last_hidden_state)

    finish = partial(one_group, spec, stacks=(LANGUAGE,))
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_transformer(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = QwenImageTransformer2DModel(**config)
    cast_weights(model, torch.bfloat16)
    stacks = {BLOCKS: list(model.transformer_blocks)}
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

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model(
            hidden_states=make_input(workload.batch, high * wide, model.config.in_channels, dtype=torch.bfloat16),
            encoder_hidden_states=make_input(
                workload.batch, workload.prompt_tokens, model.config.joint_attention_dim, dtype=torch.bfloat16
            ),
            timestep=make_input(workload.batch, dtype=torch.bfloat16),
            img_shapes=[[(1, high, wide)]] * workload.batch,
            return_dict=False,
        )

    finish = partial(one_group, spec, stacks=(BLOCKS,), passes=FORWARDS_PER_STEP * workload.steps)
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_vae(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = AutoencoderKLQwenImage(**config)
    cast_weights(model, torch.bfloat16)
    return build_image_vae(model, (workload.batch, model.config.z_dim, 1, workload.height // 8, workload.width // 8))


def build_qwen_image(configs: Mapping[str, Mapping[str, Any]], workload: Workload) -> dict[str, ComponentBuilder]:
    """A builder of each component of Qwen-Image, in order of use."""
    builders = {"text_encoder": _build_text_encoder, "transformer": _build_transformer, "vae": _build_vae}
    return {name: partial(build, configs[name], workload) for name, build in builders.items()}


def capture_qwen_image(
    settled: SettledWorkload, configs: Mapping[str, Mapping[str, Any]], sources: tuple[str, ...], progress: Progress
) -> ModelFacts:
    """Bytes, request and work of Qwen-Image under a settled workload."""
    captured = capture_components("Qwen-Image", build_qwen_image(configs, settled.workload), progress)
    return assemble_facts(
        "Qwen-Image",
        settled,
        captured,
        loaded=tuple(captured),
        sources=sources,
        notes=NOTES,
        deployment=DEPLOYMENT,
    )
