"""What pinned host memory really costs and where it ends.

::

    buffer     |== touched first: its pages exist, as those of a layer that was filled do ==|
    requests   [1/16][1/16][ 1/8 ][   1/4   ][        1/2        ]      of the target, each timed alone
    refused                                  x  the same again, then halves of it
    after      everything is unpinned, the last one first

A refusal is told apart by what follows it: the same request is taken when it is repeated (*passing*); smaller requests
go beyond the total that it would have made (the ceiling is of the *single call*); or nothing goes beyond it any more
(the ceiling is of the *total*). Free memory shows none of these ceilings (FreeToken #233, vllm-omni #2748).
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable

import torch

from autotune.measure.pin_cost import CeilingKind, PinCeiling, PinCost, PinRequest
from autotune.measure.process_memory import ProcessMemory, read_process_memory
from runtime.devices.pinning import allocate_own_pages
from runtime.devices.protocol import Device
from runtime.errors import DeviceError, InputError, PinError
from runtime.units import GIB

MOST_TARGET_BYTES = 2 * GIB
"""Enough to meet the ceilings of WSL, little enough not to disturb a machine in use."""

MOST_TARGET_RATIO = 1 / 8
"""Of what is available: pinned pages cannot be given to anybody else while they are."""

_FIRST_PARTS = 16
_SMALLEST_PARTS = 64


def choose_pin_target(available_bytes: int) -> int:
    """How much to try where ``available_bytes`` of host memory are left; 0 where that is too little to try."""
    target = min(MOST_TARGET_BYTES, int(available_bytes * MOST_TARGET_RATIO))
    return target if target >= _SMALLEST_PARTS * mmap.PAGESIZE else 0


def measure_pins(
    device: Device,
    target_bytes: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
    read_memory: Callable[[], ProcessMemory] = read_process_memory,
) -> PinCost:
    """Pin up to ``target_bytes`` and let go of everything again, whatever happens.

    Args:
        device: pins through its own driver, which clears the error that a refusal leaves behind.
        target_bytes: as ``choose_pin_target`` gives it.
        clock: seconds.
        read_memory: what the process has locked and resident.

    Raises:
        InputError: the target is less than 64 pages.
        DeviceError: something could not be unpinned; all else was.
    """
    if target_bytes < _SMALLEST_PARTS * mmap.PAGESIZE:
        raise InputError(
            f"a target of {target_bytes} bytes is too small to pin in steps: take at least "
            f"{_SMALLEST_PARTS * mmap.PAGESIZE}"
        )
    trial = _Trial(device, target_bytes, clock)
    before = read_memory()
    try:
        trial.run()
        after = read_memory()
    finally:
        trial.release()
    return trial.summarize(before, after)


class _Trial:
    """The buffer, what of it is pinned, and what was asked."""

    def __init__(self, device: Device, target_bytes: int, clock: Callable[[], float]) -> None:
        self._device = device
        self._clock = clock
        self._target_bytes = _whole_pages(target_bytes)
        self._smallest_bytes = _whole_pages(self._target_bytes // _SMALLEST_PARTS)
        self._buffer = allocate_own_pages(self._target_bytes).zero_()
        self._total_bytes = 0
        self._pinned: list[torch.Tensor] = []
        self._requests: list[PinRequest] = []
        self._ceilings: list[PinCeiling] = []

    def run(self) -> None:
        """Pin in growing steps until the target or the ceiling of the total is reached."""
        size_bytes, most_bytes = _whole_pages(self._target_bytes // _FIRST_PARTS), self._target_bytes
        while self._total_bytes < self._target_bytes:
            size_bytes = min(size_bytes, most_bytes, self._target_bytes - self._total_bytes)
            refusal = self._ask(size_bytes)
            if refusal and not self._ask(size_bytes):
                self._note(CeilingKind.PASSING, size_bytes, size_bytes, refusal)
            elif refusal:
                most_bytes = self._fill(size_bytes, refusal)
                if not most_bytes:
                    return
            # The total doubles: every request is as large as all before it together.
            size_bytes = self._total_bytes

    def _fill(self, refused_bytes: int, refusal: str) -> int:
        """Reach with smaller requests the total that the refused one would have made.

        Returns:
            The largest request that was granted; 0 where the total was not reached.
        """
        goal_bytes = self._total_bytes + refused_bytes
        part_bytes, granted_bytes = _whole_pages(refused_bytes // 2), 0
        while self._total_bytes < goal_bytes:
            size_bytes = min(part_bytes, goal_bytes - self._total_bytes)
            if size_bytes and not self._ask(size_bytes):
                granted_bytes = max(granted_bytes, size_bytes)
                continue
            part_bytes = _whole_pages(size_bytes // 2)
            if part_bytes < self._smallest_bytes:
                self._note(CeilingKind.TOTAL, self._total_bytes, self._total_bytes + size_bytes, refusal)
                return 0
        self._note(CeilingKind.SINGLE_CALL, granted_bytes, refused_bytes, refusal)
        return granted_bytes

    def _ask(self, size_bytes: int) -> str:
        """Pin the next ``size_bytes``; the reason where they are refused, else nothing."""
        part = self._buffer[self._total_bytes : self._total_bytes + size_bytes]
        start_s, refusal = self._clock(), ""
        try:
            self._device.pin(part)
            self._pinned.append(part)
        except PinError as error:
            refusal = str(error)
        duration_s = self._clock() - start_s
        self._requests.append(PinRequest(size_bytes=size_bytes, duration_s=duration_s, refusal=refusal))
        if not refusal:
            self._total_bytes += size_bytes
        return refusal

    def _note(self, kind: CeilingKind, granted_bytes: int, refused_bytes: int, reason: str) -> None:
        self._ceilings.append(
            PinCeiling(kind=kind, granted_bytes=granted_bytes, refused_bytes=refused_bytes, reason=reason)
        )

    def release(self) -> None:
        """Unpin everything; an error of one comes after all others were tried."""
        failure: DeviceError | None = None
        while self._pinned:
            try:
                self._device.unpin(self._pinned.pop())
            except DeviceError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def summarize(self, before: ProcessMemory, after: ProcessMemory) -> PinCost:
        """The report."""
        granted = [request for request in self._requests if not request.refusal]
        total = self._total_bytes
        return PinCost(
            pinning=self._device.pinning,
            requested_bytes=self._target_bytes,
            obtained_bytes=total,
            requests=tuple(self._requests),
            ceilings=tuple(self._ceilings),
            s_per_byte=sum(request.duration_s for request in granted) / total if total else None,
            locked_per_byte=_growth(before.locked_bytes, after.locked_bytes, total),
            extra_resident_per_byte=_growth(before.resident_bytes, after.resident_bytes, total),
        )


def _growth(before_bytes: int | None, after_bytes: int | None, pinned_bytes: int) -> float | None:
    if before_bytes is None or after_bytes is None or not pinned_bytes:
        return None
    return (after_bytes - before_bytes) / pinned_bytes


def _whole_pages(size_bytes: int) -> int:
    return size_bytes // mmap.PAGESIZE * mmap.PAGESIZE
