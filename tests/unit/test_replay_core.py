"""The two-engine clock, rule by rule; times in seconds chosen so that every answer can be read off."""

import pytest

from autotune.live_bytes import LiveBytes
from autotune.recorder import Recorder
from autotune.replay_core import Clock, Costs
from autotune.replay_passes import run_segment
from runtime.program import Block, Op, Segment

# Slots 0 and 1 belong to stack 0, slot 2 to stack 1; both stacks to component 0.
COSTS = Costs(
    copy_s=(2.0, 3.0, 10.0),
    compute_s=(1.0, 4.0, 5.0),
    weight_bytes=(20, 30, 100),
    work_s=(7.0,),
    up_s=(6.0,),
    first_up_s=(9.0,),
    down_s=(8.0,),
    component_bytes=(150,),
    cast_bytes=(0,),
    stack_of_slot=(0, 0, 1),
    stacks_of_component=((0, 1),),
)


def run(*actions):
    clock = Clock(COSTS)
    clock.run([(int(op), argument) for op, argument in actions])
    return clock


def test_a_layer_waits_for_its_own_copy():
    clock = run((Op.H2D, 0), (Op.RUN, 0))
    assert (clock.compute_free_s, clock.stall_s) == (3.0, 2.0)


def test_a_layer_does_not_wait_for_the_copy_of_another():
    clock = run((Op.H2D, 0), (Op.H2D, 2), (Op.RUN, 0))
    assert (clock.compute_free_s, clock.copy_free_s) == (3.0, 12.0)


def test_a_copy_starts_only_when_compute_queued_before_it_is_done():
    clock = run((Op.WORK, 0), (Op.H2D, 0))
    assert clock.copy_free_s == 9.0


def test_copies_share_one_engine_in_order():
    assert run((Op.H2D, 0), (Op.H2D, 1), (Op.H2D, 2)).copy_free_s == 15.0


def test_a_drain_waits_for_the_copies_of_its_own_stack_only():
    assert run((Op.H2D, 0), (Op.H2D, 1), (Op.H2D, 2), (Op.DRAIN, 0)).compute_free_s == 5.0
    assert run((Op.H2D, 0), (Op.H2D, 1), (Op.H2D, 2), (Op.DRAIN, 1)).compute_free_s == 15.0


def test_the_end_of_a_use_waits_for_all_stacks_of_its_component():
    assert run((Op.H2D, 0), (Op.H2D, 2), (Op.END_USE, 0)).compute_free_s == 12.0


def test_everything_waits_for_a_blocking_copy():
    clock = run((Op.H2D, 0), (Op.H2D_BLOCKING, 1), (Op.RUN, 2))
    assert (clock.compute_free_s, clock.stall_s) == (10.0, 5.0)


def test_a_component_moves_while_nothing_computes():
    assert run((Op.WORK, 0), (Op.UP, 0), (Op.WORK, 0), (Op.DOWN, 0)).compute_free_s == 28.0


def test_settling_lets_every_copy_land():
    clock = run((Op.H2D, 2))
    clock.settle()
    clock.run([(int(Op.RUN), 2)])
    assert clock.compute_free_s == 5.0


def build_pass(repeat):
    actions = [(Op.DRAIN, 0), (Op.H2D, 0), (Op.H2D, 1), (Op.RUN, 0), (Op.RELEASE, 0), (Op.RUN, 1), (Op.RELEASE, 1)]
    return Segment(blocks=(Block([(int(op), slot) for op, slot in actions]),), repeat=repeat, group=0)


def test_repeated_passes_are_extended_and_add_up():
    clock = Clock(COSTS)
    times = run_segment(clock, build_pass(1000))
    assert times.count == 1000
    assert times.settled_after < 5
    assert times.steady_s == 9.0
    assert times.total_s == clock.compute_free_s == times.first_s + 999 * 9.0


def test_the_recorder_says_what_was_skipped():
    recorder = Recorder()
    clock = Clock(COSTS)
    times = run_segment(clock, build_pass(1000), recorder)
    [(_, period_s, count)] = recorder.skipped
    assert period_s * count + 9.0 * (1000 - count) == pytest.approx(times.total_s)


def test_the_recorder_notes_spans_stalls_and_memory():
    recorder = Recorder()
    clock = Clock(COSTS)
    recorder.run(clock, [(int(Op.H2D), 0), (int(Op.RUN), 0), (int(Op.RELEASE), 0), (int(Op.UP), 0), (int(Op.WORK), 0)])
    assert recorder.spans == [(1, 0.0, 2.0, 0), (0, 2.0, 3.0, 0), (1, 3.0, 9.0, -2), (0, 9.0, 16.0, -1)]
    assert recorder.stalls == [(0.0, 2.0, (int(Op.RUN), 0)), (3.0, 9.0, (int(Op.UP), 0))]
    assert recorder.memory == [(0.0, 0, 20), (3.0, 0, -20), (3.0, -2, 150)]


def test_live_bytes_follow_the_host_not_the_clock():
    live = LiveBytes(COSTS)
    live.run([Segment(blocks=(Block([(int(Op.H2D), 0), (int(Op.H2D), 1), (int(Op.RELEASE), 0)]),))])
    assert (live.live_bytes, live.take_peak(), live.take_peak()) == (30, 50, 30)
    live.run([Segment(blocks=(Block([(int(Op.UP), 0), (int(Op.DOWN), 0)]),))])
    assert (live.live_bytes, live.take_peak()) == (30, 180)
