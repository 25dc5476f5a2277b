"""Which host memory is planned with: typed, read from this machine, or assumed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.host_memory import read_host_memory
from autotune.tensor_parallel.sharing import share_host
from runtime.errors import InputError
from runtime.hosting import HostMemory
from runtime.target_summary import HostSummary
from runtime.units import GIB, format_gib

DEFAULT_HOST_BYTES = 192 * GIB

SYSTEM_BYTES = 1 * GIB
"""What the system itself keeps of the host's memory; assumed."""

SERVER_BYTES = 2 * GIB
"""What the server's processes take besides weights: interpreter, libraries, the CUDA driver's host side; assumed. With
``SYSTEM_BYTES`` it leaves 29 of 32 GiB, of which a public run of MiniMax-H3 has 24.5 GiB anonymous (PM129)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWish:
    """What was typed about the host; None where nothing was.

    Attributes:
        memory_bytes: ``--host-memory``.
        disk_bytes_per_s: ``--disk-rate``.
        page_cache_bytes: ``--page-cache-room``.
        pins: ``--pin-cpu-memory``.
        this_machine: whether the memory of this machine was asked for.
    """

    memory_bytes: int | None = None
    disk_bytes_per_s: float | None = None
    page_cache_bytes: int | None = None
    pins: bool = True
    this_machine: bool = False


def choose_host(wish: HostWish, *, on_this_machine: bool) -> HostSummary:
    """The host for one planning run; this machine's only where its own GPU is planned for, or where it was asked for.

    Raises:
        InputError: too little memory for any server, or a page cache larger than all memory.
    """
    if wish.memory_bytes is None and (on_this_machine or wish.this_machine):
        return _read_this_machine(wish)
    memory_bytes = DEFAULT_HOST_BYTES if wish.memory_bytes is None else wish.memory_bytes
    if memory_bytes < GIB:
        raise InputError(f"--host-memory is {format_gib(memory_bytes)}: no server runs in less than 1 GiB")
    how = "assumed (--host-memory changes it)" if wish.memory_bytes is None else "given with --host-memory"
    digits = 0 if wish.memory_bytes is None else 1
    available_bytes = max(0, memory_bytes - SYSTEM_BYTES - SERVER_BYTES)
    origin = f"{format_gib(memory_bytes, digits)}, {how}; {format_gib(available_bytes, digits)} of it for weights"
    return _summarize(wish, memory_bytes, available_bytes, origin, ())


def view_host(host: HostSummary, ranks: int) -> HostMemory:
    """``host`` as the engine's rule sees it on one of ``ranks``."""
    whole = HostMemory(
        available_bytes=host.available_bytes, pins=host.pins, page_cache_room_bytes=host.page_cache_bytes
    )
    return share_host(whole, ranks)


def change_host(host: HostSummary, *, added_bytes: int = 0, pins: bool | None = None) -> HostSummary:
    """``host`` with more memory (less, where ``added_bytes`` is negative), or with pins turned on or off."""
    memory_bytes, cache_bytes = host.memory_bytes + added_bytes, host.page_cache_bytes
    return replace(
        host,
        memory_bytes=memory_bytes,
        available_bytes=max(0, host.available_bytes + added_bytes),
        page_cache_bytes=None if cache_bytes is None else min(cache_bytes, memory_bytes),
        pins=host.pins if pins is None else pins,
    )


def _read_this_machine(wish: HostWish) -> HostSummary:
    reading = read_host_memory()
    readable = reading.server_available_bytes
    available_bytes = reading.safe_available_bytes if readable is None else readable
    available_bytes = max(0, available_bytes - SERVER_BYTES)
    total_bytes = reading.total_bytes or available_bytes
    binds = "" if reading.binding is None else f", limited by {reading.binding.file} of {reading.binding.directory}"
    origin = (
        f"this machine's: {format_gib(total_bytes, 1)} in all{binds}; the server would find "
        f"{format_gib(available_bytes, 1)} for weights now"
    )
    return _summarize(wish, total_bytes, available_bytes, origin, reading.warnings)


def _summarize(
    wish: HostWish, memory_bytes: int, available_bytes: int, origin: str, warnings: tuple[str, ...]
) -> HostSummary:
    room = wish.page_cache_bytes
    if room is not None and room > memory_bytes:
        raise InputError(
            f"--page-cache-room is {format_gib(room)}: it is a part of the host memory, {format_gib(memory_bytes)}"
        )
    if not wish.pins:
        origin += "; nothing is pinned (--no-pin-cpu-memory)"
    return HostSummary(
        memory_bytes=memory_bytes,
        origin=origin,
        available_bytes=available_bytes,
        pins=wish.pins,
        page_cache_bytes=room,
        warnings=warnings,
    )
