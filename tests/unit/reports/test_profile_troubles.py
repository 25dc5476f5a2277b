"""What speaks against timings is said once for all of them."""

from dataclasses import replace

import pytest
from profile_builders import timed

from reports.profile_troubles import Taken, describe_troubles, merge_disturbances
from reports.profile_troubles import mark as mark_of

QUIET = timed(1.0)
LOOSE = replace(QUIET, low_s=0.9, high_s=1.1, is_settled=False)


def take(count, *disturbances, timing=QUIET, begin=0):
    return [Taken(name=f"piece {begin + at}", timing=timing, disturbances=disturbances) for at in range(count)]


def busy(percent):
    return f"other processes kept {percent:.1f} % of the 2 processors busy"


def test_disturbances_that_differ_in_a_number_are_one_sentence_with_its_range():
    taken = [*take(1, busy(15)), *take(1, busy(51), begin=1), *take(8, begin=2)]
    ((mark, sentence),) = describe_troubles(taken)
    assert mark == mark_of(taken[0].timing, taken[0].disturbances) == "!"
    assert sentence.startswith(
        "2 of 10 timings were disturbed: other processes kept 15 to 51 % of the 2 processors busy"
    )
    assert sentence.endswith("(piece 0, piece 1)")


def test_where_most_are_affected_those_that_are_not_are_named():
    taken = [*take(9, busy(20)), *take(1, begin=9)]
    ((_, sentence),) = describe_troubles(taken)
    assert sentence.startswith("9 of 10 timings")
    assert sentence.endswith("(all but piece 9)")


def test_kinds_of_trouble_are_told_apart_and_counted_by_themselves():
    hot = "the card was throttled at 90 °C: thermal"
    taken = [*take(2, busy(20), hot), *take(1, hot, timing=LOOSE, begin=2)]
    sentences = [sentence for _, sentence in describe_troubles(taken)]
    assert [sentence.split(" timings")[0] for sentence in sentences] == ["2 of 3", "All 3", "1 of 3"]
    assert [mark for mark, _ in describe_troubles(taken)] == ["!", "!", "~"]


def test_what_did_not_settle_has_its_mark_and_the_range_of_spreads():
    wide = replace(QUIET, low_s=0.5, high_s=5.2, is_settled=False)
    taken = [*take(6, timing=LOOSE), *take(1, timing=wide, begin=6), *take(6, begin=7)]
    ((mark, sentence),) = describe_troubles(taken)
    assert mark == mark_of(taken[0].timing, taken[0].disturbances) == "~"
    assert sentence == "7 of 13 timings did not settle: spread 20 to 470 %, the widest piece 6"


def test_nothing_is_said_of_timings_that_nothing_speaks_against():
    assert describe_troubles(take(3)) == ()
    assert describe_troubles([]) == ()


@pytest.mark.parametrize(
    ("texts", "merged"),
    [
        (
            ("the clock fell by 11.0 % from 2000 to 1780 MHz", "the clock fell by 30.0 % from 1980 to 1386 MHz"),
            "the clock fell by 11..30 % from 1,980..2,000 to 1,386..1,780 MHz",
        ),
        (
            ("2 other processes computed on the card (process 7, 9)", "2 other processes computed on the card"),
            "2 other processes computed on the card",
        ),
    ],
)
def test_sentences_of_several_numbers_stay_readable(texts, merged):
    taken = [Taken(name=text, timing=QUIET, disturbances=(text,)) for text in texts]
    assert merge_disturbances(taken) == (merged,)
