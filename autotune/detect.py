"""Which GPU this machine has, asked of the driver; what cannot be read is unknown, never guessed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedGpu:
    """The GPUs of this machine, if they are all of one kind.

    Attributes:
        title: the driver's name for them.
        memory_bytes: total device memory of one.
        free_bytes: the least that is free on any of them now.
    """

    title: str
    memory_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What was found, or the reason why nothing was."""

    gpu: DetectedGpu | None
    reason: str


def probe_gpu() -> Detection:
    """Ask NVML. Cards of different kinds are not told apart here: the caller must then name one."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return Detection(gpu=None, reason="nvidia-ml-py is not installed, so no GPU was looked for")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Detection(gpu=None, reason=f"no NVIDIA driver answers ({error})")
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        if not handles:
            return Detection(gpu=None, reason="the driver lists no GPU")
        titles = sorted({_text(nvml.nvmlDeviceGetName(handle)) for handle in handles})
        if len(titles) > 1:
            return Detection(gpu=None, reason=f"this machine has several kinds of GPU ({', '.join(titles)})")
        memory = [nvml.nvmlDeviceGetMemoryInfo(handle) for handle in handles]
    except nvml.NVMLError as error:
        return Detection(gpu=None, reason=f"the driver refused to describe its GPU ({error})")
    finally:
        nvml.nvmlShutdown()
    gpu = DetectedGpu(
        title=titles[0],
        memory_bytes=min(int(info.total) for info in memory),
        free_bytes=min(int(info.free) for info in memory),
    )
    return Detection(gpu=gpu, reason=f"the driver reports {titles[0]}")


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
