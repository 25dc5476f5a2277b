"""How the server divides MiniMax-H3 between ranks.

Source: SGLang-diffusion 0.5.23. runtime/models/dits/minimax_h3.py: query, key, value and both halves of the gated
product are column parallel, the products back are row parallel (without biases), the adaLN projections are column
parallel and their few rows gathered. runtime/models/encoders/qwen3vl.py and qwen3vl_vision.py: the same for language
layers and vision blocks; the vocabulary table is an ordinary embedding, whole on every rank.
runtime/models/vaes/minimax_h3_video_vae/klvae.py: each rank decodes every N-th tile of a window with a whole VAE.
The shares that stay whole were counted on the library's classes built with one N-th of the heads and of the
feed-forward width; ``tests/unit/tensor_parallel`` counts them again.
"""

from __future__ import annotations

import math

from autotune.catalog.minimax_h3 import TILES_PER_PASS, count_packed_rows, count_video_rows
from autotune.tensor_parallel.splits import ComponentSplit, ModelSplit, StackSplit, TileSplit
from autotune.workload import Workload

_BFLOAT16, _FLOAT32 = 2, 4
_HIDDEN, _INNER, _FFN, _HEAD = 5376, 7168, 14336, 128
_TIME = 2688
_TEXT_HIDDEN, _TEXT_FFN, _TEXT_INNER, _TEXT_KEYS = 5120, 25600, 8192, 1024
_VISION_HIDDEN = 1152
_TILE_SIDE_PX, _TILE_STEP_PX = 256, 192


def _share_kept(kept: int, divided: int) -> float:
    """Share of the columns that products read and write which every rank moves whole."""
    return kept / (kept + divided)


# Query, key, value and the gated product read whole rows, the two products back write them.
_BLOCK_PRODUCTS = _share_kept(6 * _HIDDEN, 4 * _INNER + 3 * _FFN)
_LANGUAGE_PRODUCTS = _share_kept(7 * _TEXT_HIDDEN, 2 * _TEXT_INNER + 2 * _TEXT_KEYS + 3 * _TEXT_FFN)
_NORMS_BYTES = (2 * _HIDDEN + 2 * _HEAD) * _BFLOAT16


def _count_packed_bytes(workload: Workload) -> int:
    return count_packed_rows(workload) * _HIDDEN * _BFLOAT16


def _count_patch_bytes(workload: Workload) -> int:
    """Rows of video after their projection, which is column parallel and gathered in float32."""
    return count_video_rows(workload) * _HIDDEN * _FLOAT32


def _count_refined_bytes(workload: Workload) -> int:
    return workload.prompt_tokens * _HIDDEN * _BFLOAT16


def _count_text_bytes(workload: Workload) -> int:
    return workload.prompt_tokens * _TEXT_HIDDEN * _BFLOAT16


def count_tiles(workload: Workload) -> int:
    """Tiles of one window: 256 pixels a side, neighbours sharing 64 at least."""
    sides = (workload.width, workload.height)
    return math.prod(max(1, math.ceil((side - _TILE_SIDE_PX) / _TILE_STEP_PX) + 1) for side in sides)


_TRANSFORMER = ComponentSplit(
    widths={
        "attention heads": 56,
        "hidden size": _HIDDEN,
        "feed-forward width": _FFN,
        "video outputs": 96,
        "audio outputs": 32,
    },
    stacks={
        "blocks": StackSplit(
            kept_bytes=_NORMS_BYTES,
            kept_product_ratio=_BLOCK_PRODUCTS,
            kept_other_ratio=0.48694,
            reduced_bytes=_count_packed_bytes,
        ),
        "token_refiner.blocks": StackSplit(
            kept_bytes=_NORMS_BYTES,
            kept_product_ratio=_BLOCK_PRODUCTS,
            kept_other_ratio=0.31915,
            reduced_bytes=_count_refined_bytes,
        ),
    },
    # Two norms, the bias of the row-parallel half of the time embedder, and the rotary frequencies.
    kept_rest_bytes=2 * _HIDDEN * _BFLOAT16 + _TIME * _FLOAT32 + 16 * _FLOAT32,
    activation_ratios={2: 0.6822, 4: 0.5431, 8: 0.5431},
    gathered_bytes={"blocks": _count_patch_bytes},
)
_TEXT_ENCODER = ComponentSplit(
    widths={"attention heads": 64, "key and value heads": 8, "feed-forward width": _TEXT_FFN, "vision heads": 16},
    stacks={
        "model.language_model.layers": StackSplit(
            kept_bytes=(2 * _TEXT_HIDDEN + 2 * _HEAD) * _BFLOAT16,
            kept_product_ratio=_LANGUAGE_PRODUCTS,
            kept_other_ratio=0.34836,
            reduced_bytes=_count_text_bytes,
        ),
        # Two norms with biases, and the biases of the two products back.
        "model.visual.blocks": StackSplit(kept_bytes=6 * _VISION_HIDDEN * _BFLOAT16),
    },
)
H3_SPLIT = ModelSplit(
    model="H3",
    divided={"transformer": _TRANSFORMER, "text_encoder": _TEXT_ENCODER},
    tiled={"video_vae": TileSplit(tiles=count_tiles, tiles_per_pass=lambda workload: TILES_PER_PASS[workload.recipe])},
    whole=frozenset({"audio_vae"}),
    notes=(
        "each rank holds its share of every matrix product of the DiT and the text encoder, and norms, the vocabulary "
        "table, the vision embeddings and both VAEs whole; weights of divided layers are copied at load and cannot "
        "stay mapped",
        "each block adds up the ranks' rows twice (all-reduce), and each pass gathers the projected video rows once; "
        "gathering adaLN rows and decoded tiles is not counted, nor is the memory of the communication library",
        "activations of the DiT shrink as those of the library's eager graph with fewer heads; those of the text "
        "encoder and of the decoders are taken whole, which is at least what a rank has",
    ),
)
