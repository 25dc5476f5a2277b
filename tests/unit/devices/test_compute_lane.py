"""When compute begins and ends on the real clock of an emulated device, by hand."""

import pytest

from runtime.devices.compute_lane import ComputeLane


class Hand:
    """A clock that a test turns; sleeping turns it, too."""

    def __init__(self):
        self.at_s = 0.0

    def now_s(self):
        return self.at_s

    def sleep_until(self, at_s):
        self.at_s = max(self.at_s, at_s)


@pytest.fixture
def hand():
    return Hand()


def run(lane, hand, took_s, host_s=0.0):
    """One layer of ``took_s``; the host needs ``host_s`` before it calls it."""
    hand.at_s += host_s
    lane.begin_run()
    lane.end_run(took_s)
    return lane.now_s()


def test_work_of_the_host_between_two_layers_is_hidden_while_it_is_shorter_than_a_layer(hand):
    lane = ComputeLane(hand)
    assert run(lane, hand, 4.0) == 4.0
    assert run(lane, hand, 4.0, host_s=1.0) == 8.0
    assert run(lane, hand, 4.0, host_s=3.0) == 12.0


def test_work_of_the_host_that_is_longer_than_its_lead_holds_compute_up(hand):
    lane = ComputeLane(hand)
    run(lane, hand, 1.0)
    # A host that never waited would call the second layer after 3 s, when the first has long been over.
    assert run(lane, hand, 1.0, host_s=3.0) == 4.0


def test_compute_that_waits_for_a_copy_takes_nothing_of_the_hosts_lead(hand):
    lane = ComputeLane(hand)
    hand.at_s = 5.0  # the host was blocked all the while
    lane.wait_until(5.0, since_s=0.0)
    assert lane.host_s() == 0.0
    assert run(lane, hand, 2.0, host_s=1.0) == 7.0


def test_a_host_that_catches_up_has_no_lead_left(hand):
    lane = ComputeLane(hand)
    run(lane, hand, 4.0)
    lane.catch_up()
    assert lane.host_s() == 4.0
    assert run(lane, hand, 1.0, host_s=0.5) == 5.5


def test_a_layer_of_unknown_duration_lasts_as_long_as_its_call(hand):
    lane = ComputeLane(hand)
    lane.begin_run()
    hand.at_s = 1.5
    lane.end_run(None)
    assert lane.now_s() == 1.5
