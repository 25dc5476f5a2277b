"""What image models share: how the server settles the size of an image request."""

from __future__ import annotations

from dataclasses import replace

from autotune.catalog.entry import SettledWorkload
from autotune.workload import Recipe, Workload
from runtime.errors import InputError

SIDE_MULTIPLE = 16
"""Eight pixels per latent, two latents per patch (``prepare_latent_shape`` of the server's pipeline configs)."""


def settle_image(model: str, workload: Workload) -> SettledWorkload:
    """Check an image request and cut its sides to multiples of 16 as the server does.

    Raises:
        InputError: more than one frame, or a side below one patch.
    """
    if workload.frames != 1:
        raise InputError(
            f"--frames is {workload.frames}: {model} makes images; use --frames 1, and --batch for several"
        )
    notes = []
    width, height = (side // SIDE_MULTIPLE * SIDE_MULTIPLE for side in (workload.width, workload.height))
    if min(width, height) < SIDE_MULTIPLE:
        nearest = (max(SIDE_MULTIPLE, width), max(SIDE_MULTIPLE, height))
        raise InputError(
            f"{workload.width}x{workload.height} is smaller than one patch of {model}: the nearest is "
            f"--width {nearest[0]} --height {nearest[1]}"
        )
    if (width, height) != (workload.width, workload.height):
        notes.append(
            f"{workload.width}x{workload.height} is cut to {width}x{height}: sides are multiples of {SIDE_MULTIPLE}"
        )
    if workload.recipe is Recipe.EXACT:
        notes.append(f"the quality recipe changes nothing for {model}: its VAE decodes an image one way only")
    return SettledWorkload(workload=replace(workload, width=width, height=height), notes=tuple(notes))
