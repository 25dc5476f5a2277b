"""Arithmetic of intervals."""

import pytest

from runtime.intervals import clip, merge, overlap_s


def test_spans_that_touch_or_overlap_become_one():
    assert merge([(4, 5), (0, 1), (1, 2), (1.5, 3)]) == [(0, 3), (4, 5)]
    assert merge([]) == []


@pytest.mark.parametrize(
    ("span", "seconds"),
    [((0, 10), 4), ((2, 3), 1), ((3.5, 5.5), 1), ((4, 5), 0), ((-1, 0), 0), ((8, 9), 0), ((2, 2), 0)],
)
def test_overlap_is_the_share_that_lies_in_any_span(span, seconds):
    assert overlap_s(span, [(1, 4), (5, 6)]) == pytest.approx(seconds)


def test_what_lies_outside_a_window_is_clipped_to_nothing():
    assert clip((1, 5), (2, 4)) == (2, 4)
    assert clip((5, 6), (2, 4)) == (4, 4)
    assert clip((0, 1), (2, 4)) == (2, 2)
