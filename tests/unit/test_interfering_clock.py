"""Clocks of devices on which copies and compute slow each other down; times chosen so that every answer can be read."""

from dataclasses import replace

import pytest
from test_replay_core import COSTS
from test_tiered_clock import COSTS as TIERED

from autotune.clock_choice import make_clock
from autotune.interfering_clock import InterferingClock, InterferingTieredClock
from autotune.recorder import Recorder
from autotune.replay_passes import run_segment
from runtime.interference import Interference
from runtime.program import Block, Op, Segment

SLOWS_COMPUTE = Interference(compute_slowdown_ratio=1.0)
SLOWS_COPIES = Interference(copy_slowdown_ratio=1.0)
SLOWS_BOTH = Interference(compute_slowdown_ratio=1.0, copy_slowdown_ratio=1.0)


def run(interference, *actions, costs=COSTS):
    clock = make_clock(replace(costs, interference=interference))
    clock.run([(int(op), argument) for op, argument in actions])
    return clock


def test_only_devices_with_interference_need_these_clocks():
    assert type(run(SLOWS_COPIES)) is InterferingClock
    assert type(run(SLOWS_COMPUTE, costs=TIERED)) is InterferingTieredClock


def test_compute_beside_a_copy_takes_longer():
    # The copy of 2 s lands at 2, until which 1 s of work is done; 6 s are left.
    assert run(SLOWS_COMPUTE, (Op.H2D, 0), (Op.WORK, 0)).compute_free_s == 8.0


def test_a_copy_beside_compute_takes_longer():
    # While 7 s of work last, 3.5 s of the copy of 10 s are made.
    clock = run(SLOWS_COPIES, (Op.H2D, 2), (Op.WORK, 0))
    assert (clock.compute_free_s, clock.engine_free_s) == (7.0, 13.5)
    clock.run([(int(Op.RUN), 2)])
    assert (clock.compute_free_s, clock.stall_s) == (13.5 + 5.0, 6.5)


def test_both_slow_each_other_down_until_one_ends():
    # 14 s of work beside the copy get 7 s of it done; the rest of the copy is made while compute waits.
    clock = run(SLOWS_BOTH, (Op.H2D, 2), (Op.WORK, 0), (Op.DRAIN, 1))
    assert clock.compute_free_s == 14.0 + 3.0


def test_a_copy_that_is_waited_for_slows_nothing():
    assert run(SLOWS_BOTH, (Op.H2D_BLOCKING, 0), (Op.UP, 0), (Op.WORK, 0)).compute_free_s == 2.0 + 6.0 + 7.0


def test_a_copy_queued_behind_a_slowed_one_follows_it():
    clock = run(SLOWS_COPIES, (Op.H2D, 0), (Op.WORK, 0), (Op.H2D, 1), (Op.RUN, 0), (Op.RUN, 1))
    # The first copy ends at 4. The second one begins at 7; 1 s of compute gets half a second of it done: until 10.5.
    assert clock.compute_free_s == 10.5 + 4.0


def test_the_timeline_shows_when_copies_were_made_and_how_long_compute_took():
    recorder, clock = Recorder(), make_clock(replace(COSTS, interference=SLOWS_BOTH))
    for action in ((Op.H2D, 0), (Op.H2D, 1), (Op.WORK, 0), (Op.RUN, 1)):
        recorder.run(clock, [(int(action[0]), action[1])])
    # The copies take 4 and 6 s; beside them 5 s of work are done, 2 s follow.
    assert sorted(recorder.spans) == [(0, 0.0, 12.0, -1), (0, 12.0, 16.0, 1), (1, 0.0, 4.0, 0), (1, 4.0, 10.0, 1)]
    assert recorder.stalls == []


def test_copies_that_are_under_way_when_passes_are_left_out_are_shown_as_long_as_they_take():
    actions = [(Op.DRAIN, 0), (Op.RUN, 0), (Op.RUN, 1), (Op.RELEASE, 0), (Op.H2D, 0), (Op.RUN, 1)]
    segment = Segment(blocks=(Block([(int(op), slot) for op, slot in actions]),), repeat=50)
    recorder = Recorder()
    slow_link = replace(COSTS, copy_s=(6.0, 3.0, 10.0), interference=SLOWS_BOTH)
    run_segment(make_clock(slow_link), segment, recorder)
    copies = [end - start for lane, start, end, _ in recorder.spans if lane == 1]
    # 8 s beside compute, which get 4 s of 6 done, and 2 s while it waits.
    assert copies == pytest.approx([10.0] * len(copies))
    assert recorder.skipped[0][2] > 40


def test_compute_goes_on_at_full_speed_between_copies():
    # Slot 2 is read until 10 and copied from then on, 2 s beside compute.
    clock = run(SLOWS_BOTH, (Op.H2D, 0), (Op.H2D, 2), (Op.WORK, 0), (Op.WORK, 0), costs=TIERED)
    # The first copy takes 4 s and hides 2 of 14 s; 8 s follow in the gap, which ends 2 s late; 4 s are left, 2 of them
    # beside the second copy, which takes 4 s as well.
    assert clock.compute_free_s == 4.0 + 8.0 + 4.0 + 2.0
    assert clock.engine_free_s == 16.0


@pytest.mark.parametrize("interference", [SLOWS_COMPUTE, SLOWS_COPIES, SLOWS_BOTH])
@pytest.mark.parametrize("costs", [COSTS, TIERED])
def test_repeated_passes_take_as_long_as_one_by_one(interference, costs):
    body = [(Op.H2D, 0), (Op.H2D, 2), (Op.RUN, 0), (Op.RELEASE, 0), (Op.H2D, 1), (Op.RUN, 2), (Op.RUN, 1)]
    block = Block([(int(op), slot) for op, slot in body])
    extended, one_by_one = (make_clock(replace(costs, interference=interference)) for _ in range(2))
    run_segment(extended, Segment(blocks=(block,), repeat=100))
    for _ in range(100):
        one_by_one.run(block.timed)
    assert extended.compute_free_s == pytest.approx(one_by_one.compute_free_s)
    assert extended.relative_state() == pytest.approx(one_by_one.relative_state())


def test_settling_forgets_what_was_slowed():
    clock = run(SLOWS_BOTH, (Op.H2D, 2), (Op.WORK, 0))
    clock.settle()
    assert (clock.compute_free_s, clock.engine_free_s) == (0.0, 0.0)
