"""Who is faster by how much, in words."""

import pytest

from reports.differences import describe_difference, difference_cell


@pytest.mark.parametrize(
    ("difference_s", "words"),
    [
        (29.0, "streamed is faster than this by 29.00 s ± 20.10 s"),
        (-29.0, "this is faster than streamed by 29.00 s ± 20.10 s"),
        (20.1, "this and streamed are a tie: their difference is 20.10 s ± 20.10 s"),
        (-0.2, "this and streamed are a tie: their difference is 200 ms ± 20.10 s"),
    ],
)
def test_a_difference_names_the_faster_plan_unless_it_is_within_the_noise(difference_s, words):
    assert describe_difference("this", "streamed", difference_s, 20.1) == words


@pytest.mark.parametrize(
    ("difference_s", "sd_s", "cell"),
    [
        (3.0, 1.0, "3.00 s ± 1.00 s slower"),
        (-3.0, 1.0, "3.00 s ± 1.00 s faster"),
        (0.5, 1.0, "a tie, ± 1.00 s"),
        (None, None, ""),
    ],
)
def test_a_cell_says_the_same_of_a_plan_beside_another(difference_s, sd_s, cell):
    assert difference_cell(difference_s, sd_s) == cell
