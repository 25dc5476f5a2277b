"""What was asked for as text, as values: sizes, rates, the host, several cards."""

from __future__ import annotations

from autotune.tensor_parallel.sharing import Sharing
from autotune.workflows.host import HostWish
from autotune.workflows.ranks import RankWish
from runtime.units import parse_bytes, parse_rate

THIS_MACHINE = "this-machine"


def optional_bytes(text: str | None) -> int | None:
    """A size, or None when nothing was typed."""
    return None if text is None else parse_bytes(text)


def optional_rate(text: str | None) -> float | None:
    """A rate, or None when nothing was typed."""
    return None if text is None else parse_rate(text)


def read_rank_wish(tp_size: int | None, exchange_rate: str | None, *, shared_link: bool) -> RankWish:
    """What was typed about several cards.

    Raises:
        UnitError: a rate that is none.
    """
    sharing = Sharing(exchange_bytes_per_s=optional_rate(exchange_rate), shares_link=shared_link)
    return RankWish(tp_size=tp_size, sharing=sharing)


def read_host_wish(
    *, host_memory: str | None, disk_rate: str | None, page_cache_room: str | None, pin_cpu_memory: bool
) -> HostWish:
    """What was typed about the host.

    Raises:
        UnitError: a size or a rate that is none.
    """
    here = host_memory == THIS_MACHINE
    return HostWish(
        memory_bytes=None if here else optional_bytes(host_memory),
        disk_bytes_per_s=optional_rate(disk_rate),
        page_cache_bytes=0 if page_cache_room == "0" else optional_bytes(page_cache_room),
        pins=pin_cpu_memory,
        this_machine=here,
    )
