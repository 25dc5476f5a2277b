"""What ranks share of one machine."""

from dataclasses import replace

import pytest
from builders import RATES

from autotune.hardware import find_device
from autotune.rates import derive_rates
from autotune.tensor_parallel.sharing import EXCHANGE_LINK_RATIO, Sharing, share_host, share_rates
from autotune.work import Work
from runtime.errors import InputError
from runtime.hosting import HostMemory


def test_one_rank_keeps_all_rates_and_the_whole_host():
    memory = HostMemory(available_bytes=101, page_cache_room_bytes=7)
    assert share_rates(RATES, 1, Sharing()) is RATES
    assert share_host(memory, 1) == memory


def test_each_rank_has_its_own_link_and_a_part_of_the_drive():
    own = share_rates(RATES, 2, Sharing())
    assert own.pinned_bytes_per_s == RATES.pinned_bytes_per_s
    assert own.disk_bytes_per_s == RATES.disk_bytes_per_s / 2
    assert own.exchange_bytes_per_s == EXCHANGE_LINK_RATIO * RATES.pinned_bytes_per_s


def test_ranks_on_one_link_copy_and_exchange_at_a_part_of_its_rate():
    own = share_rates(RATES, 4, Sharing(shares_link=True))
    assert own.pinned_bytes_per_s == RATES.pinned_bytes_per_s / 4
    assert own.d2h_bytes_per_s == RATES.d2h_bytes_per_s / 4
    assert own.pageable_bytes_per_s == own.pinned_bytes_per_s
    assert own.exchange_bytes_per_s == EXCHANGE_LINK_RATIO * RATES.pinned_bytes_per_s / 4


def test_the_default_exchange_is_that_of_the_public_profile():
    wire_bytes = 4 * 50 * 2 * 33_124 * 5_376 * 2  # PM307: 4 forwards of 50 blocks, two all-reduces each
    ada = share_rates(derive_rates(find_device("rtx-6000-ada")), 2, Sharing())
    assert wire_bytes / ada.exchange_bytes_per_s == pytest.approx(10.12, rel=0.01)


def test_what_is_exchanged_takes_its_time_after_the_compute():
    work = Work(matmul_flops=1e6, exchange_bytes=3e6)
    own = share_rates(RATES, 2, Sharing(exchange_bytes_per_s=1e6))
    assert own.estimate_work_s(work, "bfloat16") == pytest.approx(1 + 3)
    with pytest.raises(InputError, match="share the rates first"):
        RATES.estimate_work_s(work, "bfloat16")


def test_a_host_is_divided_between_its_ranks():
    own = share_host(HostMemory(available_bytes=101, pins=False, page_cache_room_bytes=7), 2)
    assert own == HostMemory(available_bytes=50, pins=False, page_cache_room_bytes=3)


@pytest.mark.parametrize("sharing", [Sharing(shares_link=True), Sharing(exchange_bytes_per_s=1e9)])
def test_one_card_shares_with_nobody(sharing):
    with pytest.raises(InputError, match="give --tp-size"):
        share_rates(RATES, 1, sharing)


def test_an_exchange_that_is_no_rate_is_refused():
    with pytest.raises(InputError, match="exchange_bytes_per_s is 0"):
        replace(RATES, exchange_bytes_per_s=0.0)


def test_no_ranks_share_nothing():
    with pytest.raises(InputError, match="at least 1"):
        share_host(HostMemory(available_bytes=1), 0)
