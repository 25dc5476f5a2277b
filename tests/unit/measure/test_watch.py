"""What is seen of a device around a measurement."""

from datetime import UTC, datetime

from autotune.measure.watch import Watch
from autotune.telemetry.conditions import DeviceConditions


def observe(*readings):
    waiting = iter(readings)
    _, seen = Watch(lambda: next(waiting), lambda: datetime(2026, 5, 1, tzinfo=UTC)).around(lambda: None)
    return seen


def test_a_card_that_could_not_be_read_has_unknown_reasons_and_a_disturbance_that_says_why():
    seen = observe(*(DeviceConditions(at_s=at_s, unknown={"uuid": "no driver answers"}) for at_s in (0.0, 1.0)))
    assert seen.conditions.throttle_reasons is None
    assert seen.disturbances == ("the conditions of the card are unknown: no driver answers",)


def test_a_card_without_a_reason_to_throttle_has_none_and_no_disturbance():
    seen = observe(*(DeviceConditions(at_s=at_s, uuid="GPU-1", throttle_reasons=()) for at_s in (0.0, 1.0)))
    assert (seen.conditions.throttle_reasons, seen.disturbances) == ((), ())
