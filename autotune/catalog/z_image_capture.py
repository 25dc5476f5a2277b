"""Reads Z-Image-Turbo's bytes and work from the classes of diffusers and transformers. Imports torch: load it late."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.transformers.transformer_z_image import ZImageTransformer2DModel
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3Model

from autotune.catalog.built_component import BuiltComponent, ComponentBuilder, InputFactory, capture_components
from autotune.catalog.component_capture import assemble_facts, build_image_vae, is_copied_at_load, one_group
from autotune.catalog.entry import Progress, SettledWorkload
from autotune.catalog.z_image import DEPLOYMENT, ENCODER_TOKENS
from autotune.meta_tracker import WorkTracker
from autotune.meta_weights import build_component, cast_weights
from autotune.model_facts import ModelFacts
from autotune.workload import Workload

LAYERS = "layers"

NOTES = (
    "guidance is distilled and off: each step is one forward",
    "the server streams the 30 main blocks only: the two noise refiners and the two context refiners stay on the "
    "device and run in every forward",
    "the DiT is released in float32 and cast at load: none of its weights can stay mapped",
    "the text encoder runs all 36 layers although the DiT reads the hidden state before the last; its vocabulary table "
    "stays on the device",
    "the VAE decodes tiles of 1024 pixels where a side is longer",
    "activation peaks are those of the library's eager graph: an estimate for the server, which fuses several steps",
)


def _build_text_encoder(config: Mapping[str, Any], _: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = Qwen3Model(Qwen3Config(**config))
    cast_weights(model, torch.bfloat16)
    stacks = {LAYERS: list(model.layers)}
    spec = build_component(
        "text_encoder",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        is_transformed=is_copied_at_load,
    )

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        ids = make_input(1, ENCODER_TOKENS, dtype=torch.long)
        positions = make_input(1, ENCODER_TOKENS, dtype=torch.long, integers=range(ENCODER_TOKENS))
        return model(
            input_ids=ids,
            position_ids=positions,
            # No masks at all: transformers would read the prompt to make them.
            attention_mask={"full_attention": None},
            use_cache=False,
        )

    finish = partial(one_group, spec, stacks=(LAYERS,))
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _build_transformer(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = ZImageTransformer2DModel(**config)
    cast_weights(model, torch.bfloat16)
    stacks = {LAYERS: list(model.layers)}
    spec = build_component(
        "transformer",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="component-offload",
        is_dit=True,
        checkpoint_dtype=torch.float32,
    )
    high, wide = workload.height // 8, workload.width // 8

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        bf16 = torch.bfloat16
        images = [make_input(model.in_channels, 1, high, wide, dtype=bf16) for _ in range(workload.batch)]
        captions = [
            make_input(workload.prompt_tokens, model.config.cap_feat_dim, dtype=bf16) for _ in range(workload.batch)
        ]
        return model(images, make_input(workload.batch, dtype=bf16), captions, return_dict=False)

    finish = partial(one_group, spec, stacks=(LAYERS,), passes=workload.steps)
    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def _count_tiles(model: AutoencoderKL, sides: tuple[int, int]) -> int:
    """Tiles that one decode runs: one if the latent fits a tile, else as many as ``tiled_decode`` steps over."""
    tile = model.tile_latent_min_size
    if max(sides) <= tile:
        return 1
    step = int(tile * (1 - model.tile_overlap_factor))
    return -(-sides[0] // step) * -(-sides[1] // step)


def _build_vae(config: Mapping[str, Any], workload: Workload) -> BuiltComponent:
    with torch.device("meta"):
        model = AutoencoderKL(**config)
    cast_weights(model, torch.bfloat16)
    model.use_tiling = True
    high, wide = workload.height // 8, workload.width // 8
    return build_image_vae(
        model,
        (workload.batch, model.config.latent_channels, high, wide),
        checkpoint_dtype=torch.float32,
        passes=_count_tiles(model, (high, wide)),
    )


def build_z_image(configs: Mapping[str, Mapping[str, Any]], workload: Workload) -> dict[str, ComponentBuilder]:
    """A builder of each component of Z-Image-Turbo, in order of use."""
    builders = {"text_encoder": _build_text_encoder, "transformer": _build_transformer, "vae": _build_vae}
    return {name: partial(build, configs[name], workload) for name, build in builders.items()}


def capture_z_image(
    settled: SettledWorkload, configs: Mapping[str, Mapping[str, Any]], sources: tuple[str, ...], progress: Progress
) -> ModelFacts:
    """Bytes, request and work of Z-Image-Turbo under a settled workload."""
    captured = capture_components("Z-Image-Turbo", build_z_image(configs, settled.workload), progress)
    return assemble_facts(
        "Z-Image-Turbo",
        settled,
        captured,
        loaded=tuple(captured),
        sources=sources,
        notes=NOTES,
        deployment=DEPLOYMENT,
    )
