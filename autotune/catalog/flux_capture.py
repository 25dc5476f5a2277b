"""Reads FLUX.1-dev's bytes and work from the classes of diffusers and transformers. Imports torch: load it late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.transformers.transformer_flux import FluxTransformer2DModel
from transformers.models.clip.configuration_clip import CLIPTextConfig
from transformers.models.clip.modeling_clip import CLIPTextModel
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5EncoderModel

from autotune.catalog.built_component import BuiltComponent, ComponentBuilder, InputFactory, capture_components
from autotune.catalog.component_capture import assemble_facts, build_image_vae, is_copied_at_load, one_group
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


def _build_clip(config: Mapping[str, Any], _: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = CLIPTextModel(CLIPTextConfig(**config))
    cast_weights(model, torch.bfloat16)
    stacks = {CLIP_LAYERS: list(model.encoder.layers)}
    spec = build_component(
        "text_encoder",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        is_transformed=is_copied_at_load,
    )

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model(input_ids=make_input(1, CLIP_TOKENS, dtype=torch.long))

    finish = partial(one_group, spec, stacks=(CLIP_LAYERS,))
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_t5(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = T5EncoderModel(T5Config(**config))
    cast_weights(model, torch.bfloat16)
    stacks = {T5_BLOCKS: list(model.encoder.block)}
    spec = build_component(
        "text_encoder_2",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        host_tables=[model.shared.weight],
        is_transformed=is_copied_at_load,
    )

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model(input_ids=make_input(1, workload.prompt_tokens, dtype=torch.long))

    finish = partial(one_group, spec, stacks=(T5_BLOCKS,))
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_transformer(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = FluxTransformer2DModel(**config)
    cast_weights(model, torch.bfloat16)
    stacks = {DOUBLE: list(model.transformer_blocks), SINGLE: list(model.single_transformer_blocks)}
    spec = build_component(
        "transformer", model, stacks=stacks, run_dtype="bfloat16", default_mode="component-offload", is_dit=True
    )
    batch, text = workload.batch, workload.prompt_tokens
    image = (workload.height // 16) * (workload.width // 16)

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        bf16 = torch.bfloat16
        return model(
            hidden_states=make_input(batch, image, model.config.in_channels, dtype=bf16),
            encoder_hidden_states=make_input(batch, text, model.config.joint_attention_dim, dtype=bf16),
            pooled_projections=make_input(batch, model.config.pooled_projection_dim, dtype=bf16),
            timestep=make_input(batch, dtype=bf16),
            img_ids=make_input(image, 3, dtype=bf16),
            txt_ids=make_input(text, 3, dtype=bf16),
            guidance=make_input(batch),
            return_dict=False,
        )

    finish = partial(one_group, spec, stacks=(DOUBLE, SINGLE), passes=workload.steps)
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_vae(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = AutoencoderKL(**config)
    cast_weights(model, torch.bfloat16)
    channels = model.config.latent_channels
    return build_image_vae(model, (workload.batch, channels, workload.height // 8, workload.width // 8))


def build_flux(configs: Mapping[str, Mapping[str, Any]], workload: Workload) -> dict[str, ComponentBuilder]:
    """A builder of each component of FLUX.1-dev, in order of use."""
    builders = {
        "text_encoder": _build_clip,
        "text_encoder_2": _build_t5,
        "transformer": _build_transformer,
        "vae": _build_vae,
    }
    return {name: partial(build, configs[name], workload) for name, build in builders.items()}


def capture_flux(
    settled: SettledWorkload, configs: Mapping[str, Mapping[str, Any]], sources: tuple[str, ...], progress: Progress
) -> ModelFacts:
    """Bytes, request and work of FLUX.1-dev under a settled workload."""
    captured = capture_components("FLUX.1-dev", build_flux(configs, settled.workload), progress)
    first = captured["text_encoder"]
    captured["text_encoder"] = first._replace(use=replace(first.use, hands_over=True))
    return assemble_facts(
        "FLUX.1-dev",
        settled,
        captured,
        loaded=tuple(captured),
        sources=sources,
        notes=NOTES,
        deployment=DEPLOYMENT,
    )
