import pytest

from autotune.observed.observation import Reason
from autotune.observed.quantities import parse_count, parse_duration, parse_figure, to_bytes
from autotune.observed.refusal import RowRefusedError


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("26,204", 26204.0, ""),
        ("~18", 18.0, ""),
        ("~ 18.5 GiB", 18.5, "GiB"),
        ("300-370", 335.0, ""),
        ("1.54-1.59", 1.565, ""),
        ("53.73 - 62.65", 58.19, ""),
        ("12.4-12.6 (12,583-12,685 MiB)", 12.5, ""),
        ("22.3 (22,827 MiB)", 22.3, ""),
        ("1,234,567.5 MB", 1234567.5, "MB"),
    ],
)
def test_figure_is_read_as_people_write_it(text, value, unit):
    figure = parse_figure(text, "peak_vram")
    assert (figure.value, figure.unit) == (pytest.approx(value), unit)
    assert not figure.is_bound


def test_limit_is_told_from_a_figure():
    assert parse_figure("<=12", "peak_vram").is_bound
    assert parse_figure("≤ 12 GiB", "peak_vram").is_bound


def test_figure_that_is_rounded_or_a_range_says_so():
    assert "rounded" in parse_figure("~18", "peak_vram").note
    assert "middle" in parse_figure("300-370", "latency_s").note
    assert parse_figure("18", "latency_s").note == ""


@pytest.mark.parametrize(
    "text", ["nan", "inf", "0", "0.0", "1,2", "12,5", "1.2.3", "5-3", "", "a", "1e999", "9" * 3000]
)
def test_what_is_no_positive_number_is_unreadable(text):
    with pytest.raises(RowRefusedError) as caught:
        parse_figure(text, "latency_s")
    assert caught.value.reason is Reason.UNREADABLE
    assert "latency_s" in str(caught.value)


@pytest.mark.parametrize("text", ["+9,340 MB", "-25.2% (-3.0s)", "-5", "\u22123"])
def test_difference_is_no_figure_of_a_run(text):
    with pytest.raises(RowRefusedError, match="difference or a negative") as caught:
        parse_figure(text, "peak_vram")
    assert caught.value.reason is Reason.NOT_EXPRESSIBLE


@pytest.mark.parametrize(("text", "seconds"), [("56.6", 56.6), ("410 ms", 0.41), ("2 min", 120.0), ("9.4 s", 9.4)])
def test_duration_is_seconds_unless_it_says_otherwise(text, seconds):
    assert parse_duration(text, "latency_s").value == pytest.approx(seconds)


def test_duration_in_another_unit_is_refused():
    with pytest.raises(RowRefusedError, match="fps is not seconds"):
        parse_duration("3.32 fps", "latency_s")


def test_bits_are_refused_as_bytes():
    with pytest.raises(RowRefusedError, match="bits"):
        to_bytes(24.0, "Gb", "peak_vram")


def test_count_is_a_whole_number_from_one():
    assert parse_count(" 12 ", "frames") == 12
    for text in ("0", "-1", "1.5", "\u0663", "x"):
        with pytest.raises(RowRefusedError, match="whole number"):
            parse_count(text, "frames")
