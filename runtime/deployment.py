"""What a server's configuration says about placing one model, apart from the model itself."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The figures from which the server chooses placements that nobody gave.

    Source: ``ModelDeploymentConfig`` and the sampling defaults of SGLang-diffusion 0.5.23; field names follow it where
    they are words for people, too.

    Attributes:
        makes_images: whether the task makes images; the server keeps an image DiT resident more readily.
        dit_layerwise_modes: performance modes (``auto``, ``memory``) in which the DiT streams by default.
        dit_prefetch_value: prefetch value of the DiT under ``auto``; 0 is one layer.
        keep_resident_min_gib: free device memory from which ``keep_resident_groups`` stay resident under ``auto``; None
            for the task's default.
        keep_resident_groups: component groups (``dit``, ``text_encoder``, ``image_encoder``, ``vae``) that then stay.
        default_steps: steps of the server's default request: how often it expects a DiT to run when it ranks components
            for pinned memory.
    """

    makes_images: bool
    dit_layerwise_modes: tuple[str, ...] = ()
    dit_prefetch_value: float = 0.0
    keep_resident_min_gib: float | None = None
    keep_resident_groups: tuple[str, ...] = ("vae",)
    default_steps: int = 1

    def __post_init__(self) -> None:
        if self.dit_prefetch_value < 0 or (self.keep_resident_min_gib or 0) < 0:
            raise InputError("prefetch value and memory threshold of a deployment are not negative")
        if self.default_steps < 1:
            raise InputError(f"default_steps is {self.default_steps}: a request has at least one step")
