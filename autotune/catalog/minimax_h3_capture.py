"""Reads MiniMax-H3's bytes and work from the classes of diffusers and transformers. Imports torch: load it late."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_minimax_h3 import AutoencoderKLMiniMaxH3
from diffusers.models.autoencoders.autoencoder_kl_minimax_h3_audio import AutoencoderKLMiniMaxH3Audio
from diffusers.models.transformers.transformer_minimax_h3 import MiniMaxH3Transformer3DModel
from torch import Tensor, nn
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

from autotune.capture import ForwardWork
from autotune.catalog.built_component import (
    BuiltComponent,
    CapturedComponent,
    ComponentBuilder,
    InputFactory,
    capture_components,
)
from autotune.catalog.component_capture import assemble_facts, made_from, one_group
from autotune.catalog.entry import Progress, SettledWorkload
from autotune.catalog.minimax_h3 import (
    DEPLOYMENT,
    RELEASED_LANGUAGE_LAYERS,
    TILES_PER_PASS,
    count_audio_latents,
    count_latent_frames,
    count_video_rows,
)
from autotune.catalog.tiled_decode import TiledDecode
from autotune.meta_tracker import WorkTracker
from autotune.meta_weights import build_component, cast_weights
from autotune.model_facts import ModelFacts
from autotune.work import UseWork
from autotune.workload import Workload
from runtime.model_spec import ComponentSpec, PassGroup, RequestSpec, UseSpec

DISTINCT_TIMESTEPS = 2
"""Video and audio rows step down their own schedules, so one forward carries two timesteps."""
AUDIO_CHANNELS = 2

LANGUAGE, VISION = "model.language_model.layers", "model.visual.blocks"
BLOCKS, REFINER = "blocks", "token_refiner.blocks"
DECODER = "decoder.transformer_blocks"
AUDIO_ENCODER, AUDIO_RESBLOCKS = "encoder.block", "decoder.resblocks"

NOTES = (
    "text to video: the vision blocks of the text encoder and the encoders of both VAEs do not run",
    "the text encoder's file holds 64 language layers, a final norm and a head: 14 layers and the head are not read; "
    "the 10,240 bytes of the norm are counted although the server does not apply it",
    "each block's query, key and value rows are reordered at load: 231,211,008 bytes of a block cannot stay mapped",
    "the token refiner and the projection of the text run once per use, as in the server; the library repeats them",
    "the 21 residual blocks of the audio decoder run between its 7 upsamplers; a pass lists the upsamplers first",
    "the server begins a use of the video VAE and one of the audio VAE for their encoders in every request, also when "
    "there is nothing to encode: forward residents of either are copied twice a request",
    "fixed filters that the audio VAE stores as buffers (20,384 bytes) are not counted as weights",
    "activation peaks are those of the library's eager graph: an estimate for the server, which fuses several steps",
    "frames that the decoder has finished are in output_frames_bytes, not in the activations of the decode",
)


def _build_text_encoder(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = Qwen3VLModel(Qwen3VLConfig(**config))
    cast_weights(model, torch.bfloat16)
    language = model.language_model
    stacks = {LANGUAGE: list(language.layers), VISION: list(model.visual.blocks)}
    spec = build_component(
        "text_encoder",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        host_tables=[language.embed_tokens.weight],
        is_transformed=_is_copied_vision_weight,
    )
    spec = replace(spec, unread_checkpoint_bytes=_count_unread_bytes(spec))
    language.norm = nn.Identity()

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        tokens = workload.prompt_tokens
        ids = make_input(1, tokens, dtype=torch.long)
        positions = make_input(3, 1, tokens, dtype=torch.long, integers=range(tokens))
        return language(input_ids=ids, position_ids=positions, attention_mask=None, use_cache=False)

    finish = partial(one_group, spec, stacks=(LANGUAGE,))
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _is_copied_vision_weight(name: str) -> bool:
    """Products of the vision blocks, which the server's loader copies; everything else can stay mapped.

    Source: SGLang-diffusion 0.5.23, runtime/models/encoders: the language layers are plain linear layers whose tensors
    are assigned; the vision blocks are parallel linear layers with loaders of their own.
    """
    return name.startswith("attn.") or "linear_fc" in name


def _count_unread_bytes(spec: ComponentSpec) -> int:
    """The language layers after the last one that is read, and the head, which has the shape of the table."""
    layers = spec.stack(LANGUAGE).layers
    return (RELEASED_LANGUAGE_LAYERS - len(layers)) * layers[0].checkpoint_bytes + spec.host_table_checkpoint_bytes


def _packed_inputs(
    model: MiniMaxH3Transformer3DModel, workload: Workload, make_input: InputFactory
) -> dict[str, Tensor]:
    """Arguments of one DiT forward, as diffusers' modular pipeline packs them: text, then audio, then video rows."""
    config = model.config
    text, video = workload.prompt_tokens, count_video_rows(workload)
    audio = AUDIO_CHANNELS * count_audio_latents(workload.frames)
    rows = text + audio + video
    return {
        "hidden_states": make_input(1, video, config.in_channels * math.prod(config.patch_size)),
        "audio_hidden_states": make_input(1, audio, config.audio_in_channels),
        "encoder_hidden_states": make_input(1, text, config.text_dim, dtype=torch.bfloat16),
        "timestep": make_input(DISTINCT_TIMESTEPS),
        "timestep_indices": make_input(rows, dtype=torch.long),
        "token_tags": make_input(rows, dtype=torch.long),
        "position_ids": make_input(rows, 3, dtype=torch.float64),
        "video_indices": make_input(video, dtype=torch.long, integers=range(text + audio, rows)),
        "audio_indices": make_input(audio, dtype=torch.long, integers=range(text, text + audio)),
        "text_indices": make_input(text, dtype=torch.long, integers=range(text)),
    }


def _build_transformer(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = MiniMaxH3Transformer3DModel(**config)
    cast_weights(model, torch.bfloat16, keep_fp32=model._keep_in_fp32_modules)
    stacks = {BLOCKS: list(model.transformer_blocks), REFINER: list(model.token_refiner.refiner_blocks)}
    spec = build_component(
        "transformer",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        is_dit=True,
        stored_buffers=[model.rope.inv_freq],
        is_transformed=made_from(".to_q.", ".to_k.", ".to_v."),
    )

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model(**_packed_inputs(model, workload, make_input), return_dict=False)

    return BuiltComponent(
        spec=spec,
        module=model,
        stacks=stacks,
        run=run,
        finish=partial(_finish_transformer, spec, passes=workload.steps - 1),
        once=(model.context_embedder, model.token_refiner.final_norm, model.rope),
    )


def _finish_transformer(spec: ComponentSpec, forward: ForwardWork, *, passes: int) -> CapturedComponent:
    groups = (PassGroup(stacks=(REFINER,), passes=1), PassGroup(stacks=(BLOCKS,), passes=passes))
    work = UseWork(
        component=spec.name,
        compute_dtype=spec.run_dtype,
        groups=(forward.group((REFINER,), with_outside=False), forward.group((BLOCKS,))),
        outside=forward.once,
        activation_bytes=forward.activation_bytes,
    )
    return CapturedComponent(spec=spec, use=UseSpec(component=spec.name, groups=groups), work=work)


def _build_audio_vae(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"), warnings.catch_warnings():
        # diffusers still uses the old spelling of weight normalisation, which keeps the checkpoint's names.
        warnings.filterwarnings("ignore", message=".*weight_norm.*", category=FutureWarning)
        model = AutoencoderKLMiniMaxH3Audio(**config)
    ups = {f"decoder.ups.{index}": list(ups) for index, ups in enumerate(model.decoder.ups)}
    stacks = {AUDIO_ENCODER: list(model.encoder.block), **ups, AUDIO_RESBLOCKS: list(model.decoder.resblocks)}
    spec = build_component("audio_vae", model, stacks=stacks, run_dtype="float32", default_mode="resident")
    latents = (AUDIO_CHANNELS, model.config.latent_channels, count_audio_latents(workload.frames))

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model.decode(make_input(*latents), return_dict=False)

    finish = partial(one_group, spec, stacks=(*ups, AUDIO_RESBLOCKS))
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _hold_decoder_linears_in_fp16(decoder: nn.Module) -> None:
    for block in decoder.transformer_blocks:
        attention, projections = block.attn, block.ff.net
        linears = (attention.to_q, attention.to_k, attention.to_v, attention.to_out, projections[0], projections[2])
        for linear in linears:
            cast_weights(linear, torch.float16)


def _build_video_vae(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = AutoencoderKLMiniMaxH3(**config)
    cast_weights(model, torch.float32)
    _hold_decoder_linears_in_fp16(model.decoder)
    stacks = {DECODER: list(model.decoder.transformer_blocks)}
    spec = build_component(
        "video_vae",
        model,
        stacks=stacks,
        run_dtype="float16",
        default_mode="layerwise-offload",
        checkpoint_dtype=torch.float32,
    )
    # A whole move casts to the declared float32 before the linear layers are halved again (server, decoding stage).
    spec = replace(spec, cast_bytes=spec.checkpoint_bytes)
    decode = TiledDecode(model, tiles_per_pass=TILES_PER_PASS[workload.recipe])
    tokens = count_latent_frames(workload.frames)

    def run(make_input: InputFactory, tracker: WorkTracker | None) -> object:
        return decode(
            make_input, tracker, frames=workload.frames, tokens=tokens, height=workload.height, width=workload.width
        )

    def finish(forward: ForwardWork) -> CapturedComponent:
        return one_group(spec, forward, (DECODER,), passes=decode.passes, captured_passes=decode.passes)

    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish, repeated=(model.decoder,))


def build_h3(configs: Mapping[str, Mapping[str, Any]], workload: Workload) -> dict[str, ComponentBuilder]:
    """A builder of each component of MiniMax-H3, in order of use: the server decodes audio before video."""
    builders = {
        "text_encoder": _build_text_encoder,
        "transformer": _build_transformer,
        "audio_vae": _build_audio_vae,
        "video_vae": _build_video_vae,
    }
    return {name: partial(build, configs[name], workload) for name, build in builders.items()}


def capture_h3(
    settled: SettledWorkload, configs: Mapping[str, Mapping[str, Any]], sources: tuple[str, ...], progress: Progress
) -> ModelFacts:
    """Bytes, request and work of MiniMax-H3 under a settled workload."""
    captured = capture_components("H3", build_h3(configs, settled.workload), progress)
    loaded = ("text_encoder", "transformer", "video_vae", "audio_vae")
    facts = assemble_facts("H3", settled, captured, loaded=loaded, sources=sources, notes=NOTES, deployment=DEPLOYMENT)
    return _with_encoding_uses(facts)


def _with_encoding_uses(facts: ModelFacts) -> ModelFacts:
    """The request with the two uses in which nothing is encoded, right after the text encoder's.

    Source: SGLang-diffusion 0.5.23, the visual and audio encoding stages of MiniMax-H3 each declare one use that starts
    at stage entry, and the component manager begins it whether or not the request has material to encode.
    """
    names = ("video_vae", "audio_vae")
    uses, work = list(facts.request.uses), list(facts.work)
    uses[1:1] = [UseSpec(component=name, groups=(), purpose="nothing to encode") for name in names]
    work[1:1] = [
        UseWork(component=name, compute_dtype=facts.model.component(name).run_dtype, groups=()) for name in names
    ]
    return replace(facts, request=RequestSpec(uses=tuple(uses)), work=tuple(work))
