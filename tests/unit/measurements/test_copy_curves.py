"""Interpolation between timed sizes, and the one rate that a request's copies reach."""

import pytest
from builders import build_component, build_facts, build_stack
from hypothesis import given
from hypothesis import strategies as st
from profile_builders import build_link, timed

from autotune.measurements.links import derive_link_rate, interpolate_s, weigh_copies, weigh_moves
from runtime.errors import ProfileError

SIZES = st.lists(st.integers(1, 10**10), min_size=1, max_size=8, unique=True).map(sorted)


@st.composite
def curves(draw):
    """Copies whose time never falls with their size."""
    sizes = draw(SIZES)
    steps = draw(st.lists(st.floats(1e-6, 10.0), min_size=len(sizes), max_size=len(sizes)))
    return [(size, sum(steps[: index + 1])) for index, size in enumerate(sizes)]


@given(curve=curves())
def test_interpolation_is_exact_at_timed_sizes(curve):
    for size, time_s in curve:
        assert interpolate_s(curve, size) == pytest.approx(time_s)


@given(curve=curves(), sizes=st.lists(st.integers(1, 2 * 10**10), min_size=2, max_size=2))
def test_a_larger_copy_never_takes_less(curve, sizes):
    small, large = sorted(sizes)
    assert interpolate_s(curve, small) <= interpolate_s(curve, large) * (1 + 1e-9)


@given(curve=curves(), size=st.integers(1, 2 * 10**10))
def test_times_are_positive(curve, size):
    assert interpolate_s(curve, size) > 0


def test_a_fixed_cost_stays_with_copies_smaller_than_any_that_was_timed():
    curve = [(1000, 2e-3), (2000, 3e-3)]  # 1 ms, and 1 us a byte
    assert interpolate_s(curve, 100) == pytest.approx(1.1e-3)
    assert interpolate_s(curve, 4000) == pytest.approx(6e-3)  # the rate of the largest


def test_noise_in_the_smallest_sizes_never_makes_smaller_copies_slower():
    assert interpolate_s([(1000, 2e-3), (2000, 1e-3)], 500) <= 2e-3


def test_weights_are_the_bytes_of_a_request_at_each_size():
    stacks = {"blocks": build_stack(2, copy_ms=6, passes=3, uneven={1: 2})}
    component = build_component(0)
    facts = build_facts({"vae": build_component(0, rest_ms=5), "transformer": type(component)(stacks=stacks)})
    assert weigh_copies(facts) == {5000: 5000, 6000: 3 * 6000, 2000: 3 * 2000}
    assert weigh_moves(facts) == {5000: 5000, 8000: 8000}


def test_the_rate_is_all_bytes_through_all_seconds():
    links = [build_link(size_bytes=1000, bytes_per_s=1e6), build_link(size_bytes=9000, bytes_per_s=3e6)]
    rate = derive_link_rate(links, "pinned_h2d", {1000: 2000, 9000: 9000})
    assert rate is not None
    assert rate.bytes_per_s == pytest.approx(11_000 / (2 * 1e-3 + 3e-3))
    assert (rate.sizes, rate.count) == (2, 15)


def test_a_link_that_was_not_timed_has_no_rate_and_one_without_time_is_refused():
    assert derive_link_rate([build_link()], "disk_read", {6000: 6000}) is None
    with pytest.raises(ProfileError, match="took no time"):
        derive_link_rate([build_link(timing=timed(0.0))], "pinned_h2d", {6000: 6000})
