"""What the ranks of one machine share: host memory, the drive, and the links between cards and host."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.rates import Rates
from runtime.errors import InputError
from runtime.hosting import HostMemory

EXCHANGE_LINK_RATIO = 0.59
"""Share of the pinned copy rate at which ranks exchange where their cards have only PCIe.

Derived from one profile of MiniMax-H3 on two RTX 6000 Ada (PM307): about 4 forwards of 768 pixels and 4 seconds, each
with 100 all-reduces of 33,124 rows x 5,376 x 2 bytes, in 10.12 s of NCCL AllReduce: 14.1 GB/s of the preset's 24. Had
the profile held 3 forwards it would be 0.44. Waiting for the other rank is in it."""

EXCHANGE_SOURCE = (
    "0.59 of the pinned rate: NCCL AllReduce of two RTX 6000 Ada on PCIe gen4 (PM307, derived); cards with NVLink "
    "exchange faster, --exchange-rate says how fast"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How the cards of one machine are connected.

    Attributes:
        exchange_bytes_per_s: what each rank sends, and receives at the same time; None for ``EXCHANGE_LINK_RATIO``.
        shares_link: whether all cards hang on one link to the host, so that copies at the same time share its rate.
            Otherwise every card has its own link, and the host's memory is fast enough for all of them.
    """

    exchange_bytes_per_s: float | None = None
    shares_link: bool = False


def share_rates(rates: Rates, ranks: int, sharing: Sharing) -> Rates:
    """The rates of one of ``ranks`` that copy, read and exchange at the same time. One rank keeps ``rates``.

    The drive is shared in any case; a link only where the cards share one. Copies from pageable memory are one host
    thread's per rank and are not.

    Raises:
        InputError: fewer than one rank, or a single one that would share with nobody.
    """
    _check_ranks(ranks)
    if ranks == 1:
        if sharing != Sharing():
            raise InputError(
                "--exchange-rate and --shared-link are about several cards, and one is planned for: give --tp-size, or "
                "leave them out"
            )
        return rates
    link = ranks if sharing.shares_link else 1
    exchange = sharing.exchange_bytes_per_s
    if exchange is None:
        exchange = EXCHANGE_LINK_RATIO * rates.pinned_bytes_per_s / link
    return replace(
        rates,
        pinned_bytes_per_s=rates.pinned_bytes_per_s / link,
        d2h_bytes_per_s=rates.d2h_bytes_per_s / link,
        pageable_bytes_per_s=min(rates.pageable_bytes_per_s, rates.pinned_bytes_per_s / link),
        disk_bytes_per_s=rates.disk_bytes_per_s / ranks,
        exchange_bytes_per_s=exchange,
    )


def share_host(memory: HostMemory, ranks: int) -> HostMemory:
    """The part of the host that each of ``ranks`` can fill when all hold the same.

    The server makes no such division: every rank reads what the whole host has left. Within an equal part it places
    layers as predicted; a rank that wants more takes it, until the host has none.

    Raises:
        InputError: fewer than one rank.
    """
    _check_ranks(ranks)
    room = memory.page_cache_room_bytes
    return replace(
        memory,
        available_bytes=memory.available_bytes // ranks,
        page_cache_room_bytes=None if room is None else room // ranks,
    )


def _check_ranks(ranks: int) -> None:
    if ranks < 1:
        raise InputError(f"{ranks} ranks share nothing: give at least 1")
