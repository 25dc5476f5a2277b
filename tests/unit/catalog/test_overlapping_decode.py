"""Tiles in time, height and width: shapes and counts, on real tensors."""

import pytest
import torch
from torch.nn import functional

from autotune.catalog.overlapping_decode import OverlappingDecode, TileGeometry


def decode_tile(latents):
    """Every latent becomes 8 x 8 pixels and four frames, the first one frame."""
    frames = [latents[:, :, :1], latents[:, :, 1:].repeat_interleave(4, dim=2)]
    return functional.interpolate(torch.cat(frames, dim=2), scale_factor=(1, 8, 8))


@pytest.mark.parametrize(
    ("frames", "high", "wide", "passes"),
    [
        (1, 20, 20, 1),
        (4, 24, 24, 1),
        (4, 24, 30, 2),
        (4, 40, 20, 2),
        (5, 30, 30, 2),
        (5, 33, 30, 2 * 2 * 2),
        (32, 90, 160, 11 * 4 * 7),
    ],
)
def test_every_frame_and_pixel_is_decoded_in_as_many_tiles_as_the_server_runs(frames, high, wide, passes):
    decode = OverlappingDecode(decode_tile, TileGeometry())
    decoded = decode(torch.ones(1, 1, frames, high, wide))
    assert decoded.shape == (1, 1, 4 * (frames - 1) + 1, 8 * high, 8 * wide)
    assert decode.passes == passes
