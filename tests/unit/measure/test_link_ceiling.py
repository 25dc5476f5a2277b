"""Measured rates beside what a link can carry."""

import math

import pytest

from autotune.measure.link_ceiling import derive_pcie_bytes_per_s, describe_share


@pytest.mark.parametrize(
    ("generation", "lanes", "gb_per_s"), [(1, 1, 0.25), (3, 16, 15.75), (4, 16, 31.5), (5, 16, 63.0), (6, 16, 121.0)]
)
def test_a_link_carries_what_its_generation_and_lanes_say(generation: int, lanes: int, gb_per_s: float) -> None:
    assert derive_pcie_bytes_per_s(generation, lanes) == pytest.approx(gb_per_s * 1e9, rel=2e-3)


def test_an_unknown_generation_has_no_ceiling() -> None:
    assert derive_pcie_bytes_per_s(9, 16) is None
    assert "unknown" in describe_share(25e9, None, "the link")


def test_a_rate_is_a_share_of_the_ceiling() -> None:
    assert (
        describe_share(25.2e9, 31.5e9, "PCIe gen4 x16")
        == "25.2 GB/s are 80.0 % of the 31.5 GB/s that PCIe gen4 x16 carries"
    )


def test_more_than_the_ceiling_means_another_link() -> None:
    assert "another link than PCIe" in describe_share(200e9, 63e9, "PCIe gen5 x16")
    assert "another" not in describe_share(63e9, 63e9, "PCIe gen5 x16")


def test_copies_without_time_have_no_link() -> None:
    assert "no link" in describe_share(math.inf, 63e9, "PCIe gen5 x16")
