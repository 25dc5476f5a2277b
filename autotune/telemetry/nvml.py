"""The one way to ask NVML, the driver's management library. Every query returns a value or ``Unknown``.

``pynvml`` is what the distribution nvidia-ml-py installs. It raises its own errors, and a broken driver raises anything
else: all of them are translated here, once. So are values that cannot be: a memory of 0 bytes, a clock or a link of 0,
and NVML's "not available", which is the largest number of the type.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from autotune.telemetry.answers import Answer, Unknown, describe_error
from autotune.telemetry.nvml_device import NvmlDevice
from autotune.telemetry.nvml_query import NvmlQuery

NvmlModule = Any


def _load_pynvml() -> NvmlModule:
    return importlib.import_module("pynvml")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoModule(Unknown):
    """NVML cannot even be asked: its Python module is not there, or broken."""


class Nvml:
    """An initialised library."""

    def __init__(self, module: NvmlModule) -> None:
        self._query = NvmlQuery(module)

    def driver_version(self) -> Answer[str]:
        """The version of the driver, such as ``580.65.06``."""
        return self._query.text("nvmlSystemGetDriverVersion")

    def devices(self) -> Answer[tuple[Answer[NvmlDevice], ...]]:
        """The cards, in the library's order, which is not CUDA's; one that has fallen off the bus is unknown."""
        count = self._query.whole("nvmlDeviceGetCount")
        if isinstance(count, Unknown):
            return count
        return tuple(self._device_at(index) for index in range(count))

    def device_of_uuid(self, uuid: str) -> Answer[NvmlDevice]:
        """The card or MIG instance with this UUID, without asking any other."""
        handle = self._query.ask("nvmlDeviceGetHandleByUUID", uuid)
        if isinstance(handle, Unknown):
            return handle
        if not uuid.startswith("MIG-"):
            return NvmlDevice(self._query, handle)
        whole = self._query.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
        return whole if isinstance(whole, Unknown) else NvmlDevice(self._query, handle, whole)

    def _device_at(self, index: int) -> Answer[NvmlDevice]:
        handle = self._query.ask("nvmlDeviceGetHandleByIndex", index)
        return handle if isinstance(handle, Unknown) else NvmlDevice(self._query, handle)


@contextmanager
def open_nvml(load: Callable[[], NvmlModule] | None = None) -> Iterator[Answer[Nvml]]:
    """The library, or why there is none. May be nested: the library counts how often it was opened.

    Args:
        load: returns the module ``pynvml``, or something that behaves like it; None for the installed one.
    """
    try:
        module = _load_pynvml() if load is None else load()
    except Exception as error:  # a broken driver library raises anything at import
        yield NoModule(reason=f"the Python module pynvml (of nvidia-ml-py) cannot be loaded: {describe_error(error)}")
        return
    try:
        module.nvmlInit()
    except Exception as error:
        yield Unknown(reason=f"no NVIDIA driver answers: {describe_error(error)}")
        return
    try:
        yield Nvml(module)
    finally:
        with contextlib.suppress(Exception):
            module.nvmlShutdown()
