"""Which GPU planning is for when none is named: the one this process would compute on, as far as the driver tells."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.telemetry.survey import GpuSurvey, Surroundings, survey_gpus
from runtime.errors import InputError

_NEEDED = ("title", "total_bytes", "free_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedGpu:
    """The GPU of this process, or several that are alike.

    Attributes:
        title: the driver's name.
        memory_bytes: total device memory of one.
        free_bytes: the least that is free on any of them now.
        uuid: which card it is; None where several are alike and only the CUDA runtime knows, or where it is unknown.
    """

    title: str
    memory_bytes: int
    free_bytes: int
    uuid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What was found, or the reason why nothing was."""

    gpu: DetectedGpu | None
    reason: str


def probe_gpu(where: Surroundings | None = None) -> Detection:
    """Ask NVML; whatever goes wrong there only means that no GPU is known.

    Args:
        where: where to look; None for this process and this machine.

    Raises:
        InputError: the machine has several cards and it cannot be told which of them is meant, or it is a part of one.
    """
    return detect_gpu(survey_gpus(where))


def detect_gpu(survey: GpuSurvey) -> Detection:
    """The GPU of this process in a survey that was made.

    Raises:
        InputError: as ``probe_gpu``.
    """
    if not survey.used:
        if survey.readings and not survey.is_settled:
            raise InputError(f"which GPU is meant cannot be told: {survey.explanation}; or name a kind with --device")
        return Detection(gpu=None, reason=survey.explanation)
    return _detect(survey)


def _detect(survey: GpuSurvey) -> Detection:
    readings = [survey.readings[at] for at in survey.used]
    first = readings[0]
    if first.is_unified:
        reason = f"{first.title} shares the host's memory, which no device preset describes"
        return Detection(gpu=None, reason=reason)
    if first.mig_profile is not None:
        raise InputError(
            f"this process computes on a part of a GPU ({first.title}), of which no preset knows the rates: name the "
            "nearest card with --device and the part's memory with --vram-cap"
        )
    free = [reading.free_bytes for reading in readings if reading.free_bytes is not None]
    if first.title is None or first.total_bytes is None or len(free) < len(readings):
        reasons = (reading.unknown[name] for reading in readings for name in _NEEDED if name in reading.unknown)
        missing = "; ".join(dict.fromkeys(reasons)) or "a figure is missing"
        return Detection(gpu=None, reason=f"the driver does not describe its GPU ({missing})")
    gpu = DetectedGpu(
        title=first.title,
        memory_bytes=first.total_bytes,
        free_bytes=min(free),
        uuid=first.uuid if len(readings) == 1 else None,
    )
    return Detection(gpu=gpu, reason=f"the driver reports {first.title}: {survey.explanation}")
