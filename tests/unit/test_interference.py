"""How long compute and copies take beside each other: limit cases by hand, and what holds always."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import InputError
from runtime.interference import NO_INTERFERENCE, Interference, LaneTime

SECONDS = st.floats(0.0, 1e4)
RATIOS = st.floats(0.0, 10.0)
INTERFERENCES = st.builds(Interference, compute_slowdown_ratio=RATIOS, copy_slowdown_ratio=RATIOS)
DOUBLES = Interference(compute_slowdown_ratio=1.0, copy_slowdown_ratio=1.0)


@pytest.mark.parametrize("ratio", [-0.1, 10.1, math.inf, math.nan])
@pytest.mark.parametrize("name", ["compute_slowdown_ratio", "copy_slowdown_ratio"])
def test_a_slowdown_is_a_share_from_none_to_tenfold(name, ratio):
    with pytest.raises(InputError, match=rf"{name} is {ratio}: a slowdown is a share from 0"):
        Interference(**{name: ratio})


def test_nothing_slows_what_has_no_company():
    assert DOUBLES.meet(5.0, 0.0) == (0.0, 5.0, 0.0)
    assert DOUBLES.meet(0.0, 5.0) == (0.0, 0.0, 0.0)
    assert NO_INTERFERENCE.meet(3.0, 5.0) == (3.0, 3.0, 0.0)


def test_compute_that_ends_first_is_slowed_throughout():
    # 2 s of compute take 4, in which copies get 2 of their 10 s done: they end at 12.
    assert DOUBLES.meet(2.0, 10.0) == (4.0, 4.0, 2.0)


def test_compute_that_ends_last_goes_on_at_full_speed():
    # 2 s of copies take 4, in which compute gets 2 of its 10 s done: it ends at 12.
    assert DOUBLES.meet(10.0, 2.0) == (4.0, 12.0, 2.0)


def test_both_may_end_at_once():
    assert DOUBLES.meet(3.0, 3.0) == (6.0, 6.0, 3.0)


def test_one_may_slow_the_other_alone():
    assert Interference(compute_slowdown_ratio=1.0).meet(2.0, 10.0) == (4.0, 4.0, 0.0)
    assert Interference(copy_slowdown_ratio=1.0).meet(2.0, 10.0) == (2.0, 2.0, 1.0)


@given(INTERFERENCES, SECONDS, SECONDS)
def test_no_work_is_lost_or_gained(interference, compute_s, backlog_s):
    overlap_s, took_s, delay_s = interference.meet(compute_s, backlog_s)
    beside_compute_s = overlap_s / (1 + interference.compute_slowdown_ratio)
    assert beside_compute_s + (took_s - overlap_s) == pytest.approx(compute_s, abs=1e-9)
    beside_copies_s = overlap_s / (1 + interference.copy_slowdown_ratio)
    assert beside_copies_s + (backlog_s + delay_s - overlap_s) == pytest.approx(backlog_s, abs=1e-9)
    # One of the two ends with the overlap.
    assert overlap_s == pytest.approx(min(took_s, backlog_s + delay_s), abs=1e-9)


@given(INTERFERENCES, SECONDS, st.lists(SECONDS, min_size=1, max_size=5))
def test_landings_move_in_order_and_the_last_one_by_the_whole_delay(interference, compute_s, copies_s):
    backlog_s = sum(copies_s)
    met = interference.meet(compute_s, backlog_s)
    planned = [sum(copies_s[: count + 1]) for count in range(len(copies_s))]
    time = LaneTime()
    time.pass_slowly((0.0, 0.0), (met.overlap_s - met.delay_s, met.overlap_s))
    landed = [time.at_s(full_s) for full_s in planned]
    assert landed == sorted(landed)
    for end_s, full_s in zip(landed, planned, strict=True):
        slowed_s = full_s * (1 + interference.copy_slowdown_ratio)
        assert end_s == pytest.approx(min(slowed_s, full_s + met.delay_s), abs=1e-9)
    assert landed[-1] == pytest.approx(backlog_s + met.delay_s, abs=1e-9)


@given(INTERFERENCES, SECONDS, SECONDS, st.floats(0.0, 1.0))
def test_no_overlap_takes_less_than_the_least(interference, compute_s, copy_s, share):
    overlap_s = share * interference.meet(compute_s, copy_s).overlap_s
    computes_s = compute_s + overlap_s * interference.compute_loss_ratio
    copies_s = copy_s + overlap_s * interference.copy_loss_ratio
    took_s = max(computes_s, copies_s, computes_s + copies_s - overlap_s)
    assert interference.least_s(compute_s, copy_s) <= took_s + 1e-9
    assert interference.least_s(compute_s, copy_s) >= max(compute_s, copy_s)


def test_the_time_of_a_lane_stretches_where_it_is_slowed():
    time = LaneTime()
    time.pass_slowly((2.0, 2.0), (4.0, 6.0))
    time.pass_slowly((5.0, 7.0), (6.0, 10.0))
    assert [time.at_s(own_s) for own_s in (0.0, 2.0, 3.0, 4.0, 4.5, 5.5, 6.0, 8.0)] == [0, 2, 4, 6, 6.5, 8.5, 10, 12]


def test_the_time_of_a_lane_may_begin_late():
    time = LaneTime(3.0, 5.0)
    time.pass_slowly((3.0, 5.0), (4.0, 7.0))
    assert [time.at_s(own_s) for own_s in (1.0, 3.0, 3.5, 5.0)] == [3.0, 5.0, 6.0, 8.0]
