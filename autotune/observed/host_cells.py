"""Host memory of a row: the cells ``host_memory``, ``pin``, ``gpu``, ``vram_gib`` and ``notes``. Pure.

In free text ``32 GB host`` is 32 GiB: memory is sold and capped in powers of two, and the source of the public rows
with a 32 GB host calls it 32 GiB. In its own column a size is read as everywhere else: ``64GB`` is 64 * 10^9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.observed.observation import Reason
from autotune.observed.quantities import NUMBER, read_number
from autotune.observed.refusal import RowRefusedError
from runtime.errors import UnitError
from runtime.units import GIB, parse_bytes

_SIZE_HOST = re.compile(rf"(?<![0-9.,])({NUMBER})\s?G(i?)B(\+?) host\b", re.IGNORECASE)
_HOST_SIZE = re.compile(
    rf"\bhost (?:envelope|limit|cap|cgroup|memory limit) (?:of )?({NUMBER})\s?G(i?)B(\+?)", re.IGNORECASE
)
_PINNED = re.compile(r"(?<!un)pin(?:ned|ning)|hostregister", re.IGNORECASE)
_NOT_PINNED = re.compile(r"\bpageable\b|\bmmap\b|\bmapped\b|\bunpinned\b", re.IGNORECASE)
_MAPPED = re.compile(r"\bmmap(?:ped)?\b|\bmapped\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedHost:
    """The host of a row.

    Attributes:
        size_bytes: its memory; None where nobody said.
        pins: whether the server could pin memory.
        is_mapped: whether weights were read from the mapped checkpoint.
        assumed: how it was read, one sentence each.
    """

    size_bytes: int | None
    pins: bool
    is_mapped: bool
    assumed: tuple[str, ...] = ()

    @property
    def is_all_mapped(self) -> bool:
        """Whether weights were read from the mapped checkpoint and nothing was pinned beside them."""
        return self.is_mapped and not self.pins


def read_host(cells: Mapping[str, str]) -> StatedHost:
    """The host that the cells of a row describe.

    Raises:
        RowRefusedError: the column ``host_memory`` holds no size.
    """
    pin = cells.get("pin", "")
    pins = bool(_PINNED.search(pin)) or not _NOT_PINNED.search(pin)
    size_bytes, assumed = _read_size(cells)
    is_mapped = bool(_MAPPED.search(pin) or _MAPPED.search(cells.get("component", "")))
    return StatedHost(size_bytes=size_bytes, pins=pins, is_mapped=is_mapped, assumed=assumed)


def _read_size(cells: Mapping[str, str]) -> tuple[int | None, tuple[str, ...]]:
    typed = cells.get("host_memory", "")
    if typed:
        try:
            return parse_bytes(typed), ()
        except UnitError as error:
            raise RowRefusedError(Reason.UNREADABLE, f"host_memory: {error}") from None
    texts = [(_SIZE_HOST, cells.get(name, "")) for name in ("pin", "gpu", "vram_gib")]
    texts += [(_HOST_SIZE, cells.get("notes", ""))]
    for pattern, text in texts:
        match = pattern.search(text)
        if match and read_number(match[1]) > 0:
            size_gib = read_number(match[1])
            least = ", the least that the row allows" if match[3] else ""
            assumed = () if match[2] and not least else (f"the host has {size_gib:g} GiB{least}",)
            return round(size_gib * GIB), assumed
    return None, ()
