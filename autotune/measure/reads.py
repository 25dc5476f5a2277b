"""Times reads of a mapped file into pinned memory, out of the page cache and from disk. Imports torch.

A read is what a courier does with a layer that waits in the checkpoint file: the span on the ``read`` lane, from the
mapped file into a pinned slot. The copy to the device that follows it is not counted.

- From the page cache: the same stretch of the file again and again.
- From disk: before every read, untimed, the stretch leaves the mapping (``MADV_DONTNEED``; the kernel drops no page
  that is mapped) and the page cache (``POSIX_FADV_DONTNEED`` after ``fsync``; it drops no dirty page). The next read
  takes the next stretch of the file, so that a server of files far away does not answer from its own memory. There is
  no warm-up, which is what would be wrong here, and no more samples than needed: a slow disk takes seconds for each.
- Whether the pages really left cannot be seen everywhere (``mincore`` says that all are there for files of other
  owners, and some file systems drop nothing): a disk that is as fast as the page cache is said to be suspect.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import BinaryIO

import torch

from autotune.measure.buffers import CopyBuffers
from autotune.measure.timing import TimingProtocol, begin_sample, time_repeatedly
from autotune.measurements.timing import Timing
from runtime.devices.protocol import Courier, Device, Label, QueuedCopy
from runtime.timeline import Lane

SUSPECT_RATIO = 0.8
"""Disks reach this share of the page cache's rate at most, or are suspect: a judgement, not a measurement."""

_MOST_STRETCHES = 8
_MOST_COLD_COUNT = 3


class Stretch:
    """A mapped part of a file."""

    def __init__(self, file: BinaryIO, offset: int, size_bytes: int) -> None:
        self._file = file
        self._offset, self._size_bytes = offset, size_bytes
        # A private mapping: torch takes no memory that cannot be written, and nothing is ever written to it.
        self._mapping = mmap.mmap(file.fileno(), size_bytes, access=mmap.ACCESS_COPY, offset=offset)

    def view(self) -> torch.Tensor:
        """Its bytes, as they lie in the file."""
        return torch.frombuffer(self._mapping, dtype=torch.uint8)

    def leave_page_cache(self) -> None:
        """The next read comes from disk, as far as the file system does what it is asked for."""
        self._mapping.madvise(mmap.MADV_DONTNEED)
        with suppress(OSError):  # some file systems sync no file that is open for reading; it has no dirty pages then
            os.fsync(self._file.fileno())
        os.posix_fadvise(self._file.fileno(), self._offset, self._size_bytes, os.POSIX_FADV_DONTNEED)


@contextmanager
def map_file(path: Path, size_bytes: int) -> Iterator[tuple[Stretch, ...]]:
    """Stretches of ``size_bytes`` of the file ``path``, as many as it has, up to eight.

    Raises:
        OSError: it cannot be read, or is shorter.
    """
    with path.open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        if length < size_bytes:
            raise OSError(f"{path} has {length} bytes, fewer than {size_bytes}: name a larger file")
        step = -(-size_bytes // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        count = min((length - size_bytes) // step + 1, _MOST_STRETCHES)
        yield tuple(Stretch(file, number * step, size_bytes) for number in range(count))


def time_cached_reads(
    device: Device, buffers: CopyBuffers, path: Path, size_bytes: int, protocol: TimingProtocol
) -> Timing:
    """Time reads of ``size_bytes`` that the page cache has.

    Raises:
        DeviceError: memory was refused, or a read failed.
        OSError: the file cannot be read, or is shorter.
    """
    with map_file(path, size_bytes) as stretches, closing(device.open_courier(size_bytes)) as courier:
        moves = [(buffers.on_device("to", size_bytes), stretches[0].view())]

        def run(times: int) -> float:
            begin_sample(device)
            copies = [courier.ship(moves, _label(size_bytes)) for _ in range(times)]
            device.synchronize()
            return sum(map(_read_s, copies))

        run(1)
        return time_repeatedly(run, protocol)


def time_cold_reads(
    device: Device, buffers: CopyBuffers, path: Path, size_bytes: int, protocol: TimingProtocol
) -> Timing:
    """Time reads of ``size_bytes`` from disk.

    Raises:
        DeviceError, OSError: as ``time_cached_reads``.
    """
    least_count = min(protocol.least_count, _MOST_COLD_COUNT)
    # No least span either: short reads would be repeated for it, where the first one is what is wanted.
    cold = replace(protocol, warmups=0, least_count=least_count, least_span_s=0.0)
    with map_file(path, size_bytes) as stretches, closing(device.open_courier(size_bytes)) as courier:
        turn = cycle(stretches)
        target = buffers.on_device("to", size_bytes)

        def run(times: int) -> float:
            return sum(_read_cold(device, courier, next(turn), target) for _ in range(times))

        return time_repeatedly(run, cold)


def _read_cold(device: Device, courier: Courier, stretch: Stretch, target: torch.Tensor) -> float:
    begin_sample(device)
    stretch.leave_page_cache()
    courier.forget_reads()
    copy = courier.ship([(target, stretch.view())], _label(int(target.nbytes)))
    device.synchronize()
    return _read_s(copy)


def describe_disk(cached: Timing | None, cold: Timing) -> str:
    """What limits the figure of a disk; empty where nothing is known against it."""
    if cached is None or cold.median_s * SUSPECT_RATIO > cached.median_s:
        return ""
    return "as fast as what the page cache holds: it may have come from there"


def _read_s(copy: QueuedCopy) -> float:
    return sum(span.end_s - span.start_s for span in copy.spans() if span.lane is Lane.READ)


def _label(size_bytes: int) -> Label:
    # An emulated page cache tells layers apart by their label.
    return Label("links", "read", size_bytes)
