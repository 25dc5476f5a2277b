"""Configurations of catalog models cut down to a few narrow layers, with requests of a few rows: seconds on a CPU.

They go through the catalog's own builders; the requests are not settled, because no server would take them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.catalog.registry import find_model
from autotune.workload import Workload


@dataclass(frozen=True, kw_only=True)
class ShrunkenModel:
    """One catalog model: small configurations of its components, and a small request."""

    name: str
    configs: Mapping[str, Mapping[str, object]]
    workload: Workload

    def list_builders(self):
        return find_model(self.name).build(self.configs, self.workload)


QWEN_TEXT = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
QWEN_VISION = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
CLIP = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 77,
    "projection_dim": 24,
    "hidden_act": "quick_gelu",
    "eos_token_id": 2,
}
T5 = {
    "vocab_size": 64,
    "d_model": 48,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 2,
    "feed_forward_proj": "gated-gelu",
}
IMAGE_VAE = {
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "block_out_channels": (16, 16, 16, 16),
    "layers_per_block": 1,
    "latent_channels": 16,
    "norm_num_groups": 4,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
}
WAN_DIT = {"num_attention_heads": 2, "attention_head_dim": 16, "text_dim": 48, "ffn_dim": 64, "num_layers": 3}
WAN_VAE = {"base_dim": 16, "num_res_blocks": 1}

H3 = ShrunkenModel(
    name="H3",
    configs={
        "text_encoder": {
            "text_config": QWEN_TEXT | {"head_dim": 16, "rope_parameters": ROPE},
            "vision_config": QWEN_VISION | {"num_position_embeddings": 16, "deepstack_visual_indexes": [1]},
        },
        "transformer": {
            "num_attention_heads": 2,
            "attention_head_dim": 32,
            "hidden_size": 64,
            "num_layers": 4,
            "ffn_dim": 96,
            "text_dim": 64,
            "freq_dim": 32,
            "time_embed_hidden_dim": 48,
            "time_embed_dim": 32,
            "rope_freq_dim": 4,
        },
        "audio_vae": {
            "encoder_dim": 4,
            "encoder_rates": (2, 4),
            "latent_dim": 32,
            "num_attention_heads": 2,
            "decoder_dim": 32,
            "decoder_rates": (4, 2),
            "decoder_kernel_sizes": (8, 4),
        },
        "video_vae": {
            "block_out_channels": (16,) * 6,
            "layers_per_block": 1,
            "norm_num_groups": 4,
            "decoder_num_layers": 3,
            "decoder_num_attention_heads": 2,
            "decoder_attention_head_dim": 32,
        },
    },
    workload=Workload(width=320, height=96, frames=39, steps=3, prompt_tokens=12),
)
QWEN_IMAGE = ShrunkenModel(
    name="Qwen-Image",
    configs={
        "text_encoder": {
            "text_config": QWEN_TEXT | {"rope_parameters": ROPE},
            "vision_config": QWEN_VISION,
        },
        "transformer": {
            "num_layers": 3,
            "attention_head_dim": 32,
            "num_attention_heads": 2,
            "joint_attention_dim": 64,
            "axes_dims_rope": (8, 12, 12),
        },
        "vae": {"base_dim": 16, "num_res_blocks": 1},
    },
    workload=Workload(width=96, height=64, frames=1, steps=2, prompt_tokens=12),
)
FLUX = ShrunkenModel(
    name="FLUX.1-dev",
    configs={
        "text_encoder": CLIP,
        "text_encoder_2": T5,
        "transformer": {
            "num_layers": 2,
            "num_single_layers": 3,
            "attention_head_dim": 32,
            "num_attention_heads": 2,
            "joint_attention_dim": 48,
            "pooled_projection_dim": 32,
            "guidance_embeds": True,
            "axes_dims_rope": (8, 12, 12),
        },
        "vae": IMAGE_VAE,
    },
    workload=Workload(width=96, height=64, frames=1, steps=2, prompt_tokens=12, batch=2),
)
WAN22 = ShrunkenModel(
    name="Wan2.2-T2V-A14B",
    configs={"text_encoder": T5, "transformer": WAN_DIT, "transformer_2": WAN_DIT, "vae": WAN_VAE},
    workload=Workload(width=64, height=48, frames=13, steps=10, prompt_tokens=12),
)
WAN21 = ShrunkenModel(
    name="Wan2.1-T2V-1.3B",
    configs={"text_encoder": T5, "transformer": WAN_DIT, "vae": WAN_VAE},
    workload=Workload(width=64, height=48, frames=13, steps=2, prompt_tokens=12),
)
LTX2 = ShrunkenModel(
    name="LTX-2",
    configs={
        "text_encoder": {
            "text_config": QWEN_TEXT | {"head_dim": 16, "sliding_window": 8},
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "image_size": 28,
                "patch_size": 14,
                "vision_use_head": False,
            },
        },
        "connectors": {
            "caption_channels": 64,
            "text_proj_in_factor": 3,
            "video_connector_num_attention_heads": 2,
            "video_connector_attention_head_dim": 32,
            "video_connector_num_learnable_registers": 4,
            "audio_connector_num_attention_heads": 2,
            "audio_connector_attention_head_dim": 32,
            "audio_connector_num_learnable_registers": 4,
        },
        "transformer": {
            "in_channels": 16,
            "out_channels": 16,
            "num_attention_heads": 2,
            "attention_head_dim": 32,
            "cross_attention_dim": 64,
            "audio_in_channels": 16,
            "audio_out_channels": 16,
            "audio_num_attention_heads": 2,
            "audio_attention_head_dim": 16,
            "audio_cross_attention_dim": 32,
            "num_layers": 2,
            "caption_channels": 64,
        },
        "vae": {
            "latent_channels": 16,
            "block_out_channels": (16, 32, 64, 64),
            "decoder_block_out_channels": (16, 32, 64),
            "layers_per_block": (1, 1, 1, 1, 1),
            "decoder_layers_per_block": (1, 1, 1, 1),
            "decoder_causal": False,
            "spatial_compression_ratio": 32,
            "temporal_compression_ratio": 8,
        },
        "audio_vae": {"base_channels": 16, "num_res_blocks": 1},
        "vocoder": {"hidden_channels": 64},
    },
    workload=Workload(width=128, height=96, frames=17, steps=2, prompt_tokens=12),
)
Z_IMAGE = ShrunkenModel(
    name="Z-Image-Turbo",
    configs={
        "text_encoder": QWEN_TEXT | {"head_dim": 16},
        "transformer": {
            "dim": 64,
            "n_layers": 3,
            "n_refiner_layers": 1,
            "n_heads": 2,
            "n_kv_heads": 2,
            "cap_feat_dim": 64,
            "axes_dims": [8, 12, 12],
        },
        "vae": IMAGE_VAE | {"sample_size": 64},
    },
    workload=Workload(width=96, height=64, frames=1, steps=2, prompt_tokens=12),
)
HUNYUAN = ShrunkenModel(
    name="HunyuanVideo",
    configs={
        "text_encoder": QWEN_TEXT,
        "text_encoder_2": CLIP,
        "transformer": {
            "num_attention_heads": 2,
            "attention_head_dim": 32,
            "num_layers": 2,
            "num_single_layers": 2,
            "text_embed_dim": 64,
            "pooled_projection_dim": 32,
            "rope_axes_dim": (8, 12, 12),
        },
        "vae": {"block_out_channels": (16, 16, 16, 16), "layers_per_block": 1, "norm_num_groups": 4},
    },
    workload=Workload(width=272, height=64, frames=21, steps=2, prompt_tokens=12),
)

SHRUNKEN_MODELS = (H3, QWEN_IMAGE, FLUX, WAN22, WAN21, LTX2, Z_IMAGE, HUNYUAN)
