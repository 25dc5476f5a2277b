"""How fast an emulated device's links are, with what the page cache keeps for its couriers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from runtime.devices.protocol import Label
from runtime.errors import InputError


class PageCache(StrEnum):
    """What of the checkpoint files the page cache keeps."""

    NOTHING = "nothing"
    STREAM = "stream"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRates:
    """Rates of an emulated device, each in bytes per emulated second; ``math.inf`` for a link that takes no time.

    Attributes:
        pinned_bytes_per_s: to the device from pinned memory.
        pageable_bytes_per_s: to the device from other memory; also a read from the page cache into a slot.
        d2h_bytes_per_s: to the host.
        disk_bytes_per_s: a read from the checkpoint file.
        page_cache: ``nothing`` of the files, the ``stream`` of a component from its first read in a use to the end of
            that use, or ``all``; or one of these for each component, where nothing is kept of the others.
    """

    pinned_bytes_per_s: float
    pageable_bytes_per_s: float
    d2h_bytes_per_s: float
    disk_bytes_per_s: float
    page_cache: PageCache | Mapping[str, PageCache]

    def __post_init__(self) -> None:
        if not isinstance(self.page_cache, Mapping):
            object.__setattr__(self, "page_cache", PageCache(self.page_cache))
        for field in fields(self):
            rate = getattr(self, field.name)
            if field.name != "page_cache" and not rate > 0:
                raise InputError(f"{field.name} must be above zero, not {rate}; math.inf means that it takes no time.")

    def pinned_s(self, size_bytes: int) -> float:
        """Seconds of a copy from pinned memory."""
        return size_bytes / self.pinned_bytes_per_s

    def pageable_s(self, size_bytes: int) -> float:
        """Seconds of a copy from memory that is not pinned."""
        return size_bytes / self.pageable_bytes_per_s

    def back_s(self, size_bytes: int) -> float:
        """Seconds of a copy to the host."""
        return size_bytes / self.d2h_bytes_per_s

    def cached_of(self, component: str) -> PageCache:
        """What the page cache keeps of ``component``."""
        kept = self.page_cache
        return kept.get(component, PageCache.NOTHING) if isinstance(kept, Mapping) else kept

    def load_now_s(self, component: str, size_bytes: int) -> float:
        """Seconds of a courier's load without slots: the first read of its layer, then a pageable copy."""
        from_disk_s = 0.0 if self.cached_of(component) is PageCache.ALL else size_bytes / self.disk_bytes_per_s
        return from_disk_s + size_bytes / self.pageable_bytes_per_s


class ReadCache:
    """What the page cache holds for one courier."""

    def __init__(self, rates: LinkRates) -> None:
        self._rates = rates
        self._read: set[Label] = set()

    def read_s(self, label: Label, size_bytes: int) -> float:
        """Seconds of a read of ``label`` into a slot, which is noted."""
        cache = self._rates.cached_of(label.component)
        is_cached = cache is PageCache.ALL or (cache is PageCache.STREAM and label in self._read)
        self._read.add(label)
        return size_bytes / (self._rates.pageable_bytes_per_s if is_cached else self._rates.disk_bytes_per_s)

    def load_now_s(self, label: Label, size_bytes: int) -> float:
        """Seconds of a load of ``label`` without slots, which is noted."""
        self._read.add(label)
        return self._rates.load_now_s(label.component, size_bytes)

    def forget(self) -> None:
        """What was read counts as unread."""
        self._read.clear()
