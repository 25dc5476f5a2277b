"""Which GPU this machine has, asked of the driver; what cannot be read is unknown, never guessed."""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from typing import Any

from runtime.errors import InputError


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
    """Ask NVML; whatever goes wrong there only means that no GPU is known.

    Raises:
        InputError: the machine has cards of different kinds, so that one must be named.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except Exception as error:  # a broken driver library raises anything at import
        return Detection(gpu=None, reason=f"no GPU could be looked for ({_describe(error)})")
    try:
        nvml.nvmlInit()
    except Exception as error:
        return Detection(gpu=None, reason=f"no NVIDIA driver answers ({_describe(error)})")
    try:
        found = _list_gpus(nvml)
    except Exception as error:
        return Detection(gpu=None, reason=f"the driver does not describe its GPU ({_describe(error)})")
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()
    if not found:
        return Detection(gpu=None, reason="the driver lists no usable GPU")
    titles = sorted({gpu.title for gpu in found})
    if len(titles) > 1:
        raise InputError(f"this machine has several kinds of GPU ({', '.join(titles)}): name one with --device")
    gpu = min(found, key=lambda gpu: gpu.free_bytes)
    return Detection(gpu=gpu, reason=f"the driver reports {gpu.title}")


def _list_gpus(nvml: Any) -> list[DetectedGpu]:  # noqa: ANN401 - a module that is not always there
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        name = nvml.nvmlDeviceGetName(handle)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        total, free = int(memory.total), int(memory.free)
        if total > 0 and 0 <= free <= total:
            title = name.decode() if isinstance(name, bytes) else str(name)
            found.append(DetectedGpu(title=title, memory_bytes=total, free_bytes=free))
    return found


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
