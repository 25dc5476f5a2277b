"""Components of the catalog's models from the real library classes, reduced to a few layers of tiny width.

Weights are random but the same in every process, in the dtypes in which the server runs them; everything is on the CPU.
One call takes milliseconds, and every stack that runs has a part in its result.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from diffusers.models.autoencoders.autoencoder_kl_minimax_h3 import AutoencoderKLMiniMaxH3
from diffusers.models.transformers.transformer_flux import FluxTransformer2DModel
from diffusers.models.transformers.transformer_minimax_h3 import MiniMaxH3Transformer3DModel
from diffusers.models.transformers.transformer_qwenimage import QwenImageTransformer2DModel
from diffusers.models.transformers.transformer_wan import WanTransformer3DModel
from torch import Tensor, nn
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

from autotune.meta_weights import cast_weights

WEIGHT_SEED = 20
FIRST_INPUT_SEED = 1000
BF16 = torch.bfloat16


@dataclass(frozen=True, kw_only=True)
class ReducedModel:
    """One reduced component.

    Attributes:
        name: whose component it is, for test ids.
        component: the server's name of the component.
        module: the library's module on the CPU, without gradients.
        stacks: the server's name of each stack -> dotted path of its list of layers inside ``module``.
        call: runs ``module`` once on the inputs of ``step``; the same module and step give the same bits.
        run_order: the stacks that a call runs, in the order in which it runs them.
        passes: how often one call runs the others.
    """

    name: str
    component: str
    module: nn.Module
    stacks: Mapping[str, str]
    call: Callable[[nn.Module, int], Tensor]
    run_order: tuple[str, ...]
    passes: int = 1


def build_h3_transformer() -> ReducedModel:
    """Five blocks and two refiner blocks in bfloat16, projections at both ends in float32."""
    module = _build(
        MiniMaxH3Transformer3DModel,
        num_attention_heads=2,
        attention_head_dim=32,
        hidden_size=64,
        num_layers=5,
        num_refiner_layers=2,
        ffn_dim=96,
        in_channels=4,
        audio_in_channels=6,
        text_dim=40,
        freq_dim=32,
        time_embed_hidden_dim=48,
        time_embed_dim=32,
        rope_freq_dim=4,
    )
    cast_weights(module, BF16, keep_fp32=module._keep_in_fp32_modules)
    return ReducedModel(
        name="h3-transformer",
        component="transformer",
        module=module,
        stacks={"blocks": "transformer_blocks", "token_refiner.blocks": "token_refiner.refiner_blocks"},
        run_order=("token_refiner.blocks", "blocks"),
        call=_call_h3_transformer,
    )


@torch.no_grad()
def _call_h3_transformer(module: nn.Module, step: int) -> Tensor:
    inputs = _Inputs(step)
    text, audio, video = 7, 6, 3 * 4 * 4
    rows = text + audio + video
    video_rows = torch.arange(text + audio, rows)
    frames = torch.meshgrid(torch.arange(3), torch.arange(4), torch.arange(4), indexing="ij")
    positions = torch.zeros(rows, 3, dtype=torch.float64)
    positions[: text + audio, 0] = torch.arange(text + audio)
    positions[video_rows] = torch.stack(frames, dim=-1).reshape(video, 3).to(torch.float64)
    # Video rows step down the first schedule, audio rows the second; tags are 0 video, 1 text, 2 audio.
    picture, sound = module(
        hidden_states=inputs.normal(1, video, 16),
        audio_hidden_states=inputs.normal(1, audio, 6),
        encoder_hidden_states=inputs.normal(1, text, 40, dtype=BF16),
        timestep=torch.tensor([0.9, 0.8]) / (1 + step),
        timestep_indices=torch.tensor([0] * text + [1] * audio + [0] * video),
        token_tags=torch.tensor([1] * text + [2] * audio + [0] * video),
        position_ids=positions,
        video_indices=video_rows,
        audio_indices=torch.arange(text, text + audio),
        text_indices=torch.arange(text),
        return_dict=False,
    )
    return torch.cat([picture.flatten(), sound.flatten()])


def build_h3_video_vae() -> ReducedModel:
    """Four decoder blocks whose linear layers are float16, the rest float32; a decode is eight passes."""
    module = _build(
        AutoencoderKLMiniMaxH3,
        latent_channels=6,
        block_out_channels=(8, 8, 8),
        layers_per_block=1,
        spatial_downsample_factors=(2, 2, 1),
        temporal_downsample_factors=(1, 2, 2),
        norm_num_groups=4,
        decoder_num_layers=4,
        decoder_num_attention_heads=2,
        decoder_attention_head_dim=32,
        decoder_ffn_mult=2,
        latents_mean=(0.0,) * 6,
        latents_std=(1.0,) * 6,
    )
    for block in module.decoder.transformer_blocks:
        cast_weights(block, torch.float16, keep_fp32=("norm", "scale"))
    module.enable_tiling(16, 16, 4, 4)
    return ReducedModel(
        name="h3-video-vae",
        component="video_vae",
        module=module,
        stacks={"decoder.transformer_blocks": "decoder.transformer_blocks"},
        run_order=("decoder.transformer_blocks",),
        call=_call_h3_video_vae,
        passes=8,
    )


@torch.no_grad()
def _call_h3_video_vae(module: nn.Module, step: int) -> Tensor:
    # Two windows in time, of two by two tiles each.
    latents = _Inputs(step).normal(1, 6, 12, 6, 6)
    return module.decode(latents, return_dict=False)[0]


def build_h3_text_encoder() -> ReducedModel:
    """Three language layers that run and two vision blocks that do not, as for text to video."""
    text = {
        "vocab_size": 128,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]},
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "num_position_embeddings": 16,
        "out_hidden_size": 64,
        "deepstack_visual_indexes": [1],
    }
    module = _build(lambda: Qwen3VLModel(Qwen3VLConfig(text_config=text, vision_config=vision)))
    cast_weights(module, BF16)
    module.language_model.norm = nn.Identity()
    return ReducedModel(
        name="h3-text-encoder",
        component="text_encoder",
        module=module,
        stacks={"model.language_model.layers": "language_model.layers", "model.visual.blocks": "visual.blocks"},
        call=_call_h3_text_encoder,
        run_order=("model.language_model.layers",),
    )


@torch.no_grad()
def _call_h3_text_encoder(module: nn.Module, step: int) -> Tensor:
    ids = _Inputs(step).integers(128, 1, 12)
    positions = torch.arange(12).expand(3, 1, 12)
    encoded = module.language_model(input_ids=ids, position_ids=positions, attention_mask=None, use_cache=False)
    return encoded.last_hidden_state


def build_qwen_image_transformer() -> ReducedModel:
    """Four blocks with two streams each, in bfloat16."""
    module = _build(
        QwenImageTransformer2DModel,
        in_channels=8,
        out_channels=2,
        num_layers=4,
        attention_head_dim=16,
        num_attention_heads=3,
        joint_attention_dim=40,
        axes_dims_rope=(4, 6, 6),
    )
    cast_weights(module, BF16)
    return ReducedModel(
        name="qwen-image-transformer",
        component="transformer",
        module=module,
        stacks={"transformer_blocks": "transformer_blocks"},
        run_order=("transformer_blocks",),
        call=_call_qwen_image_transformer,
    )


@torch.no_grad()
def _call_qwen_image_transformer(module: nn.Module, step: int) -> Tensor:
    inputs = _Inputs(step)
    return module(
        hidden_states=inputs.normal(1, 6 * 4, 8, dtype=BF16),
        encoder_hidden_states=inputs.normal(1, 9, 40, dtype=BF16),
        timestep=torch.full((1,), 1.0 / (1 + step), dtype=BF16),
        img_shapes=[[(1, 6, 4)]],
        return_dict=False,
    )[0]


def build_flux_transformer() -> ReducedModel:
    """Two double blocks, then three single blocks, in bfloat16: two stacks in every pass."""
    module = _build(
        FluxTransformer2DModel,
        in_channels=8,
        num_layers=2,
        num_single_layers=3,
        attention_head_dim=16,
        num_attention_heads=3,
        joint_attention_dim=40,
        pooled_projection_dim=24,
        guidance_embeds=True,
        axes_dims_rope=(4, 6, 6),
    )
    cast_weights(module, BF16)
    names = ("transformer_blocks", "single_transformer_blocks")
    return ReducedModel(
        name="flux-transformer",
        component="transformer",
        module=module,
        stacks={name: name for name in names},
        run_order=names,
        call=_call_flux_transformer,
    )


@torch.no_grad()
def _call_flux_transformer(module: nn.Module, step: int) -> Tensor:
    inputs = _Inputs(step)
    grid = torch.meshgrid(torch.zeros(1), torch.arange(6.0), torch.arange(4.0), indexing="ij")
    return module(
        hidden_states=inputs.normal(1, 6 * 4, 8, dtype=BF16),
        encoder_hidden_states=inputs.normal(1, 9, 40, dtype=BF16),
        pooled_projections=inputs.normal(1, 24, dtype=BF16),
        timestep=torch.full((1,), 1.0 / (1 + step), dtype=BF16),
        img_ids=torch.stack(grid, dim=-1).reshape(6 * 4, 3).to(BF16),
        txt_ids=torch.zeros(9, 3, dtype=BF16),
        guidance=torch.full((1,), 3.5),
        return_dict=False,
    )[0]


def build_wan_transformer() -> ReducedModel:
    """Three blocks in bfloat16, the norm before cross attention in float32."""
    module = _build(
        WanTransformer3DModel,
        num_attention_heads=3,
        attention_head_dim=16,
        in_channels=4,
        out_channels=4,
        text_dim=40,
        freq_dim=32,
        ffn_dim=96,
        num_layers=3,
        rope_max_seq_len=32,
    )
    cast_weights(module, BF16, keep_fp32=("norm2",))
    return ReducedModel(
        name="wan-transformer",
        component="transformer",
        module=module,
        stacks={"blocks": "blocks"},
        run_order=("blocks",),
        call=_call_wan_transformer,
    )


@torch.no_grad()
def _call_wan_transformer(module: nn.Module, step: int) -> Tensor:
    inputs = _Inputs(step)
    return module(
        hidden_states=inputs.normal(1, 4, 3, 6, 4, dtype=BF16),
        timestep=torch.tensor([900 // (1 + step)]),
        encoder_hidden_states=inputs.normal(1, 9, 40, dtype=BF16),
        return_dict=False,
    )[0]


REDUCED_MODELS: tuple[Callable[[], ReducedModel], ...] = (
    build_h3_transformer,
    build_h3_video_vae,
    build_h3_text_encoder,
    build_qwen_image_transformer,
    build_flux_transformer,
    build_wan_transformer,
)


class _Inputs:
    """Random inputs of one step: the same at every construction."""

    def __init__(self, step: int) -> None:
        self._generator = torch.Generator().manual_seed(FIRST_INPUT_SEED + step)

    def normal(self, *size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(size, generator=self._generator).to(dtype)

    def integers(self, end: int, *size: int) -> Tensor:
        return torch.randint(end, size, generator=self._generator)


def _build(build: Callable[..., nn.Module], **config: object) -> nn.Module:
    """The module in float32 with random weights; the process's own random state is left as it was.

    Norms scale by about one. Everything else keeps the size of what it multiplies, so that no output dies out; the
    library starts some weights at zero, which would hide a layer.
    """
    with torch.random.fork_rng(devices=[]):
        module = build(**config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(WEIGHT_SEED)
    for name, weight in module.named_parameters():
        values = torch.randn(weight.shape, generator=generator)
        if weight.ndim > 1:
            values /= math.sqrt(weight.numel() / weight.shape[0])
        elif name.endswith(".weight"):
            values = 1.0 + 0.1 * values
        else:
            values *= 0.3
        weight.data.copy_(values)
    return module
