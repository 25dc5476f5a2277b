from math import inf

import pytest

from runtime.errors import UnitError
from runtime.units import format_gib, format_percent, format_seconds, format_size, parse_bytes, parse_rate


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("24GB", 24_000_000_000),
        ("24GiB", 25_769_803_776),
        ("24G", 25_769_803_776),
        ("24g", 25_769_803_776),
        ("24gb", 24_000_000_000),
        ("24 GiB", 25_769_803_776),
        ("24576MiB", 25_769_803_776),
        ("25769803776", 25_769_803_776),
        ("1.5TB", 1_500_000_000_000),
        (" 24GiB ", 25_769_803_776),
        ("512KiB", 524_288),
    ],
)
def test_a_size_is_read_in_its_unit_and_a_bare_letter_is_binary(text, size_bytes):
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["24Gb", "24Mb", "24Gib"])
def test_a_lower_case_b_after_an_upper_case_prefix_is_refused_as_bits(text):
    with pytest.raises(UnitError, match="ambiguous"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["0", "0GiB", "0.0000000001"])
def test_a_size_of_nothing_is_refused(text):
    with pytest.raises(UnitError, match="at least one byte"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "", " ", "GiB", "1e3", "24 GiB more", "1,5GiB"])
def test_what_is_no_size_is_refused_with_examples(text):
    with pytest.raises(UnitError, match="is not a size: write it like 24GiB"):
        parse_bytes(text)


def test_an_unknown_unit_is_named():
    with pytest.raises(UnitError, match="unknown unit 'XB'"):
        parse_bytes("24XB")


@pytest.mark.parametrize(("text", "bytes_per_s"), [("25GB/s", 25e9), ("25GB", 25e9), ("24 GiB/s", 24 * 2.0**30)])
def test_a_rate_may_leave_out_its_per_second(text, bytes_per_s):
    assert parse_rate(text) == bytes_per_s


def test_every_printed_size_carries_its_unit():
    assert format_gib(2**30) == "1.00 GiB"


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(75.0, "75.0 s"), (1.5, "1.50 s"), (0.9996, "1.00 s"), (0.9994, "999 ms"), (0.0125, "12.5 ms"), (inf, "unknown")],
)
def test_a_time_is_printed_in_the_unit_that_suits_it(time_s, text):
    assert format_seconds(time_s) == text


def test_a_share_is_printed_as_a_percentage():
    assert format_percent(0.955) == "95.5 %"


def test_a_size_is_shown_in_the_unit_that_suits_it():
    texts = [format_size(size) for size in (0, 1023, 6000, 2**18, 2**20, 1.5 * 2**30)]
    assert texts == ["0 bytes", "1,023 bytes", "5.9 KiB", "256.0 KiB", "1.0 MiB", "1.50 GiB"]


def test_a_size_just_below_the_next_unit_is_shown_in_it():
    assert [format_size(2**power - 1) for power in (20, 30)] == ["1.0 MiB", "1.00 GiB"]
