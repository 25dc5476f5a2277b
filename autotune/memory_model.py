"""Device memory at every phase of a pipeline's life, and what of it is charged against the cap.

``live`` is what tensors occupy. The cap is charged with an estimate of what the allocator reserves for them, the
context and library workspaces, plus what is kept free: an explicit reserve for what is not modelled (latents, prompt
embeddings, temporaries of the host loop), or the margin for how far the estimate may be off where that is larger.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.model_facts import ModelFacts
from autotune.phases import phase_uses
from runtime.plan import Placement
from runtime.residency import Mode
from runtime.units import MIB

# Reserved over allocated bytes while a VAE decodes at 1280 and 2048 pixels: 8.188 / 6.693 and 20.799 / 16.754 GiB
# (tests/data/public_measurements.csv, PM304 and PM306, torch's own statistics on an RTX 4090).
ACTIVATION_RESERVED_RATIO = 1.22

# torch keeps one cuBLAS workspace per handle and stream: 4096 KiB x 2 + 16 KiB x 8 by default, 32 MiB on Hopper and
# newer (torch documentation, CUBLAS_WORKSPACE_CONFIG); two streams launch matrix products here.
WORKSPACE_BYTES = 64 * MIB

DEFAULT_RESERVE_BYTES = 512 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """Constants of the device and the user's reserve.

    Attributes:
        context_bytes: CUDA context and kernel modules of the serving process.
        reserve_bytes: the least that is kept free on purpose; charged against the cap.
        margin_bytes: per phase of life, what is kept free for the error of the estimate; empty for nothing.
    """

    context_bytes: int
    reserve_bytes: int = DEFAULT_RESERVE_BYTES
    margin_bytes: tuple[int, ...] = ()


def reserve_activations(facts: ModelFacts) -> tuple[int, ...]:
    """Per phase of life, what the allocator is estimated to reserve for the activations that are live in it."""
    ratios = [work.reserved_ratio or ACTIVATION_RESERVED_RATIO for work in facts.work]
    reserved = [round(work.activation_bytes * ratio) for work, ratio in zip(facts.work, ratios, strict=True)]
    return tuple(reserved[use] if use is not None else 0 for use in phase_uses(facts.request))


class MemoryModel:
    """Device and host bytes of one model and workload.

    Attributes:
        activation_bytes: per phase of life, live activations and decoded frames.
        charged_overhead_bytes: per phase, all that is charged besides weights.
        kept_free_bytes: per phase, the part of that which nothing is expected to occupy.
    """

    def __init__(self, facts: ModelFacts, settings: MemorySettings) -> None:
        self.settings = settings
        self._model = facts.model
        uses = phase_uses(facts.request)
        margins = settings.margin_bytes or (0,) * len(uses)
        last = len(facts.request.uses) - 1
        live: list[int] = []
        charged: list[int] = []
        self.kept_free_bytes = tuple(max(settings.reserve_bytes, margin) for margin in margins)
        for use, kept_free, reserved in zip(uses, self.kept_free_bytes, reserve_activations(facts), strict=True):
            activations = facts.work[use].activation_bytes if use is not None else 0
            frames = facts.output_frames_bytes if use == last else 0
            live.append(activations + frames)
            charged.append(reserved + frames + settings.context_bytes + WORKSPACE_BYTES + kept_free)
        self.activation_bytes = tuple(live)
        self.charged_overhead_bytes = tuple(charged)

    def standing_bytes(self, component: int, placement: Placement) -> int:
        """Weights that are on the device all the time: a resident component, or what a streamed one keeps."""
        spec = self._model.components[component]
        if placement.mode is Mode.RESIDENT:
            return spec.run_bytes
        return spec.rest_run_bytes if placement.mode is Mode.LAYERWISE_OFFLOAD else 0

    def least_bytes(self, component: int, placement: Placement) -> int:
        """Device bytes that one component needs at some moment in any case: what stands, and all its residents."""
        spec = self._model.components[component]
        if placement.mode is not Mode.LAYERWISE_OFFLOAD:
            return spec.run_bytes
        streamed = sum(
            stack.layers[layer].run_bytes
            for stack in spec.stacks
            for layer in placement.streamed_layers(len(stack.layers))
        )
        return spec.rest_run_bytes + spec.stack_run_bytes - streamed
