"""The clock with couriers, rule by rule; times in seconds chosen so that every answer can be read off."""

from dataclasses import replace

import pytest

from autotune.clock_choice import make_clock
from autotune.recorder import Recorder
from autotune.replay_core import Clock, Costs, TierCosts
from autotune.replay_passes import run_segment
from autotune.tiered_clock import TieredClock
from runtime.program import Block, Op, Segment

# Slots 0..3 of one stack: pinned, pageable, mapped, mapped with a share that is in no file.
TIERS = TierCosts(
    sync_s=(0.0, 5.0, 0.0, 1.0),
    is_mapped=(False, False, True, True),
    read_s=(0.0, 0.0, 4.0, 4.0),
    first_read_s=(0.0, 0.0, 10.0, 10.0),
    blocking_s=(0.0, 5.0, 12.0, 13.0),
    disk_bytes=(0, 0, 40, 40),
    first_disk_bytes=(0, 0, 100, 100),
    mapped_of_component=((2, 3),),
)
COSTS = Costs(
    copy_s=(2.0, 0.0, 2.0, 2.0),
    compute_s=(3.0, 3.0, 3.0, 3.0),
    weight_bytes=(20, 20, 20, 20),
    work_s=(7.0,),
    up_s=(6.0,),
    first_up_s=(9.0,),
    down_s=(8.0,),
    component_bytes=(80,),
    cast_bytes=(0,),
    stack_of_slot=(0, 0, 0, 0),
    stacks_of_component=((0,),),
    tiers=TIERS,
)


def run(*actions, clock=None):
    clock = clock or make_clock(COSTS)
    clock.run([(int(op), argument) for op, argument in actions])
    return clock


def test_only_plans_with_other_tiers_need_this_clock():
    assert isinstance(make_clock(COSTS), TieredClock)
    assert type(make_clock(replace(COSTS, tiers=None))) is Clock


def test_a_pageable_copy_waits_for_compute_and_everything_later_waits_for_it():
    clock = run((Op.WORK, 0), (Op.H2D, 1), (Op.H2D, 0), (Op.RUN, 0))
    assert clock.compute_free_s == 7 + 5 + 2 + 3


def test_a_mapped_layer_is_read_and_then_copied_while_compute_goes_on():
    clock = run((Op.H2D, 2), (Op.WORK, 0), (Op.RUN, 2))
    assert clock.compute_free_s == 10 + 2 + 3  # the first read of a use, its copy, the layer
    assert clock.stall_s == 12 - 7


def test_later_reads_of_a_use_come_from_the_page_cache():
    clock = run((Op.H2D, 2), (Op.RUN, 2), (Op.RELEASE, 2), (Op.H2D, 2), (Op.RUN, 2))
    # The second read was queued at 0 and could start once the first was done.
    assert clock.compute_free_s == 10 + 2 + 3 + 2 + 3


def test_the_end_of_a_use_makes_the_next_read_a_first_one_again():
    clock = run((Op.H2D, 2), (Op.RUN, 2), (Op.END_USE, 0), (Op.H2D, 2), (Op.RUN, 2))
    assert clock.compute_free_s == 15 + 10 + 2 + 3


def test_what_is_in_no_file_of_a_mapped_layer_is_copied_at_once():
    clock = run((Op.H2D, 3), (Op.WORK, 0))
    assert clock.compute_free_s == 1 + 7
    assert clock.engine_free_s == 10 + 2


def test_a_third_read_waits_for_the_first_slot():
    copies = [(Op.H2D, 2), (Op.H2D, 3), (Op.H2D, 2)]
    slow_link = replace(COSTS, copy_s=(2.0, 0.0, 50.0, 50.0))
    clock = run(*copies, clock=make_clock(slow_link))
    # Reads end at 10 and 20; the copies land at 60 and 110; the first slot is free at 60, so the third is read by 64.
    assert clock.read_free_s == 64
    assert clock.engine_free_s == 160


def test_the_host_s_own_copies_go_before_a_copy_that_is_still_being_read():
    assert run((Op.H2D, 2), (Op.H2D, 0), (Op.RUN, 0)).compute_free_s == 2 + 3


def test_a_blocking_load_reads_and_copies_while_everything_waits():
    assert run((Op.H2D_BLOCKING, 2), (Op.RUN, 2)).compute_free_s == 12 + 3


def test_pinned_layers_behave_as_on_the_plain_clock():
    actions = [(Op.WORK, 0), (Op.H2D, 0), (Op.RUN, 0), (Op.DRAIN, 0), (Op.UP, 0), (Op.DOWN, 0), (Op.END_USE, 0)]
    plain = run(*actions, clock=Clock(replace(COSTS, tiers=None)))
    tiered = run(*actions)
    assert (tiered.compute_free_s, tiered.copy_free_s) == (plain.compute_free_s, plain.copy_free_s)


@pytest.mark.parametrize("repeat", [2, 3, 10, 200])
def test_repeated_passes_take_as_long_as_one_by_one(repeat):
    body = [(Op.H2D, 0), (Op.H2D, 2), (Op.RUN, 0), (Op.RELEASE, 0), (Op.H2D, 3), (Op.RUN, 2), (Op.RUN, 3)]
    block = Block([(int(op), slot) for op, slot in body])
    extended, one_by_one = make_clock(COSTS), make_clock(COSTS)
    run_segment(extended, Segment(blocks=(block,), repeat=repeat))
    for _ in range(repeat):
        one_by_one.run(block.timed)
    assert extended.compute_free_s == pytest.approx(one_by_one.compute_free_s)
    assert extended.read_free_s == pytest.approx(one_by_one.read_free_s)


def test_reads_have_a_lane_of_their_own():
    recorder = Recorder()
    recorder.run(make_clock(COSTS), [(int(Op.H2D), 3), (int(Op.RUN), 3)])
    assert sorted(recorder.spans) == [(0, 12.0, 15.0, 3), (1, 0.0, 1.0, 3), (1, 10.0, 12.0, 3), (2, 0.0, 10.0, 3)]


def test_a_first_move_up_is_from_memory_that_is_not_pinned():
    clock = run((Op.UP, 0), (Op.DOWN, 0), (Op.UP, 0), clock=make_clock(COSTS, fresh=True))
    assert clock.compute_free_s == 9 + 8 + 6
