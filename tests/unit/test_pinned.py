import pytest

from runtime.pinned import count_pins, rounded_pin_bytes
from runtime.units import GIB

M6_LAYERS = [round(1.2024 * GIB)] * 50
M6_SPENDABLE = round(41.22 * GIB)


@pytest.mark.parametrize(
    ("asked_gib", "locked_gib"), [(4.0, 4), (4.1, 8), (5.0, 8), (20.4, 32), (2.25, 4), (1.125, 2), (0, 0)]
)
def test_m6_a_block_of_the_caching_allocator_takes_the_next_power_of_two(asked_gib, locked_gib):
    assert rounded_pin_bytes(round(asked_gib * GIB)) == locked_gib * GIB


def test_m6_rounded_blocks_leave_room_for_20_layers_and_exact_ones_for_34():
    assert count_pins(M6_LAYERS, M6_SPENDABLE, rounded=True) == 20
    assert count_pins(M6_LAYERS, M6_SPENDABLE, rounded=False) == 34


def test_a_layer_that_does_not_fit_is_skipped_and_a_smaller_one_still_pinned():
    assert count_pins([6, 5, 3], 10, rounded=False) == 2
    assert count_pins([6, 5, 3], 0, rounded=False) == 0


@pytest.mark.parametrize("size", [1, 2, 3, 4097, 2**40 - 1, 2**40, 2**40 + 1])
def test_a_rounded_block_holds_what_was_asked_and_less_than_twice_that(size):
    assert size <= rounded_pin_bytes(size) < 2 * size
