"""The server's decode of MiniMax-H3 latents: windows in time, batches of tiles in space. Imports torch."""

from __future__ import annotations

import torch
from diffusers.models.autoencoders.autoencoder_kl_minimax_h3 import AutoencoderKLMiniMaxH3
from torch import Tensor

from autotune.catalog.built_component import InputFactory
from autotune.meta_tracker import WorkTracker


class TiledDecode:
    """Decodes made-up latents with the library's VAE, in the server's order.

    The library runs one tile per forward and joins everything at the end. The server batches the tiles of a window
    (``decoder_tile_batch``), blends windows as they come and writes them into frames that it allocates once. Those
    frames are the request's output: they are kept out of the activations.

    Attributes:
        passes: decoder forwards that the last call made.
    """

    def __init__(self, model: AutoencoderKLMiniMaxH3, *, tiles_per_pass: int) -> None:
        self._model = model
        self._tiles_per_pass = tiles_per_pass
        self.passes = 0

    def __call__(
        self,
        make_input: InputFactory,
        tracker: WorkTracker | None,
        *,
        frames: int,
        tokens: int,
        height: int,
        width: int,
    ) -> Tensor:
        """Decode ``tokens`` latent frames into ``frames`` frames of ``height`` by ``width`` pixels, and return them."""
        self.passes = 0
        model, step, ratio = self._model, self._model.tokens_chunk_size, self._model.spatial_compression_ratio
        latents = make_input(1, model.config.latent_channels, tokens, height // ratio, width // ratio)
        output = latents.new_empty(1, model.config.out_channels, frames, height, width)
        if tracker is not None:
            tracker.disown(output)
        length = step * model.temporal_compression_ratio
        position, tail = 0, None
        for window in range((tokens + model.config.token_drop) // step - 1):
            clip = self._decode_window(latents[:, :, window * step : (window + 1) * step + model.token_overlap])
            head = clip[:, :, model.frame_pre_padding : length]
            if tail is not None:
                head = model._blend(tail, head, model.frame_overlap, dim=-3)
            output[:, :, position : position + head.shape[2]].copy_(head)
            position += head.shape[2]
            tail = clip[:, :, length + model.frame_pre_padding :].contiguous()
            del clip, head
        if tail is not None:
            output[:, :, position:].copy_(tail)
        return output

    def _decode_window(self, latents: Tensor) -> Tensor:
        model, ratio = self._model, self._model.spatial_compression_ratio
        rows, heights, row_overlaps = model._split_tiles(
            latents.shape[-2] * ratio, model.tile_sample_min_height, model.tile_sample_min_overlap_height
        )
        columns, widths, column_overlaps = model._split_tiles(
            latents.shape[-1] * ratio, model.tile_sample_min_width, model.tile_sample_min_overlap_width
        )
        tiles = [
            latents[..., y // ratio : (y + high) // ratio, x // ratio : (x + wide) // ratio]
            for y, high in zip(rows, heights, strict=True)
            for x, wide in zip(columns, widths, strict=True)
        ]
        decoded: list[Tensor] = []
        for start in range(0, len(tiles), self._tiles_per_pass):
            group = tiles[start : start + self._tiles_per_pass]
            decoded.extend(self._decode_tiles(group[0] if len(group) == 1 else torch.cat(group)).split(1))
        grid = [decoded[start : start + len(columns)] for start in range(0, len(decoded), len(columns))]
        return model._stitch_tiles(grid, row_overlaps, column_overlaps)

    def _decode_tiles(self, tiles: Tensor) -> Tensor:
        self.passes += 1
        return self._model.decoder(self._model.post_quant_conv(tiles))
