"""Reads a Wan model's bytes and work from the classes of diffusers and transformers. Imports torch: load it late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan, WanCausalConv3d
from diffusers.models.transformers.transformer_wan import WanTransformer3DModel
from torch import nn
from transformers.models.umt5.configuration_umt5 import UMT5Config
from transformers.models.umt5.modeling_umt5 import UMT5EncoderModel

from autotune.capture import ForwardWork
from autotune.catalog.built_component import (
    BuiltComponent,
    CapturedComponent,
    ComponentBuilder,
    InputFactory,
    capture_components,
)
from autotune.catalog.component_capture import assemble_facts, one_group, with_vae_reserve
from autotune.catalog.entry import Progress, SettledWorkload
from autotune.catalog.wan import GRID, WanModel
from autotune.meta_tracker import WorkTracker
from autotune.meta_weights import build_component, cast_weights
from autotune.model_facts import ModelFacts
from autotune.workload import Workload
from runtime.model_spec import RequestSpec

FIRST_EXPERT, SECOND_EXPERT = "transformer", "transformer_2"
TEXT_BLOCKS, BLOCKS = "encoder.block", "blocks"
DOWN_BLOCKS, UP_BLOCKS = "encoder.down_blocks", "decoder.up_blocks"

FUSED_TEXT_WEIGHTS = ("SelfAttention.q.weight", "SelfAttention.k.weight", "SelfAttention.v.weight")
"""One weight in the server (``stacked_params_mapping`` in its configs/models/encoders/t5.py)."""

NOTES = (
    "the server guides Wan with a negative prompt by default: each step is two forwards, counted as two passes",
    "the negative prompt is encoded once and kept by the server's conditioning cache: later requests encode one prompt",
    "the VAE decodes one latent frame per pass and carries a feature cache from pass to pass; the server does not tile",
    "a streamed DiT projects the prompt's keys and values in every pass; that a resident one keeps them is not counted",
    "the released DiT is float32 and nearly all of it is cast at load; the server also joins the query, key and value "
    "weights of each block",
    "activation peaks are those of the library's eager graph: an estimate for the server, which fuses several steps",
    "what the allocator reserves over the decoder's activations was measured on Qwen-Image's VAE, which has the same "
    "decoder",
    "frames that the decoder has finished are in output_frames_bytes, not in the activations of the decode",
)


def _build_text_encoder(model: WanModel, config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        encoder = UMT5EncoderModel(UMT5Config(**config))
    cast_weights(encoder, torch.float32)
    stacks = {TEXT_BLOCKS: list(encoder.encoder.block)}
    spec = build_component(
        "text_encoder",
        encoder,
        stacks=stacks,
        run_dtype="float32",
        default_mode="layerwise-offload",
        checkpoint_dtype=getattr(torch, model.text_encoder_file_dtype),
        host_tables=[encoder.shared.weight],
        is_transformed=lambda name: name.endswith(FUSED_TEXT_WEIGHTS),
    )

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return encoder(input_ids=make_input(1, workload.prompt_tokens, dtype=torch.long))

    finish = partial(one_group, spec, stacks=(TEXT_BLOCKS,))
    return BuiltComponent(spec=spec, module=encoder, stacks=stacks, run=run, finish=finish)


def _build_transformer(
    model: WanModel, config: Mapping[str, Any], workload: Workload, *, name: str, passes: int
) -> BuiltComponent:
    with torch.device("meta"):
        dit = WanTransformer3DModel(**config)
    # Server, runtime/models/dits/wanvideo.py: the one norm that has weights is created in float32.
    cast_weights(dit, torch.bfloat16, keep_fp32=("norm2",))
    stacks = {BLOCKS: list(dit.blocks)}
    spec = build_component(
        name,
        dit,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode=model.transformer_mode,
        is_dit=True,
        checkpoint_dtype=torch.float32,
    )

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        bf16 = torch.bfloat16
        return dit(
            hidden_states=_make_latents(make_input, dit.config.in_channels, workload, dtype=bf16),
            timestep=make_input(workload.batch, dtype=torch.long),
            encoder_hidden_states=make_input(workload.batch, workload.prompt_tokens, dit.config.text_dim, dtype=bf16),
            return_dict=False,
        )

    finish = partial(one_group, spec, stacks=(BLOCKS,), passes=passes)
    return BuiltComponent(spec=spec, module=dit, stacks=stacks, run=run, finish=finish)


def _make_latents(make_input: InputFactory, channels: int, workload: Workload, *, dtype: torch.dtype) -> torch.Tensor:
    sides = (GRID.count_latents(workload.height), GRID.count_latents(workload.width))
    return make_input(workload.batch, channels, GRID.count_latent_frames(workload.frames), *sides, dtype=dtype)


def _is_reordered(name: str) -> bool:
    """Whether the server brings a weight of the VAE into another memory order: 3D convolutions of more than one point.

    Source: ``_convert_conv3d_weights_to_channels_last_3d`` in ``loader/component_loaders/vae_loader.py``.
    """
    return name.endswith(("conv1.weight", "conv2.weight", "time_conv.weight"))


class _FeatureCache:
    """The decoder's cache, as the library indexes it.

    It is no list, so that a watched layer does not hold every entry while it replaces them one by one: that would
    count the cache twice at the peak.
    """

    def __init__(self, entries: int) -> None:
        self._entries: list[object] = [None] * entries

    def __getitem__(self, index: int) -> object:
        return self._entries[index]

    def __setitem__(self, index: int, entry: object) -> None:
        self._entries[index] = entry

    def clear(self) -> None:
        self._entries = [None] * len(self._entries)


class _DecodePass(nn.Module):  # type: ignore[misc] # torch is untyped to mypy here
    """One pass of the decoder over one latent frame. From the third pass on, all are alike."""

    FIRST, SECOND, LATER = range(3)

    def __init__(self, vae: AutoencoderKLWan) -> None:
        super().__init__()
        self._decoder = vae.decoder
        self._cache = _FeatureCache(sum(isinstance(part, WanCausalConv3d) for part in vae.decoder.modules()))

    def forward(self, latent: torch.Tensor, kind: int) -> torch.Tensor:
        return self._decoder(latent, feat_cache=self._cache, feat_idx=[0], first_chunk=kind == self.FIRST)

    def forget_frames(self) -> None:
        """Drop what earlier passes left, as before the first pass of a video."""
        self._cache.clear()


def _decode(
    vae: AutoencoderKLWan, decode_pass: _DecodePass, latents: torch.Tensor, tracker: WorkTracker | None
) -> torch.Tensor:
    """Decode in the server's order: one latent frame per pass, chunks joined at the end (its ``wanvae.py``)."""
    hidden = vae.post_quant_conv(latents)
    chunks = []
    try:
        for frame in range(hidden.shape[2]):
            chunk = decode_pass(hidden[:, :, frame : frame + 1], min(frame, _DecodePass.LATER))
            if tracker is not None:
                tracker.disown(chunk)
            chunks.append(chunk)
        return torch.cat(chunks, dim=2)
    finally:
        decode_pass.forget_frames()


def _build_vae(model: WanModel, config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        vae = AutoencoderKLWan(**config)
    cast_weights(vae, torch.float32)
    stacks = {DOWN_BLOCKS: list(vae.encoder.down_blocks), UP_BLOCKS: list(vae.decoder.up_blocks)}
    unread = 0
    if not model.has_vae_encoder:
        unread = sum(weight.nbytes for weight in vae.encoder.parameters())
        del vae.encoder, stacks[DOWN_BLOCKS]
    spec = build_component(
        "vae",
        vae,
        stacks=stacks,
        run_dtype=model.vae_decode_dtype,
        default_mode="layerwise-offload",
        is_transformed=_is_reordered,
        unread_checkpoint_bytes=unread,
    )
    dtype = getattr(torch, model.vae_decode_dtype)
    cast_weights(vae, dtype)
    decode_pass, latents = _DecodePass(vae), GRID.count_latent_frames(workload.frames)

    def run(make_input: InputFactory, tracker: WorkTracker | None) -> object:
        return _decode(vae, decode_pass, _make_latents(make_input, vae.config.z_dim, workload, dtype=dtype), tracker)

    def finish(forward: ForwardWork) -> CapturedComponent:
        return with_vae_reserve(one_group(spec, forward, (UP_BLOCKS,), passes=latents, captured_passes=latents))

    return BuiltComponent(spec=spec, module=vae, stacks=stacks, run=run, finish=finish, repeated=(decode_pass,))


def _rename(captured: CapturedComponent, name: str, *, passes: int) -> CapturedComponent:
    """The same component under another name, with another number of passes."""
    group = replace(captured.use.groups[0], passes=passes)
    return CapturedComponent(
        spec=replace(captured.spec, name=name),
        use=replace(captured.use, component=name, groups=(group,)),
        work=replace(captured.work, component=name),
    )


def build_wan(
    model: WanModel, configs: Mapping[str, Mapping[str, Any]], workload: Workload
) -> dict[str, ComponentBuilder]:
    """A builder of each component of a Wan model, in order of use; an expert that no step reaches gets one pass."""
    passes = model.count_passes(workload.steps)
    builders: dict[str, ComponentBuilder] = {
        "text_encoder": partial(_build_text_encoder, model, configs["text_encoder"], workload)
    }
    for name in (FIRST_EXPERT,) if model.experts is None else (FIRST_EXPERT, SECOND_EXPERT):
        builders[name] = partial(
            _build_transformer, model, configs[name], workload, name=name, passes=passes.get(name, 1)
        )
    builders["vae"] = partial(_build_vae, model, configs["vae"], workload)
    return builders


def capture_wan(
    model: WanModel,
    settled: SettledWorkload,
    configs: Mapping[str, Mapping[str, Any]],
    sources: tuple[str, ...],
    progress: Progress,
) -> ModelFacts:
    """Bytes, request and work of a Wan model under a settled workload."""
    passes = model.count_passes(settled.workload.steps)
    builders = build_wan(model, configs, settled.workload)
    captured = capture_components(
        model.name, {name: build for name, build in builders.items() if name != SECOND_EXPERT}, progress
    )
    if model.experts is not None:
        # Both experts have one class and one configuration, so the second is the first under another name.
        captured[SECOND_EXPERT] = _rename(captured[FIRST_EXPERT], SECOND_EXPERT, passes=passes.get(SECOND_EXPERT, 1))
    facts = assemble_facts(
        model.name,
        settled,
        {name: captured[name] for name in builders},
        loaded=model.loaded,
        sources=sources,
        notes=NOTES,
        deployment=model.deployment,
    )
    return _without_unreached(facts, passes)


def _without_unreached(facts: ModelFacts, passes: Mapping[str, int]) -> ModelFacts:
    """The request without the use of an expert to which the schedule never comes: it is loaded and stays idle."""
    kept = [index for index, use in enumerate(facts.request.uses) if not _is_unreached(use.component, passes)]
    return replace(
        facts,
        request=RequestSpec(uses=tuple(facts.request.uses[index] for index in kept)),
        work=tuple(facts.work[index] for index in kept),
    )


def _is_unreached(component: str, passes: Mapping[str, int]) -> bool:
    return component.startswith("transformer") and component not in passes
