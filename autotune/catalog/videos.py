"""What video models share: how the server settles the pixels, the frames and the prompt of a request."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.catalog.entry import SettledWorkload
from autotune.workload import Recipe, Workload
from runtime.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoGrid:
    """How a model divides a video.

    Attributes:
        pixels_per_latent: pixels along each side of one latent; the server cuts sides to a multiple of it.
        latents_per_patch: latents along each side of one patch of the DiT.
        frames_per_latent: frames of each latent frame but the first, which covers one.
        prompt_tokens: length to which the server pads and cuts every prompt.
    """

    pixels_per_latent: int
    latents_per_patch: int
    frames_per_latent: int
    prompt_tokens: int

    @property
    def pixels_per_patch(self) -> int:
        """Pixels along each side of one patch."""
        return self.pixels_per_latent * self.latents_per_patch

    def count_latent_frames(self, frames: int) -> int:
        """Latent frames that ``frames`` frames fill; a rest below one latent frame is dropped."""
        return (frames - 1) // self.frames_per_latent + 1

    def count_latents(self, pixels: int) -> int:
        """Latents along a side of ``pixels`` pixels."""
        return pixels // self.pixels_per_latent

    def count_rows(self, workload: Workload) -> int:
        """Rows that the video of a settled request has in the DiT: one per latent frame and patch."""
        patches = (workload.width // self.pixels_per_patch) * (workload.height // self.pixels_per_patch)
        return self.count_latent_frames(workload.frames) * patches


def settle_video(model: str, workload: Workload, grid: VideoGrid) -> SettledWorkload:
    """Check a request and round it as the server does.

    Raises:
        InputError: a side that the model cannot divide into patches.
    """
    width, height = (
        side // grid.pixels_per_latent * grid.pixels_per_latent for side in (workload.width, workload.height)
    )
    if min(width, height) < grid.pixels_per_patch or width % grid.pixels_per_patch or height % grid.pixels_per_patch:
        nearest = [
            max(1, round(side / grid.pixels_per_patch)) * grid.pixels_per_patch
            for side in (workload.width, workload.height)
        ]
        raise InputError(
            f"{workload.width}x{workload.height} does not divide into patches of {model}: sides are multiples of "
            f"{grid.pixels_per_patch}; the nearest is --width {nearest[0]} --height {nearest[1]}"
        )
    frames = (grid.count_latent_frames(workload.frames) - 1) * grid.frames_per_latent + 1
    notes = [f"the server pads and cuts every prompt to {grid.prompt_tokens} tokens"]
    if workload.prompt_tokens != grid.prompt_tokens:
        notes.append(f"{workload.prompt_tokens} prompt tokens become {grid.prompt_tokens}")
    if (width, height) != (workload.width, workload.height):
        notes.append(
            f"{workload.width}x{workload.height} is cut to {width}x{height}: one latent covers "
            f"{grid.pixels_per_latent} pixels"
        )
    if frames != workload.frames:
        notes.append(
            f"{workload.frames} frames come out as {frames}: the video VAE covers {grid.frames_per_latent} n + 1"
        )
    if workload.recipe is Recipe.EXACT:
        notes.append(f"the quality recipe changes no pass of {model}, only how its kernels round")
    settled = replace(workload, width=width, height=height, frames=frames, prompt_tokens=grid.prompt_tokens)
    return SettledWorkload(workload=settled, notes=tuple(notes))
