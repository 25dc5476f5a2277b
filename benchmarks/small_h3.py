"""A MiniMax-H3 of a few narrow layers as an entry of the catalog: its own classes, at the size of a demonstration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune.catalog.entry import CatalogEntry, SettledWorkload
from autotune.catalog.minimax_h3 import H3, SOURCES
from autotune.catalog.minimax_h3_capture import capture_h3
from autotune.workload import Workload

WIDTH = 64
CONFIGS: Mapping[str, Mapping[str, object]] = {
    "text_encoder": {
        "text_config": {
            "vocab_size": 64,
            "hidden_size": WIDTH,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]},
        },
        "vision_config": {
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": WIDTH,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [1],
        },
    },
    "transformer": {
        "num_attention_heads": 2,
        "attention_head_dim": 32,
        "hidden_size": WIDTH,
        "num_layers": 4,
        "ffn_dim": 96,
        "text_dim": WIDTH,
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
}

SMALL_H3: CatalogEntry = replace(
    H3,
    configs=CONFIGS,
    default_workload=Workload(width=64, height=64, frames=22, steps=3, prompt_tokens=12),
    settle=lambda workload: SettledWorkload(workload=workload, notes=("a reduced model: its request is not settled",)),
    capture=lambda settled, progress: capture_h3(settled, CONFIGS, SOURCES, progress),
)
"""Its request is taken as it is: a server would refuse so small a one."""
