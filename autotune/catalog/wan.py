"""What the Wan text-to-video models share: a UMT5-XXL encoder, a DiT of equal blocks, a causal video VAE."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.catalog.entry import SettledWorkload
from autotune.catalog.videos import VideoGrid, settle_video
from autotune.workload import Workload
from runtime.deployment import Deployment

# Server: configs/models/vaes/wanvae.py, configs/models/dits/wanvideo.py, configs/models/encoders/t5.py.
GRID = VideoGrid(pixels_per_latent=8, latents_per_patch=2, frames_per_latent=4, prompt_tokens=512)

FORWARDS_PER_STEP = 2
"""Guidance: one forward for the prompt and one for the negative prompt, one after the other."""

TRAIN_TIMESTEPS = 1000

TEXT_ENCODER_CONFIG: dict[str, object] = {
    "vocab_size": 256384,
    "d_model": 4096,
    "d_kv": 64,
    "d_ff": 10240,
    "num_layers": 24,
    "num_heads": 64,
    "feed_forward_proj": "gated-gelu",
}

SHARED_SOURCES = (
    "text_encoder: the hub repository's text_encoder/config.json (UMT5-XXL encoder), which Wan2.1 and Wan2.2 share; "
    "SGLang-diffusion 0.5.23 runs it in float32 (text_encoder_precisions of configs/pipeline_configs/wan.py) and logs "
    "21.16 GiB for it (sgl-project/sglang pull request 17318)",
    "vae: defaults of diffusers AutoencoderKLWan, equal to the hub repository's vae/config.json, float32",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoExperts:
    """How the server divides the steps between ``transformer`` and ``transformer_2``.

    Attributes:
        boundary_ratio: share of the training timesteps from which on the first, high-noise expert runs.
        flow_shift: shift of the server's schedule.
    """

    boundary_ratio: float
    flow_shift: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WanModel:
    """What tells one Wan model from another, beside the configuration of its DiT.

    Attributes:
        name: catalog name.
        text_encoder_file_dtype: dtype of the released text encoder.
        vae_decode_dtype: dtype in which the server decodes; the weights are float32 either way.
        has_vae_encoder: whether the server loads the encoder of the VAE.
        transformer_mode: the mode of the DiT on a card that cannot hold everything.
        loaded: components, in the server's order of load: the largest files first.
        deployment: the server's configuration for the model.
        experts: how a second transformer takes over; None when there is one transformer.
    """

    name: str
    text_encoder_file_dtype: str
    vae_decode_dtype: str
    has_vae_encoder: bool
    transformer_mode: str
    loaded: tuple[str, ...]
    deployment: Deployment
    experts: TwoExperts | None = None

    def count_passes(self, steps: int) -> dict[str, int]:
        """Passes of each transformer over its blocks in a request of ``steps`` steps, in order of use.

        A transformer that the schedule does not reach is left out.
        """
        high = steps if self.experts is None else count_high_noise_steps(steps, self.experts)
        passes = split_passes(steps, high_noise_steps=high)
        return {name: count for name, count in zip(("transformer", "transformer_2"), passes, strict=True) if count}


def split_passes(steps: int, *, high_noise_steps: int, forwards_per_step: int = FORWARDS_PER_STEP) -> tuple[int, int]:
    """Passes of the high-noise and of the low-noise expert: each step runs on one of them, not on both."""
    return high_noise_steps * forwards_per_step, (steps - high_noise_steps) * forwards_per_step


def count_high_noise_steps(steps: int, experts: TwoExperts) -> int:
    """Steps of the server's schedule whose timestep lies at the boundary or above it.

    Source: ``runtime/models/schedulers/scheduling_flow_unipc_multistep.py`` of SGLang-diffusion 0.5.23 (the training
    schedule is shifted, its range is divided evenly, the points are shifted again and cut to whole timesteps) and
    ``_select_and_manage_model`` in ``runtime/pipelines_core/stages/denoising.py``.
    """
    boundary = experts.boundary_ratio * TRAIN_TIMESTEPS
    first = _shift(1.0 - 1.0 / TRAIN_TIMESTEPS, experts.flow_shift)
    sigmas = (_shift(first * (1.0 - step / steps), experts.flow_shift) for step in range(steps))
    return sum(int(sigma * TRAIN_TIMESTEPS) >= boundary for sigma in sigmas)


def _shift(sigma: float, flow_shift: float) -> float:
    return flow_shift * sigma / (1.0 + (flow_shift - 1.0) * sigma)


def settle_wan(model: WanModel, workload: Workload) -> SettledWorkload:
    """Check a request and round it as the server does; say how two experts share its steps.

    Raises:
        InputError: a side that the model cannot divide into patches.
    """
    settled = settle_video(model.name, workload, GRID)
    if model.experts is None:
        return settled
    high = count_high_noise_steps(workload.steps, model.experts)
    note = (
        f"of {workload.steps} steps, the high-noise expert runs {high} and the low-noise expert "
        f"{workload.steps - high} (boundary {model.experts.boundary_ratio}, flow shift {model.experts.flow_shift:g})"
    )
    return SettledWorkload(workload=settled.workload, notes=(*settled.notes, note))
