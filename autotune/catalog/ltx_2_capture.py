"""Reads LTX-2's bytes and work from the classes of diffusers and transformers. Imports torch: load it late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_ltx2 import AutoencoderKLLTX2Video
from diffusers.models.autoencoders.autoencoder_kl_ltx2_audio import AutoencoderKLLTX2Audio
from diffusers.models.transformers.transformer_ltx2 import LTX2VideoTransformer3DModel
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors, per_layer_masked_mean_norm
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder
from transformers.models.gemma3.configuration_gemma3 import Gemma3Config
from transformers.models.gemma3.modeling_gemma3 import Gemma3Model

from autotune.catalog.built_component import BuiltComponent, ComponentBuilder, InputFactory, capture_components
from autotune.catalog.component_capture import assemble_facts, one_group
from autotune.catalog.entry import Progress, SettledWorkload
from autotune.catalog.ltx_2 import (
    DEPLOYMENT,
    FRAMES_PER_SECOND,
    GRID,
    PROMPTS_PER_PASS,
    count_audio_latents,
    count_decode_passes,
)
from autotune.meta_tracker import WorkTracker
from autotune.meta_weights import build_component, cast_weights
from autotune.model_facts import ModelFacts
from autotune.work import UseWork
from autotune.workload import Workload
from runtime.model_spec import RequestSpec, UseSpec

LANGUAGE = "language_model.layers"
VIDEO_CONNECTOR, AUDIO_CONNECTOR = "video_connector.transformer_blocks", "audio_connector.transformer_blocks"
BLOCKS = "transformer_blocks"
DOWN_BLOCKS, UP_BLOCKS = "encoder.down_blocks", "decoder.up_blocks"
UPSAMPLERS, RESNETS = "upsamplers", "resnets"

LOADED = ("transformer", "text_encoder", "connectors", "vae", "vocoder", "audio_vae")
"""The server loads the largest files first."""

FUSED_TEXT_WEIGHTS = tuple(
    f"{name}_proj.weight" for name in ("self_attn.q", "self_attn.k", "self_attn.v", "mlp.gate", "mlp.up")
)
"""Joined to two weights in the server (``stacked_params_mapping`` in its configs/models/encoders/gemma_3.py)."""

NOTES = (
    "the server guides LTX-2 with a negative prompt by default: each step is one forward of a batch of two",
    "the negative prompt is encoded once and kept by the server's conditioning cache, but both prompts go through the "
    "connectors in every request: two passes",
    "the encoder's vision tower does not run; it and the vocabulary table stay on the device",
    "the server begins a use of the video VAE before the DiT in every request, also when there is no image to encode",
    "sound is decoded before the picture, as when the server writes the file while it decodes (its default)",
    "the video decoder runs once per tile of 512 pixels over all frames; tiles at the edges are smaller, passes are "
    "counted as equal",
    "the 15 residual blocks of the vocoder run between its 5 upsamplers; a pass lists the upsamplers first",
    "activation peaks are those of the library's eager graph: an estimate for the server, which fuses several steps",
)


def _build_text_encoder(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = Gemma3Model(Gemma3Config(**config))
    cast_weights(model, torch.bfloat16)
    language, tokens = model.language_model, workload.prompt_tokens
    stacks = {LANGUAGE: list(language.layers)}
    spec = build_component(
        "text_encoder",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        is_transformed=lambda name: name.endswith(FUSED_TEXT_WEIGHTS),
    )

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        encoded = language(
            input_ids=make_input(1, tokens, dtype=torch.long),
            position_ids=make_input(1, tokens, dtype=torch.long, integers=range(tokens)),
            # Masks that the library makes by reading data; without them its attention is causal.
            attention_mask={"full_attention": None, "sliding_attention": None},
            use_cache=False,
            output_hidden_states=True,
        )
        lengths = make_input(1, dtype=torch.long, integers=tokens)
        return per_layer_masked_mean_norm(
            torch.stack(encoded.hidden_states, dim=-1), lengths, device=str(lengths.device)
        )

    finish = partial(one_group, spec, stacks=(LANGUAGE,))
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_connectors(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = LTX2TextConnectors(**config)
    cast_weights(model, torch.bfloat16)
    video, audio = model.video_connector, model.audio_connector
    stacks = {VIDEO_CONNECTOR: list(video.transformer_blocks), AUDIO_CONNECTOR: list(audio.transformer_blocks)}
    spec = build_component("connectors", model, stacks=stacks, run_dtype="bfloat16", default_mode="component-offload")

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        tokens, bf16 = workload.prompt_tokens, torch.bfloat16
        projected = model.text_proj_in(make_input(1, tokens, model.text_proj_in.in_features, dtype=bf16))
        mask = make_input(1, 1, 1, tokens, dtype=bf16)
        video(projected, mask)
        return audio(projected, mask)

    finish = partial(one_group, spec, stacks=(VIDEO_CONNECTOR, AUDIO_CONNECTOR), passes=PROMPTS_PER_PASS)
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_transformer(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = LTX2VideoTransformer3DModel(**config)
    cast_weights(model, torch.bfloat16)
    stacks = {BLOCKS: list(model.transformer_blocks)}
    spec = build_component(
        "transformer", model, stacks=stacks, run_dtype="bfloat16", default_mode="component-offload", is_dit=True
    )
    batch, bf16 = PROMPTS_PER_PASS * workload.batch, torch.bfloat16
    audio, channels = count_audio_latents(workload.frames), model.config.caption_channels

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model(
            hidden_states=make_input(batch, GRID.count_rows(workload), model.config.in_channels, dtype=bf16),
            audio_hidden_states=make_input(batch, audio, model.config.audio_in_channels, dtype=bf16),
            encoder_hidden_states=make_input(batch, workload.prompt_tokens, channels, dtype=bf16),
            audio_encoder_hidden_states=make_input(batch, workload.prompt_tokens, channels, dtype=bf16),
            timestep=make_input(batch),
            num_frames=GRID.count_latent_frames(workload.frames),
            height=GRID.count_latents(workload.height),
            width=GRID.count_latents(workload.width),
            fps=float(FRAMES_PER_SECOND),
            audio_num_frames=audio,
            return_dict=False,
        )

    finish = partial(one_group, spec, stacks=(BLOCKS,), passes=workload.steps)
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_audio_vae(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = AutoencoderKLLTX2Audio(**config)
    cast_weights(model, torch.bfloat16)
    down = {f"encoder.down.{level}.block": list(stage.block) for level, stage in enumerate(model.encoder.down)}
    up = {f"decoder.up.{level}.block": list(stage.block) for level, stage in enumerate(model.decoder.up)}
    stacks = {**down, **up}
    spec = build_component("audio_vae", model, stacks=stacks, run_dtype="bfloat16", default_mode="resident")
    latents = (workload.batch, model.config.latent_channels, count_audio_latents(workload.frames), _mel_bins(model))

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model.decode(make_input(*latents, dtype=torch.bfloat16), return_dict=False)

    finish = partial(one_group, spec, stacks=tuple(reversed(up)))
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _mel_bins(model: AutoencoderKLLTX2Audio) -> int:
    return int(model.config.mel_bins) // int(model.mel_compression_ratio)


def _build_vocoder(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = LTX2Vocoder(**config)
    cast_weights(model, torch.bfloat16)
    stacks = {UPSAMPLERS: list(model.upsamplers), RESNETS: list(model.resnets)}
    spec = build_component("vocoder", model, stacks=stacks, run_dtype="bfloat16", default_mode="resident")
    # The audio decoder makes four mel frames of each latent, three less for the first.
    mel_frames = 4 * count_audio_latents(workload.frames) - 3
    bins = model.config.in_channels // model.config.out_channels
    mel = (workload.batch, model.config.out_channels, mel_frames, bins)

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model(make_input(*mel, dtype=torch.bfloat16))

    finish = partial(one_group, spec, stacks=(UPSAMPLERS, RESNETS))
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_vae(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = AutoencoderKLLTX2Video(**config)
    cast_weights(model, torch.bfloat16)
    stacks = {DOWN_BLOCKS: list(model.encoder.down_blocks), UP_BLOCKS: list(model.decoder.up_blocks)}
    spec = build_component(
        "vae",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        # Every weight that is not a bias is a 3D convolution, which the server brings into another memory order
        # (``_convert_conv3d_weights_to_channels_last_3d`` in loader/component_loaders/vae_loader.py).
        is_transformed=lambda name: name.endswith("conv.weight"),
    )
    model.enable_tiling()
    sides = (GRID.count_latents(workload.height), GRID.count_latents(workload.width))
    latents = (workload.batch, model.config.latent_channels, GRID.count_latent_frames(workload.frames), *sides)
    passes = count_decode_passes(workload)

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model.decode(make_input(*latents, dtype=torch.bfloat16), return_dict=False)

    finish = partial(one_group, spec, stacks=(UP_BLOCKS,), passes=passes, captured_passes=passes)
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish, repeated=(model.decoder,))


def build_ltx_2(configs: Mapping[str, Mapping[str, Any]], workload: Workload) -> dict[str, ComponentBuilder]:
    """A builder of each component of LTX-2, in order of use."""
    builders = {
        "text_encoder": _build_text_encoder,
        "connectors": _build_connectors,
        "transformer": _build_transformer,
        "audio_vae": _build_audio_vae,
        "vocoder": _build_vocoder,
        "vae": _build_vae,
    }
    return {name: partial(build, configs[name], workload) for name, build in builders.items()}


def capture_ltx_2(
    settled: SettledWorkload, configs: Mapping[str, Mapping[str, Any]], sources: tuple[str, ...], progress: Progress
) -> ModelFacts:
    """Bytes, request and work of LTX-2 under a settled workload."""
    captured = capture_components("LTX-2", build_ltx_2(configs, settled.workload), progress)
    facts = assemble_facts(
        "LTX-2", settled, captured, loaded=LOADED, sources=sources, notes=NOTES, deployment=DEPLOYMENT
    )
    return _with_encoding_use(facts)


def _with_encoding_use(facts: ModelFacts) -> ModelFacts:
    """The request with the use of the video VAE in which nothing is encoded, right before the DiT's.

    Source: SGLang-diffusion 0.5.23, ``LTX2ImageEncodingStage`` in runtime/pipelines_core/stages/image_encoding.py
    declares one use that starts at stage entry, whether or not the request has an image.
    """
    uses, work = list(facts.request.uses), list(facts.work)
    position = [use.component for use in uses].index("transformer")
    uses.insert(position, UseSpec(component="vae", groups=(), purpose="nothing to encode"))
    work.insert(position, UseWork(component="vae", compute_dtype=facts.model.component("vae").run_dtype, groups=()))
    return replace(facts, request=RequestSpec(uses=tuple(uses)), work=tuple(work))
