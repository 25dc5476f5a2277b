import pytest

from runtime.hosting import HostedLayer, HostTier, PinBudget, host_stack
from runtime.pinned import rounded_pin_bytes
from runtime.units import GIB

M6_LAYER = round(1.2024 * GIB)
M6_SPENDABLE = round(41.22 * GIB)


def count_pins(layer_bytes):
    """Of 50 layers, each of which locks ``layer_bytes``."""
    layers = [HostedLayer(run_bytes=layer_bytes, view_bytes=0)] * 50
    budget = PinBudget(spendable_bytes=M6_SPENDABLE, available_bytes=2**50)
    return host_stack(layers, range(50), budget)[0].count(HostTier.PINNED)


@pytest.mark.parametrize(
    ("asked_gib", "locked_gib"), [(4.0, 4), (4.1, 8), (5.0, 8), (20.4, 32), (2.25, 4), (1.125, 2), (0, 0)]
)
def test_m6_a_block_of_the_caching_allocator_takes_the_next_power_of_two(asked_gib, locked_gib):
    assert rounded_pin_bytes(round(asked_gib * GIB)) == locked_gib * GIB


def test_m6_rounded_blocks_leave_room_for_20_layers_and_exact_ones_for_34():
    assert count_pins(rounded_pin_bytes(M6_LAYER)) == 20
    assert count_pins(M6_LAYER) == 34


@pytest.mark.parametrize("size", [1, 2, 3, 4097, 2**40 - 1, 2**40, 2**40 + 1])
def test_a_rounded_block_holds_what_was_asked_and_less_than_twice_that(size):
    assert size <= rounded_pin_bytes(size) < 2 * size
