"""The server's decode of video latents in overlapping tiles of time, height and width. Imports torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

_FRAMES, _HIGH, _WIDE = -3, -2, -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TileGeometry:
    """Tiles in pixels and frames; the defaults are those of SGLang-diffusion 0.5.23 (configs/models/vaes/base.py)."""

    side: int = 256
    side_stride: int = 192
    frames: int = 16
    frames_stride: int = 12
    pixels_per_latent: int = 8
    frames_per_latent: int = 4


class OverlappingDecode:
    """Decodes latents tile by tile and blends the tiles as the server does (runtime/models/vaes/common.py).

    Tiles of one time window are decoded one after another, row by row, then joined; the windows are joined at the end,
    so all of them are alive until then.

    Attributes:
        passes: tiles that the last call decoded.
    """

    def __init__(self, decode: Callable[[Tensor], Tensor], geometry: TileGeometry) -> None:
        self._decode = decode
        self._geometry = geometry
        self.passes = 0

    def __call__(self, latents: Tensor) -> Tensor:
        """Decode ``[batch, channels, frames, height, width]`` latents."""
        self.passes = 0
        tiles = self._geometry
        window, step = tiles.frames // tiles.frames_per_latent, tiles.frames_stride // tiles.frames_per_latent
        if latents.shape[_FRAMES] <= window:
            # The server's test of a single window compares the width with the stride, not with the tile.
            return self._decode_window(latents, widest=tiles.side_stride // tiles.pixels_per_latent)
        clips = []
        for start in range(0, latents.shape[_FRAMES], step):
            clip = self._decode_window(
                latents[:, :, start : start + window + 1], widest=tiles.side // tiles.pixels_per_latent
            )
            clips.append(clip[:, :, 1:] if start else clip)
        kept = [clips[0][:, :, : tiles.frames_stride + 1]]
        for before, clip in pairwise(clips):
            _blend(before, clip, tiles.frames - tiles.frames_stride, dim=_FRAMES)
            kept.append(clip[:, :, : tiles.frames_stride])
        return torch.cat(kept, dim=_FRAMES)

    def _decode_window(self, latents: Tensor, *, widest: int) -> Tensor:
        tiles = self._geometry
        side, step = tiles.side // tiles.pixels_per_latent, tiles.side_stride // tiles.pixels_per_latent
        high, wide = latents.shape[_HIGH:]
        if high <= side and wide <= widest:
            return self._decode_tile(latents)
        grid = [
            [self._decode_tile(latents[..., y : y + side, x : x + side]) for x in range(0, wide, step)]
            for y in range(0, high, step)
        ]
        return self._join(grid)

    def _decode_tile(self, latents: Tensor) -> Tensor:
        self.passes += 1
        return self._decode(latents)

    def _join(self, grid: list[list[Tensor]]) -> Tensor:
        kept, overlap = self._geometry.side_stride, self._geometry.side - self._geometry.side_stride
        rows = []
        for y, row in enumerate(grid):
            for x, tile in enumerate(row):
                if y:
                    _blend(grid[y - 1][x], tile, overlap, dim=_HIGH)
                if x:
                    _blend(row[x - 1], tile, overlap, dim=_WIDE)
            rows.append(torch.cat([tile[..., :kept, :kept] for tile in row], dim=_WIDE))
        return torch.cat(rows, dim=_HIGH)


def _blend(before: Tensor, after: Tensor, extent: int, *, dim: int) -> None:
    """Fade the last ``extent`` slices of ``before`` into the first of ``after``, in place, in float32."""
    extent = min(extent, before.shape[dim], after.shape[dim])
    weights = _weigh(extent, after.device).view(extent, *(1,) * (-dim - 1))
    head = after.narrow(dim, 0, extent)
    tail = before.narrow(dim, before.shape[dim] - extent, extent)
    head.copy_((tail * weights).to(after.dtype) + (head * weights).to(after.dtype))


def _weigh(extent: int, device: torch.device) -> Tensor:
    """A ramp from 0 to 1. Where nothing is computed it stays empty: filling it would be counted as work."""
    weights = torch.empty(extent, device=device)
    return weights if weights.is_meta else torch.arange(extent, out=weights).div_(extent)
