"""Reads HunyuanVideo's bytes and work from the classes of diffusers and transformers. Imports torch: load it late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_hunyuan_video import AutoencoderKLHunyuanVideo
from diffusers.models.transformers.transformer_hunyuan_video import HunyuanVideoTransformer3DModel
from torch import Tensor
from transformers.models.clip.configuration_clip import CLIPTextConfig
from transformers.models.clip.modeling_clip import CLIPTextModel
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaModel

from autotune.capture import ForwardWork
from autotune.catalog.built_component import (
    BuiltComponent,
    CapturedComponent,
    ComponentBuilder,
    InputFactory,
    capture_components,
)
from autotune.catalog.component_capture import assemble_facts, is_copied_at_load, made_from, one_group
from autotune.catalog.entry import Progress, SettledWorkload
from autotune.catalog.hunyuan_video import CLIP_TOKENS, DEPLOYMENT, TEMPLATE_TOKENS, count_latent_frames
from autotune.catalog.overlapping_decode import OverlappingDecode, TileGeometry
from autotune.meta_tracker import WorkTracker
from autotune.meta_weights import build_component, cast_weights, count_bytes
from autotune.model_facts import ModelFacts
from autotune.workload import Workload

LLAMA_LAYERS, CLIP_LAYERS = "layers", "text_model.encoder.layers"
DOUBLE, SINGLE = "double_blocks", "single_blocks"
UP_BLOCKS = "decoder.up_blocks"

NOTES = (
    "guidance is embedded: each step is one forward, and each pass runs the double blocks and then the single blocks",
    "the two token-refiner blocks are not streamed: they stay on the device and run in every forward",
    "the Llama encoder runs all 32 layers and its norm although the DiT reads the hidden state after layer 30; its "
    "vocabulary table stays on the device",
    "prompt_tokens counts the text rows of the DiT; the Llama encoder reads 95 tokens of template more, and nothing is "
    "padded; CLIP is taken to read as many tokens, 77 at most",
    "the server merges the query, key and value projections of every block, and the first product of the single "
    "blocks, at load: they cannot stay mapped",
    "the VAE decodes tiles of 256 pixels (stride 192) and 17 frames (stride 12), one a pass; its encoder is not loaded",
    "activation peaks are those of the library's eager graph: an estimate for the server, which fuses several steps",
)


def _build_llama(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = LlamaModel(LlamaConfig(**config))
    cast_weights(model, torch.float16)
    stacks = {LLAMA_LAYERS: list(model.layers)}
    spec = build_component(
        "text_encoder",
        model,
        stacks=stacks,
        run_dtype="float16",
        default_mode="layerwise-offload",
        is_transformed=is_copied_at_load,
    )
    tokens = workload.prompt_tokens + TEMPLATE_TOKENS

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        ids = make_input(1, tokens, dtype=torch.long)
        positions = make_input(1, tokens, dtype=torch.long, integers=range(tokens))
        # A whole mask: transformers would read the positions to make one.
        mask = make_input(1, 1, tokens, tokens, dtype=torch.bool, integers=1)
        return model(input_ids=ids, position_ids=positions, attention_mask=mask, use_cache=False)

    def finish(forward: ForwardWork) -> CapturedComponent:
        captured = one_group(spec, forward, (LLAMA_LAYERS,))
        return captured._replace(use=replace(captured.use, hands_over=True))

    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_clip(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = CLIPTextModel(CLIPTextConfig(**config))
    cast_weights(model, torch.float16)
    stacks = {CLIP_LAYERS: list(model.encoder.layers)}
    spec = build_component(
        "text_encoder_2",
        model,
        stacks=stacks,
        run_dtype="float16",
        default_mode="layerwise-offload",
        is_transformed=is_copied_at_load,
    )
    tokens = min(CLIP_TOKENS, workload.prompt_tokens)

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model(input_ids=make_input(1, tokens, dtype=torch.long))

    finish = partial(one_group, spec, stacks=(CLIP_LAYERS,))
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_transformer(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = HunyuanVideoTransformer3DModel(**config)
    cast_weights(model, torch.bfloat16)
    stacks = {DOUBLE: list(model.transformer_blocks), SINGLE: list(model.single_transformer_blocks)}
    spec = build_component(
        "transformer",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="component-offload",
        is_dit=True,
        is_transformed=made_from("attn.to_q.", "attn.to_k.", "attn.to_v.", "attn.add_", "proj_mlp."),
    )
    batch, text, frames = workload.batch, workload.prompt_tokens, count_latent_frames(workload.frames)

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        bf16 = torch.bfloat16
        latents = (batch, model.config.in_channels, frames, workload.height // 8, workload.width // 8)
        return model(
            hidden_states=make_input(*latents, dtype=bf16),
            timestep=make_input(batch),
            encoder_hidden_states=make_input(batch, text, model.config.text_embed_dim, dtype=bf16),
            encoder_attention_mask=make_input(batch, text, dtype=torch.long, integers=1),
            pooled_projections=make_input(batch, model.config.pooled_projection_dim, dtype=bf16),
            guidance=make_input(batch),
            return_dict=False,
        )

    finish = partial(one_group, spec, stacks=(DOUBLE, SINGLE), passes=workload.steps)
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_vae(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = AutoencoderKLHunyuanVideo(**config)
    encoder = [*model.encoder.parameters(), *model.quant_conv.parameters()]
    unread_bytes = count_bytes(encoder, torch.float32)
    del model.encoder, model.quant_conv
    cast_weights(model, torch.float16)
    stacks = {UP_BLOCKS: list(model.decoder.up_blocks)}
    spec = build_component(
        "vae",
        model,
        stacks=stacks,
        run_dtype="float16",
        default_mode="layerwise-offload",
        checkpoint_dtype=torch.float32,
        unread_checkpoint_bytes=unread_bytes,
    )

    def decode_tile(latents: Tensor) -> Tensor:
        return model.decoder(model.post_quant_conv(latents))

    decode = OverlappingDecode(decode_tile, TileGeometry())
    latents = (
        workload.batch,
        model.config.latent_channels,
        count_latent_frames(workload.frames),
        workload.height // 8,
        workload.width // 8,
    )

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return decode(make_input(*latents, dtype=torch.float16))

    def finish(forward: ForwardWork) -> CapturedComponent:
        return one_group(spec, forward, (UP_BLOCKS,), passes=decode.passes, captured_passes=decode.passes)

    return BuiltComponent(
        spec=spec,
        module=model,
        stacks=stacks,
        run=run,
        finish=finish,
        repeated=(model.decoder, model.post_quant_conv),
    )


def build_hunyuan_video(configs: Mapping[str, Mapping[str, Any]], workload: Workload) -> dict[str, ComponentBuilder]:
    """A builder of each component of HunyuanVideo, in order of use."""
    builders = {
        "text_encoder": _build_llama,
        "text_encoder_2": _build_clip,
        "transformer": _build_transformer,
        "vae": _build_vae,
    }
    return {name: partial(build, configs[name], workload) for name, build in builders.items()}


def capture_hunyuan_video(
    settled: SettledWorkload, configs: Mapping[str, Mapping[str, Any]], sources: tuple[str, ...], progress: Progress
) -> ModelFacts:
    """Bytes, request and work of HunyuanVideo under a settled workload."""
    captured = capture_components("HunyuanVideo", build_hunyuan_video(configs, settled.workload), progress)
    return assemble_facts(
        "HunyuanVideo",
        settled,
        captured,
        loaded=tuple(captured),
        sources=sources,
        notes=NOTES,
        deployment=DEPLOYMENT,
    )
