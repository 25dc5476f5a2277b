"""Steady passes whose answers are known by hand or from published measurements (field cases P1, P4)."""

import pytest
from builders import SGLANG, build_stack, evaluate_stack, peak_of, streamed

from autotune.bounds import compute_steady_bound_s
from runtime.residency import Lifetime, Policy, streamed_layers

UNEVEN = {"compute_ms": 3, "copy_ms": 2, "uneven": {5: 12}}
LEADING, STRIDED = Policy.LEADING, Policy.STRIDED


def steady_ms(count, *, engine=SGLANG, prefetch=1, resident=0, policy=LEADING, **layers):
    placement = streamed(prefetch=prefetch, resident=resident, policy=policy)
    times, _ = evaluate_stack(count, engine=engine, placement=placement, **layers)
    return times.steady_s * 1e3


def streamed_bytes(count, *, engine=SGLANG, prefetch=1, resident=0, policy=LEADING, **layers):
    """The most bytes of the stack on the device while its passes run."""
    placement = streamed(prefetch=prefetch, resident=resident, policy=policy)
    _, evaluation = evaluate_stack(count, engine=engine, placement=placement, **layers)
    return peak_of(evaluation, "transformer").streamed_bytes


@pytest.mark.parametrize(("prefetch", "expected_ms"), [(1, 238.4), (2, 238.4), (4, 238.4), (16, 286.08)])
def test_depth_does_not_help_a_slow_link_and_a_wrapping_burst_hurts(prefetch, expected_ms):
    assert steady_ms(40, prefetch=prefetch, compute_ms=3, copy_ms=5.96) == pytest.approx(expected_ms)


def test_strided_tops_up_and_reaches_the_bound_where_a_burst_does_not():
    assert steady_ms(40, prefetch=16, policy=STRIDED, compute_ms=3, copy_ms=5.96) == pytest.approx(238.4)


@pytest.mark.parametrize("prefetch", [1, 2, 4])
def test_depth_does_not_help_where_compute_is_slower(prefetch):
    assert steady_ms(40, prefetch=prefetch, compute_ms=6, copy_ms=3) == pytest.approx(240)


@pytest.mark.parametrize(("prefetch", "expected_ms"), [(1, 39), (2, 35), (3, 34), (4, 44), (8, 36)])
def test_the_server_s_bursts_help_against_unevenness_by_luck(prefetch, expected_ms):
    assert steady_ms(10, prefetch=prefetch, **UNEVEN) == pytest.approx(expected_ms)


@pytest.mark.parametrize(
    ("policy", "prefetch", "expected_ms"), [(LEADING, 1, 33), (LEADING, 2, 27), (LEADING, 4, 27), (STRIDED, 1, 24)]
)
def test_policies_with_equal_bytes_have_unequal_schedules(policy, prefetch, expected_ms):
    assert steady_ms(8, prefetch=prefetch, resident=4, policy=policy) == pytest.approx(expected_ms)


@pytest.mark.parametrize(("policy", "expected_ms"), [(LEADING, 51), (STRIDED, 48)])
def test_the_first_pass_after_load_waits_for_residents(policy, expected_ms):
    times, _ = evaluate_stack(8, placement=streamed(resident=4, policy=policy))
    assert times.first_s * 1e3 == pytest.approx(expected_ms)


# P1 (c): the answers for a schedule that tops up before every layer.
@pytest.mark.parametrize(("prefetch", "expected_ms"), [(1, 39), (2, 36), (3, 33), (4, 30), (8, 30)])
def test_topping_up_before_every_layer_turns_depth_into_evenness(prefetch, expected_ms):
    assert steady_ms(10, engine="topup", prefetch=prefetch, **UNEVEN) == pytest.approx(expected_ms)


@pytest.mark.parametrize("prefetch", [1, 2, 4, 16])
def test_topping_up_makes_depth_useless_where_layers_are_equal(prefetch):
    assert steady_ms(40, engine="topup", prefetch=prefetch, copy_ms=5.96) == pytest.approx(238.4)
    assert steady_ms(40, engine="topup", prefetch=prefetch, compute_ms=6, copy_ms=3) == pytest.approx(240)


@pytest.mark.parametrize("resident", [0, 3, 7])
@pytest.mark.parametrize("policy", Policy)
def test_topping_up_with_more_depth_is_never_slower(policy, resident):
    stack = build_stack(10, compute_ms=3, copy_ms=2, uneven={5: 12, 8: 7}, passes=60)
    times = [
        round(steady_ms(10, engine="topup", prefetch=prefetch, resident=resident, policy=policy, stack=stack), 9)
        for prefetch in range(1, 11)
    ]
    assert times == sorted(times, reverse=True)
    streamed_s = [stack.copy_ms[layer] / 1e3 for layer in streamed_layers(10, resident, policy)]
    assert times[-1] / 1e3 >= compute_steady_bound_s([0.003] * 10, streamed_s) - 1e-12


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize(("count", "resident"), [(8, 0), (8, 4), (10, 3), (7, 6), (5, 2)])
@pytest.mark.parametrize("copy_ms", [2, 3, 7])
def test_topping_up_is_never_slower_than_the_server_at_equal_bytes(policy, count, resident, copy_ms):
    knobs = {"resident": resident, "policy": policy, "copy_ms": copy_ms}
    for prefetch in range(1, count - resident + 1):
        allowed = streamed_bytes(count, prefetch=prefetch, **knobs)
        fitting = [
            depth
            for depth in range(1, count + 1)
            if streamed_bytes(count, engine="topup", prefetch=depth, **knobs) <= allowed
        ]
        ours = min(steady_ms(count, engine="topup", prefetch=depth, **knobs) for depth in fitting)
        assert ours <= steady_ms(count, prefetch=prefetch, **knobs) * (1 + 1e-9)


def test_the_window_of_topping_up_is_limited_by_bytes_not_by_a_count():
    # One layer of 12 ms and nine of 2 ms: the window of P = 1 holds the two largest, or the room of the large one full
    # of small ones.
    assert streamed_bytes(10, engine="topup", prefetch=1, **UNEVEN) == 14_000
    assert streamed_bytes(10, prefetch=1, **UNEVEN) == 14_000


@pytest.mark.parametrize("policy", Policy)
def test_device_bytes_rise_with_depth_until_the_whole_stack_is_there(policy):
    sizes = [streamed_bytes(12, prefetch=prefetch, policy=policy) for prefetch in range(1, 13)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 2 * 6000
    assert sizes[3] == (8 if policy is LEADING else 5) * 6000
    assert sizes[-1] == 12 * 6000


def test_a_stack_that_stays_streams_nothing():
    times, _ = evaluate_stack(8, placement=streamed(resident=8, lifetime=Lifetime.PERMANENT))
    assert times.first_s == pytest.approx(0.024)
    assert times.steady_s == pytest.approx(0.024)
