"""Measures every link of a device at the sizes of a model's layers, and at some sizes in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from autotune.measure.bench import Bench, LeftOut
from autotune.measure.buffers import CopyBuffers
from autotune.measure.copies import COPY_TIMERS
from autotune.measure.reads import describe_disk, time_cached_reads, time_cold_reads
from autotune.measurements.records import LinkKind, LinkRecord
from autotune.measurements.timing import Timing
from runtime.errors import InputError
from runtime.files import as_text
from runtime.units import MIB, format_gib

SWEEP_BYTES = tuple(64 * 1024 * 4**power for power in range(7))
"""64 KiB to 256 MiB: where the fixed cost of a copy shows, and where it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySize:
    """One size to measure; ``is_layer_size`` as in ``LinkRecord``."""

    size_bytes: int
    is_layer_size: bool

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise InputError(f"a copy of {self.size_bytes} bytes is none: measure sizes of at least one byte")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFindings:
    """What was measured, largest size first, and why the rest was not, one sentence each."""

    records: tuple[LinkRecord, ...]
    left_out: tuple[str, ...]


def choose_sizes(layer_sizes: Iterable[int], most_bytes: int | None) -> tuple[CopySize, ...]:
    """The distinct sizes to measure, the largest first: all layers' and, up to ``most_bytes``, those of the sweep."""
    layers = set(layer_sizes)
    sweep = {size for size in SWEEP_BYTES if most_bytes is None or size <= most_bytes}
    # Large buffers first: what they leave in an allocator's pool serves the smaller ones.
    return tuple(
        CopySize(size_bytes=size, is_layer_size=size in layers) for size in sorted(layers | sweep, reverse=True)
    )


def measure_links(
    bench: Bench, layer_sizes: Iterable[int], *, most_bytes: int | None = None, path: Path | None = None
) -> LinkFindings:
    """Measure copies at every size of ``choose_sizes``, and reads of the file ``path``.

    Host memory of up to five times a size and device memory of one size, 32 MiB at least, are held meanwhile, and given
    back in every case.

    Args:
        bench: what is measured with.
        layer_sizes: bytes of the model's layers as they are copied.
        most_bytes: larger copies are not tried; None where memory is the only limit.
        path: a file on the disk that checkpoints lie on; None to measure no reads. Layers' sizes are read, and the
            largest of the sweep that the file holds.
    """
    measuring = _Measuring(bench)
    sizes = choose_sizes(layer_sizes, most_bytes)
    read_sizes = measuring.choose_read_sizes(sizes, path)
    for size in sizes:
        if most_bytes is not None and size.size_bytes > most_bytes:
            why = f"only {format_gib(most_bytes)} may be copied at once here"
            measuring.left_out.note(f"copies of {_name(size)}", why)
            continue
        with CopyBuffers(bench.device) as buffers:
            for kind, time in COPY_TIMERS.items():
                measuring.take(kind, size, partial(time, bench.device, buffers, size.size_bytes, bench.protocol))
            if path is not None and size in read_sizes:
                measuring.take_reads(size, buffers, path)
    return LinkFindings(records=tuple(measuring.records), left_out=measuring.left_out.reasons)


def link_key(kind: LinkKind, size_bytes: int, path: Path | None = None) -> str:
    """What a link's record is kept under."""
    return f"{kind}/{size_bytes}" if path is None else f"{kind}/{size_bytes}/{as_text(path.resolve())}"


class _Measuring:
    """The records so far, those from earlier runs among them, and what was left out."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.records: list[LinkRecord] = []
        self.left_out = LeftOut()

    def choose_read_sizes(self, sizes: tuple[CopySize, ...], path: Path | None) -> frozenset[CopySize]:
        """What is read of ``path``."""
        if path is None:
            return frozenset()
        try:
            length = path.stat().st_size if path.is_file() else 0
        except OSError as error:
            self.left_out.note(f"reads of {path}", error.strerror or str(error))
            return frozenset()
        if not length:
            self.left_out.note(f"reads of {path}", "there is no file with this name, or it is empty")
            return frozenset()
        swept = [size for size in sizes if not size.is_layer_size and size.size_bytes <= length]
        return frozenset([*(size for size in sizes if size.is_layer_size), *swept[:1]])

    def take(
        self,
        kind: LinkKind,
        size: CopySize,
        measure: Callable[[], Timing],
        path: Path | None = None,
        describe: Callable[[Timing], str] = lambda _: "",
    ) -> Timing | None:
        """Recall the record or measure it now; None where the device or the system refuses."""
        bench, key = self._bench, link_key(kind, size.size_bytes, path)
        record = bench.keeper.recall(LinkRecord, key)
        if record is not None:
            self.records.append(replace(record, is_layer_size=size.is_layer_size))
            return record.timing
        title = f"{kind} of {_name(size)}"
        bench.notify(title)
        with self.left_out.unless_measured(title):
            timing, seen = bench.watch.around(measure)
            record = LinkRecord(
                kind=kind,
                size_bytes=size.size_bytes,
                timing=timing,
                is_layer_size=size.is_layer_size,
                note=describe(timing),
                conditions=seen.conditions,
                disturbances=seen.disturbances,
                measured_at=seen.measured_at,
            )
            self.records.append(record)
        if record is None:
            return None
        bench.keeper.remember(key, record)
        return record.timing

    def take_reads(self, size: CopySize, buffers: CopyBuffers, path: Path) -> None:
        """Both kinds of reads."""
        arguments = (self._bench.device, buffers, path, size.size_bytes, self._bench.protocol)
        cached = self.take("page_cache_read", size, partial(time_cached_reads, *arguments), path)
        self.take("disk_read", size, partial(time_cold_reads, *arguments), path, partial(describe_disk, cached))


def _name(size: CopySize) -> str:
    return f"{size.size_bytes / MIB:,.4g} MiB"
