"""Where profiling spends its time, and what the device holds meanwhile: the steps of a run are wrapped, not changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any
from unittest import mock

import torch
import toy_models  # noqa: F401 - makes the packages importable

from autotune.catalog.built_component import ComponentBuilder
from autotune.catalog.entry import CatalogEntry
from autotune.measure import heaviest_layer, held_piece, model, node
from autotune.workflows import profiled_device, profiling, profiling_wish
from autotune.workflows.profiled_device import ProfiledDevice
from runtime.devices.protocol import Device, MemoryKind, MemoryUse

CAPTURE, WEIGHTS, LINKS, INTERFERENCE, BUDGETS, PIECES = PHASES = (
    "capture",
    "weights",
    "links",
    "interference",
    "budgets",
    "pieces",
)
"""Shapes and counts on the meta device; random values into weights; copies; copies beside compute; pins, workspace and
what else a node is asked; everything else that has to do with pieces: building their calls, running and timing them."""

_HOLD_MEMORY = (LINKS, INTERFERENCE, BUDGETS, PIECES)
_STEPS: tuple[tuple[ModuleType, str, str], ...] = (
    (profiling_wish, "load_entry_facts", CAPTURE),
    (model, "capture_run", CAPTURE),
    (heaviest_layer, "capture_run", CAPTURE),
    (profiled_device, "capture_run", CAPTURE),
    (held_piece, "fill_module", WEIGHTS),
    (node, "measure_links", LINKS),
    (node, "measure_interference", INTERFERENCE),
    (profiling, "profile_node", BUDGETS),
    (profiling, "profile_model", PIECES),
)


class PhaseWatch:
    """Seconds by phase, what a phase calls of another one not counted, and device memory at the peak of each.

    Attributes:
        seconds: by phase.
        peaks: by phase: the use of device memory in that stretch between two releases that held the most.
        cold_bytes: what the device holds to begin runs with cold caches; known once it was opened.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.peaks: dict[str, MemoryUse] = {}
        self.cold_bytes = 0
        self._open: list[str] = []
        self._since_s = 0.0
        self._device: _RecordedDevice | None = None

    @contextmanager
    def steps_watched(self) -> Iterator[None]:
        """Profiling inside the block is watched."""
        with ExitStack() as stack:
            for owner, name, phase in _STEPS:
                stack.enter_context(mock.patch.object(owner, name, self.timed(phase, getattr(owner, name))))
            opened = profiling.open_profiled_device
            stack.enter_context(mock.patch.object(profiling, "open_profiled_device", self._record(opened)))
            yield

    def watched_entry(self, entry: CatalogEntry) -> CatalogEntry:
        """``entry`` whose builders count as capture: they make the classes on the meta device."""

        def build(*arguments: Any) -> dict[str, ComponentBuilder]:  # noqa: ANN401 - those of the entry's own
            return {name: self.timed(CAPTURE, builder) for name, builder in entry.build(*arguments).items()}

        return replace(entry, build=build)

    def timed(self, phase: str, step: Callable[..., Any]) -> Callable[..., Any]:
        """``step`` as part of ``phase``."""

        def call(*args: object, **kwargs: object) -> object:
            self._turn(phase)
            self._open.append(phase)
            try:
                return step(*args, **kwargs)
            finally:
                self._turn(phase)
                self._open.pop()

        return call

    def note(self, use: MemoryUse) -> None:
        """The device held that at the most since the last release."""
        phase = next((name for name in reversed(self._open) if name in _HOLD_MEMORY), BUDGETS)
        known = self.peaks.get(phase)
        if known is None or use.peak_total_bytes > known.peak_total_bytes:
            self.peaks[phase] = use

    def _turn(self, phase: str) -> None:
        """``phase`` begins or ends: seconds and peaks up to now belong to the one that goes on until now."""
        now_s = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now_s - self._since_s
        self._since_s = now_s
        if self._device is not None and phase in _HOLD_MEMORY:
            self._device.reset_peaks()

    def _record(self, opened: Callable[..., ProfiledDevice]) -> Callable[..., ProfiledDevice]:
        def call(*args: object, **kwargs: object) -> ProfiledDevice:
            target = opened(*args, **kwargs)
            self.cold_bytes = target.cold_bytes
            self._device = _RecordedDevice(target.device, self)
            return replace(target, device=self._device)

        return call


class _RecordedDevice:
    """A device whose peaks are noted before they are forgotten, and whenever something is released."""

    def __init__(self, device: Device, watch: PhaseWatch) -> None:
        self._device, self._watch = device, watch

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything that the device has
        return getattr(self._device, name)

    def reset_peaks(self) -> None:
        self._watch.note(self._device.memory())
        self._device.reset_peaks()

    def free(self, buffer: torch.Tensor) -> None:
        # The peaks from here on belong to what is put on the device next.
        self.reset_peaks()
        self._device.free(buffer)


def describe_peak(use: MemoryUse) -> dict[str, object]:
    """Device bytes at a peak, by who took them."""
    return {
        "total_bytes": use.peak_total_bytes,
        "weights_and_buffers_bytes": use.peak_bytes[MemoryKind.WEIGHTS] + use.peak_bytes[MemoryKind.BUFFERS],
        "activations_bytes": use.peak_bytes[MemoryKind.ACTIVATIONS],
        "reserved_bytes": use.reserved_bytes,
    }
