"""What every family's capture uses: facts of one component from its work, the assembled facts. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import nn

from autotune.capture import ForwardWork
from autotune.catalog.built_component import BuiltComponent, CapturedComponent, InputFactory
from autotune.catalog.entry import SettledWorkload
from autotune.meta_tracker import WorkTracker
from autotune.meta_weights import build_component
from autotune.model_facts import ModelFacts
from autotune.work import UseWork
from runtime.deployment import Deployment
from runtime.model_spec import ComponentSpec, ModelSpec, PassGroup, RequestSpec, UseSpec

OUTPUT_BYTES_PER_VALUE = torch.float32.itemsize
"""Decoded frames stay on the device as float32 until the request ends."""

# Reserved while the Qwen-Image VAE decodes on an RTX 4090, over the graph's own peak, both without 0.24 GiB of weights:
# 7.95 / 6.45 GiB at 1280 pixels, 20.56 / 16.51 at 2048 (public_measurements.csv, PM304 and PM306).
IMAGE_VAE_RESERVED_RATIO = 1.245


def is_copied_at_load(_: str) -> bool:
    """Every weight of a component whose loader copies each one out of its file, so that none can stay mapped.

    Source: SGLang-diffusion 0.5.23, ``load_weights`` of runtime/models/encoders and runtime/loader/weight_utils.py; of
    the native text encoders only MiniMax-H3's keeps tensors of the checkpoint.
    """
    return True


def made_from(*parts: str) -> Callable[[str], bool]:
    """A test for weights whose name contains one of ``parts``: those that the server fuses into others at load."""
    return lambda name: any(part in name for part in parts)


def one_group(
    spec: ComponentSpec, forward: ForwardWork, stacks: Sequence[str], *, passes: int = 1, captured_passes: int = 1
) -> CapturedComponent:
    """A use that traverses ``stacks`` in each of ``passes`` equal passes; the captured run made ``captured_passes``."""
    return CapturedComponent(
        spec=spec,
        use=UseSpec(component=spec.name, groups=(PassGroup(stacks=tuple(stacks), passes=passes),)),
        work=UseWork(
            component=spec.name,
            compute_dtype=spec.run_dtype,
            groups=(forward.group(stacks, passes=captured_passes),),
            outside=forward.once,
            activation_bytes=forward.activation_bytes,
        ),
    )


def with_vae_reserve(captured: CapturedComponent) -> CapturedComponent:
    """The same component with what the allocator reserves while a convolutional decoder runs."""
    return captured._replace(work=replace(captured.work, reserved_ratio=IMAGE_VAE_RESERVED_RATIO))


def build_image_vae(
    model: nn.Module, latents: Sequence[int], *, checkpoint_dtype: torch.dtype | None = None, passes: int = 1
) -> BuiltComponent:
    """Decode of one batch of images in bfloat16; the blocks of the encoder are streamed too but do not run.

    ``passes`` is how often one decode traverses the blocks: once, or once per tile.
    """
    stacks = {
        "encoder.down_blocks": list(model.encoder.down_blocks),
        "decoder.up_blocks": list(model.decoder.up_blocks),
    }
    spec = build_component(
        "vae",
        model,
        stacks=stacks,
        run_dtype="bfloat16",
        default_mode="layerwise-offload",
        checkpoint_dtype=checkpoint_dtype,
    )

    def run(make_input: InputFactory, _: WorkTracker | None) -> object:
        return model.decode(make_input(*latents, dtype=torch.bfloat16), return_dict=False)

    def finish(forward: ForwardWork) -> CapturedComponent:
        return with_vae_reserve(one_group(spec, forward, ("decoder.up_blocks",), passes=passes, captured_passes=passes))

    return BuiltComponent(spec=spec, module=model, stacks=stacks, run=run, finish=finish)


def assemble_facts(
    name: str,
    settled: SettledWorkload,
    captured: Mapping[str, CapturedComponent],
    *,
    loaded: Sequence[str],
    sources: tuple[str, ...],
    notes: tuple[str, ...],
    deployment: Deployment,
) -> ModelFacts:
    """The facts of one model from its components in order of use; ``loaded`` names them in order of load."""
    workload = settled.workload
    values = 3 * workload.batch * workload.frames * workload.height * workload.width
    return ModelFacts(
        model=ModelSpec(
            name=name,
            components=tuple(captured[part].spec for part in loaded),
            sources=sources,
            deployment=deployment,
        ),
        workload=workload,
        request=RequestSpec(uses=tuple(part.use for part in captured.values())),
        work=tuple(part.work for part in captured.values()),
        output_frames_bytes=values * OUTPUT_BYTES_PER_VALUE,
        notes=(*settled.notes, *notes),
    )
