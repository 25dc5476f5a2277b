"""What the window of a top-up placement holds: the layers that follow one another, not the largest ones."""

import pytest
from builders import evaluate_stack, peak_of, streamed
from hypothesis import given
from hypothesis import strategies as st

from runtime.engines.topup import TopupStack
from runtime.program import Op
from runtime.residency import Policy

SIZES = (9, 1, 8, 1, 1, 7, 1)


def window_bytes(sizes, **knobs):
    return TopupStack(streamed(**knobs), layer_bytes=tuple(sizes)).window_bytes


@pytest.mark.parametrize(
    ("prefetch", "expected"),
    [(1, 10), (2, 18), (3, 19), (4, 26), (5, 27), (6, 28), (9, 28)],
)
def test_a_window_holds_the_most_bytes_of_layers_in_a_row(prefetch, expected):
    assert window_bytes(SIZES, prefetch=prefetch) == expected


def test_a_window_reaches_into_the_next_pass_where_layer_0_streams():
    sizes = (5, 1, 1, 1, 6)
    assert window_bytes(sizes, prefetch=1) == 11
    assert window_bytes(sizes, prefetch=1, resident=1) == 7


@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=12),
    st.integers(1, 13),
    st.integers(0, 11),
    st.sampled_from(Policy),
)
def test_no_streamed_layer_comes_too_late_once_a_use_has_begun(sizes, prefetch, resident, policy):
    knobs = {"prefetch": prefetch, "resident": min(resident, len(sizes) - 2), "policy": policy}
    stack = TopupStack(streamed(**knobs), layer_bytes=tuple(sizes))
    stack.prepare()
    actions = [action for _ in range(3) for block in stack.run_pass() for action in block.actions]
    assert Op.H2D_BLOCKING not in {op for op, _ in actions}


def test_large_layers_that_lie_apart_do_not_take_room_twice():
    uneven = {"compute_ms": 3, "copy_ms": 2, "uneven": {2: 12, 7: 12}}
    _, evaluation = evaluate_stack(10, engine="topup", placement=streamed(prefetch=1), **uneven)
    assert peak_of(evaluation, "transformer").streamed_bytes == 14_000
