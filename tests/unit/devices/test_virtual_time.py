"""Virtual time with numbers worked out by hand."""

from runtime.devices.virtual_time import VirtualLanes
from runtime.interference import Interference
from runtime.timeline import Lane

DOUBLES = Interference(compute_slowdown_ratio=1.0, copy_slowdown_ratio=1.0)


def test_a_copy_starts_when_the_engine_is_free_and_compute_queued_before_it_is_done() -> None:
    lanes = VirtualLanes()
    assert lanes.copy(2.0) == (0.0, 2.0)
    assert lanes.copy(3.0) == (2.0, 5.0)
    lanes.wait(2.0)
    assert lanes.compute(10.0) == (2.0, 12.0)
    assert lanes.copy(1.0) == (12.0, 13.0)


def test_compute_waits_for_what_it_is_told_to_and_for_nothing_else() -> None:
    lanes = VirtualLanes()
    _, first_end = lanes.copy(2.0)
    lanes.copy(8.0)
    lanes.wait(first_end)
    assert lanes.compute(1.0) == (2.0, 3.0)
    lanes.wait(1.0)
    assert lanes.now_s == 3.0


def test_a_synchronous_copy_holds_up_compute_and_the_next_read() -> None:
    lanes = VirtualLanes()
    slots = lanes.add_courier()
    lanes.compute(4.0)
    assert lanes.copy_now(5.0) == (4.0, 9.0)
    assert lanes.now_s == 9.0
    assert lanes.ship(slots, 1.0, 1.0) == ((9.0, 10.0), (10.0, 11.0))


def test_reads_go_on_while_compute_waits_but_not_before_the_host_has_caught_up() -> None:
    lanes = VirtualLanes()
    slots = lanes.add_courier()
    lanes.compute(20.0)
    # The host runs ahead of compute: the read begins at once, its copy after the compute queued before.
    assert lanes.ship(slots, 4.0, 2.0) == ((0.0, 4.0), (20.0, 22.0))
    lanes.catch_up()
    assert lanes.ship(slots, 4.0, 2.0) == ((20.0, 24.0), (24.0, 26.0))


def test_a_third_read_waits_for_the_slot_of_the_first_copy() -> None:
    lanes = VirtualLanes()
    slots = lanes.add_courier()
    assert lanes.ship(slots, 1.0, 10.0) == ((0.0, 1.0), (1.0, 11.0))
    assert lanes.ship(slots, 1.0, 10.0) == ((1.0, 2.0), (11.0, 21.0))
    assert lanes.ship(slots, 1.0, 10.0) == ((11.0, 12.0), (21.0, 31.0))
    assert lanes.ship(slots, 1.0, 10.0) == ((21.0, 22.0), (31.0, 41.0))


def test_two_couriers_share_the_read_lane_but_not_their_slots() -> None:
    lanes = VirtualLanes()
    first, second = lanes.add_courier(), lanes.add_courier()
    for _ in range(2):
        lanes.ship(first, 1.0, 10.0)
    assert lanes.ship(second, 1.0, 10.0) == ((2.0, 3.0), (21.0, 31.0))
    assert lanes.ship(first, 1.0, 10.0) == ((11.0, 12.0), (31.0, 41.0))


def test_a_copy_of_the_host_goes_into_the_first_gap_that_holds_it() -> None:
    lanes = VirtualLanes()
    slots = lanes.add_courier()
    lanes.ship(slots, 4.0, 2.0)  # copied from 4 to 6
    lanes.ship(slots, 5.0, 2.0)  # read from 4 to 9, copied from 9 to 11
    assert lanes.copy(3.0) == (0.0, 3.0)
    assert lanes.copy(2.0) == (6.0, 8.0)  # from 3 to 4 there is too little room
    assert lanes.copy(1.0) == (8.0, 9.0)
    assert lanes.copy(1.0) == (11.0, 12.0)


def test_a_new_time_line_begins_at_zero_with_every_lane_idle() -> None:
    lanes = VirtualLanes()
    slots = lanes.add_courier()
    lanes.ship(slots, 3.0, 3.0)
    lanes.copy(1.0)
    lanes.finish()
    assert lanes.now_s == 6.0
    lanes.reset()
    assert lanes.ship(slots, 3.0, 3.0) == ((0.0, 3.0), (3.0, 6.0))
    assert lanes.compute(1.0) == (0.0, 1.0)


def span(lanes: VirtualLanes, planned: tuple[float, float], lane: Lane = Lane.H2D) -> tuple[float, float]:
    """When ``lane`` works for what was planned, on the clock."""
    return lanes.work(lane, planned).span()[1:]


def test_copies_to_the_host_have_a_lane_of_their_own() -> None:
    lanes = VirtualLanes()
    assert lanes.copy(4.0) == (0.0, 4.0)
    assert lanes.copy_back(3.0) == (0.0, 3.0)
    assert lanes.copy_back(3.0) == (3.0, 6.0)
    lanes.wait(3.0, Lane.D2H)
    assert lanes.now_s == 3.0
    lanes.compute(10.0)
    assert lanes.copy_back(1.0) == (13.0, 14.0)
    lanes.finish()
    assert lanes.now_s == 14.0


def test_compute_and_the_copies_beside_it_slow_each_other_down() -> None:
    lanes = VirtualLanes(DOUBLES)
    first, second = lanes.copy(1.0), lanes.copy(2.0)
    # The copies take 6 s, in which 3 s of compute are done.
    assert lanes.compute(7.0) == (0.0, 10.0)
    assert [span(lanes, first), span(lanes, second)] == [(0.0, 2.0), (2.0, 6.0)]
    assert span(lanes, lanes.copy(1.0)) == (10.0, 11.0)


def test_a_copy_that_outlasts_compute_goes_on_at_full_speed() -> None:
    lanes = VirtualLanes(DOUBLES)
    planned = lanes.copy(5.0)
    assert lanes.compute(2.0) == (0.0, 4.0)
    lanes.wait(planned.end_s)
    assert (lanes.now_s, span(lanes, planned)) == (7.0, (0.0, 7.0))


def test_copies_both_ways_slow_each_other_down_until_one_ends() -> None:
    lanes = VirtualLanes(duplex_slowdown_ratio=1.0)
    there, back = lanes.copy(3.0), lanes.copy_back(5.0)
    lanes.finish()
    assert span(lanes, there) == (0.0, 6.0)
    assert span(lanes, back, Lane.D2H) == (0.0, 8.0)


def test_a_copy_beside_compute_and_another_one_is_slowed_by_both() -> None:
    lanes = VirtualLanes(DOUBLES, duplex_slowdown_ratio=1.0)
    there, back = lanes.copy(2.0), lanes.copy_back(10.0)
    # Beside both the copy takes four times as long: 8 s, in which 4 s of compute and 4 s of the other copy are done.
    assert lanes.compute(5.0) == (0.0, 9.0)
    lanes.finish()
    assert span(lanes, there) == (0.0, 8.0)
    assert span(lanes, back, Lane.D2H) == (0.0, 14.0)


def test_a_courier_s_copy_slows_nothing_before_it_begins() -> None:
    lanes = VirtualLanes(DOUBLES)
    _, shipped = lanes.ship(lanes.add_courier(), 3.0, 2.0)
    # 3 s while it is read, then 4 s beside the copy, which get 2 s done, then the rest.
    assert lanes.compute(6.0) == (0.0, 8.0)
    assert span(lanes, shipped) == (3.0, 7.0)
