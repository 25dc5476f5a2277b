"""What the page cache of an emulated device keeps, for all components alike or for each."""

import math

import pytest

from runtime.devices.link_rates import LinkRates, PageCache, ReadCache
from runtime.devices.protocol import Label
from runtime.errors import InputError


def make_rates(page_cache, disk_bytes_per_s=10.0):
    return LinkRates(
        pinned_bytes_per_s=math.inf,
        pageable_bytes_per_s=100.0,
        d2h_bytes_per_s=math.inf,
        disk_bytes_per_s=disk_bytes_per_s,
        page_cache=page_cache,
    )


def read_twice(rates, component):
    cache = ReadCache(rates)
    return [cache.read_s(Label(component, "blocks", 0), 1000) for _ in range(2)]


@pytest.mark.parametrize(
    ("kept", "seconds", "load_s"), [("nothing", [100, 100], 110), ("stream", [100, 10], 110), ("all", [10, 10], 10)]
)
def test_each_component_has_its_own_share_of_the_page_cache(kept, seconds, load_s):
    rates = make_rates({"vae": PageCache(kept)})
    assert read_twice(rates, "vae") == read_twice(make_rates(kept), "vae") == seconds
    assert ReadCache(rates).load_now_s(Label("vae", "blocks", 0), 1000) == load_s


def test_nothing_is_kept_of_a_component_that_is_not_named():
    assert read_twice(make_rates({"vae": PageCache.ALL}), "transformer") == [100, 100]


def test_rates_are_positive_and_settings_known():
    with pytest.raises(InputError, match="must be above zero"):
        make_rates("all", disk_bytes_per_s=0.0)
    with pytest.raises(ValueError, match="some"):
        make_rates("some")
