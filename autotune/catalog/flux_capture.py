"""Reads FLUX.1-dev's bytes and work from the classes of diffusers and transformers. Imports torch: load it late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.transformers.transformer_flux import FluxTransformer2DModel
from transformers.models.clip.configuration_clip import CLIPTextConfig
from transformers.models.clip.modeling_clip import CLIPTextModel
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5EncoderModel

from autotune.capture import capture_forward
from autotune.catalog.component_capture import (
    CapturedComponent,
    assemble_facts,
    capture_image_vae,
    is_copied_at_load,
    meta_empty,
    one_group,
)
from autotune.catalog.entry import Progress, SettledWorkload
from autotune.catalog.flux import CLIP_TOKENS, DEPLOYMENT
from autotune.meta_tracker import WorkTracker
from autotune.meta_weights import build_component, cast_weights
from autotune.model_facts import ModelFacts
from autotune.workload import Workload

CLIP_LAYERS, T5_BLOCKS = "text_model.encoder.layers", "encoder.block"
DOUBLE, SINGLE = "transformer_blocks", "single_transformer_blocks"

NOTES = (
    "guidance is distilled: each step is one forward, and each pass runs the double blocks and then the single blocks",
    "the T5 vocabulary table is 251 MiB in bfloat16, below the 256 MiB from which the server keeps a table on the host",
    "activation peaks are those of the library's eager graph: an estimate for the server, which fuses several steps",
)


def _capture_clip(config: Mapping[str, Any], _: Workload) -> CapturedComponent:
    with torch.device("meta"):
        model = CLIPTextModel(CLIPTextConfig(**config))
    cast_weights(model, torch.bfloat16)
    stacks = {CLIP_LAYERS: model.encoder.layers}
    spec = build_component(
        "text_encoder",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        is_transformed=is_copied_at_load,
    )
    forward = capture_forward(
        model, lambda _: model(input_ids=meta_empty(1, CLIP_TOKENS, dtype=torch.long)), stacks=stacks
    )
    return one_group(spec, forward, (CLIP_LAYERS,))


def _capture_t5(config: Mapping[str, Any], workload: Workload) -> CapturedComponent:
    with torch.device("meta"):
        model = T5EncoderModel(T5Config(**config))
    cast_weights(model, torch.bfloat16)
    stacks = {T5_BLOCKS: model.encoder.block}
    spec = build_component(
        "text_encoder_2",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        host_tables=[model.shared.weight],
        is_transformed=is_copied_at_load,
    )
    forward = capture_forward(
        model, lambda _: model(input_ids=meta_empty(1, workload.prompt_tokens, dtype=torch.long)), stacks=stacks
    )
    return one_group(spec, forward, (T5_BLOCKS,))


def _capture_transformer(config: Mapping[str, Any], workload: Workload) -> CapturedComponent:
    with torch.device("meta"):
        model = FluxTransformer2DModel(**config)
    cast_weights(model, torch.bfloat16)
    stacks = {DOUBLE: model.transformer_blocks, SINGLE: model.single_transformer_blocks}
    spec = build_component(
        "transformer", model, stacks=stacks, run_dtype="bfloat16", default_mode="component-offload", is_dit=True
    )
    batch, text = workload.batch, workload.prompt_tokens
    image = (workload.height // 16) * (workload.width // 16)

    def run(_: WorkTracker) -> None:
        bf16 = torch.bfloat16
        model(
            hidden_states=meta_empty(batch, image, model.config.in_channels, dtype=bf16),
            encoder_hidden_states=meta_empty(batch, text, model.config.joint_attention_dim, dtype=bf16),
            pooled_projections=meta_empty(batch, model.config.pooled_projection_dim, dtype=bf16),
            timestep=meta_empty(batch, dtype=bf16),
            img_ids=meta_empty(image, 3, dtype=bf16),
            txt_ids=meta_empty(text, 3, dtype=bf16),
            guidance=meta_empty(batch),
            return_dict=False,
        )

    return one_group(spec, capture_forward(model, run, stacks=stacks), (DOUBLE, SINGLE), passes=workload.steps)


def _capture_vae(config: Mapping[str, Any], workload: Workload) -> CapturedComponent:
    with torch.device("meta"):
        model = AutoencoderKL(**config)
    cast_weights(model, torch.bfloat16)
    channels = model.config.latent_channels
    return capture_image_vae(model, (workload.batch, channels, workload.height // 8, workload.width // 8))


def capture_flux(
    settled: SettledWorkload, configs: Mapping[str, Mapping[str, Any]], sources: tuple[str, ...], progress: Progress
) -> ModelFacts:
    """Bytes, request and work of FLUX.1-dev under a settled workload."""
    captures = {
        "text_encoder": _capture_clip,
        "text_encoder_2": _capture_t5,
        "transformer": _capture_transformer,
        "vae": _capture_vae,
    }
    captured: dict[str, CapturedComponent] = {}
    for name, capture in captures.items():
        progress(f"reading {name} of FLUX.1-dev")
        captured[name] = capture(configs[name], settled.workload)
    first = captured["text_encoder"]
    captured["text_encoder"] = first._replace(use=replace(first.use, hands_over=True))
    return assemble_facts(
        "FLUX.1-dev",
        settled,
        captured,
        loaded=tuple(captures),
        sources=sources,
        notes=NOTES,
        deployment=DEPLOYMENT,
    )
