"""Reproduces what the server chooses by itself for a model, a card and a performance mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.conformance.difference import FieldDifference, compare_values
from autotune.conformance.records import DefaultComponent, DefaultsRecord
from autotune.server_default import DefaultPlacement, default_modes
from runtime.deployment import Deployment
from runtime.errors import InputError
from runtime.residency import Mode
from runtime.units import GIB

_BYTES_PER_WEIGHT = 2
_BYTES_PER_FLOAT32 = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedModel:
    """What the server's configuration says about one of the recorded models.

    Attributes:
        deployment: its figures for placing the model.
        float32: components that it loads in float32; all others are loaded in a type of two bytes.
    """

    deployment: Deployment
    float32: frozenset[str] = frozenset()


# configs/pipeline_configs/*.py (deployment and the `*_precision` fields) and configs/sample/*.py (steps) of
# SGLang-diffusion 0.5.23. Reading them from the catalog would bind this check to the classes that the catalog imports.
RECORDED_MODELS = {
    "MiniMax-H3": RecordedModel(
        deployment=Deployment(
            makes_images=False,
            dit_layerwise_modes=("auto", "memory"),
            keep_resident_min_gib=120.0,
            keep_resident_groups=("dit", "text_encoder", "vae"),
            default_steps=50,
        ),
        float32=frozenset({"video_vae", "audio_vae"}),
    ),
    "Wan2.2-T2V-A14B": RecordedModel(
        deployment=Deployment(
            makes_images=False,
            dit_layerwise_modes=("auto", "memory"),
            dit_prefetch_value=2.0,
            keep_resident_min_gib=120.0,
            keep_resident_groups=("dit", "vae"),
            default_steps=40,
        ),
        float32=frozenset({"text_encoder", "vae"}),
    ),
    "Qwen-Image": RecordedModel(deployment=Deployment(makes_images=True, default_steps=50)),
    "FLUX.1-dev": RecordedModel(deployment=Deployment(makes_images=True, default_steps=50)),
    "HunyuanVideo": RecordedModel(deployment=Deployment(makes_images=False, default_steps=50)),
    "Z-Image-Turbo": RecordedModel(
        deployment=Deployment(makes_images=True, keep_resident_min_gib=30.0, default_steps=9)
    ),
}


def check_defaults(record: DefaultsRecord) -> Iterator[FieldDifference]:
    """Choose for the recorded model and card and yield what differs.

    Raises:
        InputError: the configuration of the recorded model is not known here.
    """
    model = RECORDED_MODELS.get(record.model)
    if model is None:
        known = ", ".join(RECORDED_MODELS)
        raise InputError(f"the configuration of model {record.model!r} is not known: known are {known}")
    chosen = default_modes(
        model.deployment,
        {
            name: count * (_BYTES_PER_FLOAT32 if name in model.float32 else _BYTES_PER_WEIGHT)
            for name, count in record.component_parameters.items()
        },
        device_free_bytes=round(record.device_free_gib * GIB),
        performance_mode=record.performance_mode,
    )
    yield from compare_values("components", sorted(record.components), sorted(chosen))
    for name, recorded in record.components.items():
        if name in chosen:
            yield from _compare(f"components.{name}", recorded, chosen[name])


def _compare(field: str, recorded: DefaultComponent, ours: DefaultPlacement) -> Iterator[FieldDifference]:
    yield from compare_values(f"{field}.mode", recorded.mode, str(ours.mode))
    streams = ours.mode is Mode.LAYERWISE_OFFLOAD
    for knob in ("prefetch_value", "resident_value", "policy", "lifetime"):
        # Only a component that streams has knobs in a record.
        yield from compare_values(f"{field}.{knob}", getattr(recorded, knob), getattr(ours, knob) if streams else None)
