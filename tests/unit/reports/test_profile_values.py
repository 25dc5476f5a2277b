"""Figures as people read them."""

from dataclasses import replace

import pytest
from profile_builders import timed

from reports.profile_values import format_spread, format_value, round_percent


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0, "0 %"), (1e-6, "<0.01 %"), (0.0083, "0.83 %"), (0.03, "3.0 %"), (0.0996, "10 %"), (4.716, "472 %")],
)
def test_a_share_has_the_digits_that_help_to_compare_it(ratio, text):
    assert round_percent(ratio) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2**18, "bytes", "256.0 KiB"),
        (0.012, "s", "12 ms"),
        (0.25, "share", "25.0 %"),
        (0.5 / 2**30, "s/byte", "500 ms per GiB"),
        (1.0, "ratio", "1"),
        (2.5, "sheep", "2.5 sheep"),
    ],
)
def test_a_value_is_written_in_the_unit_of_people(value, unit, text):
    assert format_value(value, unit) == text


def test_one_sample_has_no_spread():
    assert format_spread(timed(1.0, count=1)) == ""
    assert format_spread(replace(timed(1.0, count=3), high_s=1.1)) == "10 %"
