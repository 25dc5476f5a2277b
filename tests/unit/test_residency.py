"""Which layers stay (field cases P2 and P4)."""

import pytest
from builders import SGLANG, ToyComponent, build_evaluator, build_plan, build_stack, streamed

from autotune.export.sglang_options import parse_options
from runtime.residency import Policy, resident_layers, streamed_layers
from runtime.units import GIB

LEADING, STRIDED = Policy.LEADING, Policy.STRIDED
BOTH = pytest.mark.parametrize("policy", Policy)


@pytest.mark.parametrize(
    ("count", "resident", "expected"),
    [
        (50, 35, (0, 3, 7, 10, 13, 17, 20, 23, 27, 30, 33, 37, 40, 43, 47)),
        (19, 10, (0, 2, 4, 6, 8, 11, 13, 15, 17)),
        (5, 2, (0, 2, 3)),
        (4, 3, (0,)),
        (40, 1, tuple(layer for layer in range(40) if layer != 20)),
    ],
)
def test_strided_spreads_its_streamed_layers(count, resident, expected):
    assert streamed_layers(count, resident, STRIDED) == expected


def test_leading_streams_the_last_layers():
    assert streamed_layers(50, 35, LEADING) == tuple(range(35, 50))
    assert resident_layers(50, 35, LEADING) == tuple(range(35))


@BOTH
def test_counts_outside_the_stack_are_clamped(policy):
    assert streamed_layers(5, -3, policy) == (0, 1, 2, 3, 4)
    assert streamed_layers(5, 99, policy) == ()
    assert resident_layers(0, 2, policy) == ()


@BOTH
@pytest.mark.parametrize("count", range(33))
def test_every_layer_stays_or_streams_and_none_does_both(policy, count):
    for resident in range(count + 1):
        stays, streams = resident_layers(count, resident, policy), streamed_layers(count, resident, policy)
        assert sorted([*stays, *streams]) == list(range(count))
        assert len(stays) == resident
        if streams and policy is STRIDED:
            assert streams[0] == 0


@pytest.mark.parametrize(("policy", "resident_gib", "streamed_gib"), [(LEADING, 6, 3), (STRIDED, 3, 6)])
def test_equal_counts_are_not_equal_bytes(policy, resident_gib, streamed_gib):
    sizes = [4 * GIB, *[GIB] * 5]
    assert sum(sizes[layer] for layer in resident_layers(6, 3, policy)) == resident_gib * GIB
    assert sum(sizes[layer] for layer in streamed_layers(6, 3, policy)) == streamed_gib * GIB


# P2: 19 layers of 600 MiB and 38 of 270 MiB; a toy millisecond is one MiB here.
def two_lists(passes=3):
    stacks = {"double": build_stack(19, copy_ms=600, passes=passes), "single": build_stack(38, copy_ms=270)}
    return ToyComponent(stacks=stacks, is_dit=True)


def resident_mib(count):
    spec = build_evaluator({"transformer": two_lists()}).cost_model.facts.model.components[0]
    placement = streamed(resident=count)
    return (
        sum(
            stack.layers[layer].run_bytes
            for stack in spec.stacks
            for layer in resident_layers(len(stack.layers), placement.resident, placement.policy)
        )
        / 1000
    )


@pytest.mark.parametrize(("count", "expected_mib"), [(20, 19 * 600 + 20 * 270), (999, 19 * 600 + 38 * 270), (0, 0)])
def test_counts_apply_to_each_list_of_layers(count, expected_mib):
    assert resident_mib(count) == expected_mib


def test_twenty_resident_layers_are_16800_mib():
    assert resident_mib(20) == 16_800


def test_a_share_applies_to_each_list_with_half_to_even_rounding():
    options = parse_options(["--dit-layerwise-resident-layers", "0.5"]).component("transformer")
    counts = [options.counts(layers)[1] for layers in (19, 38)]
    assert counts == [10, 19]
    assert counts[0] * 600 + counts[1] * 270 == 11_130


def test_each_list_keeps_its_own_first_layer_warm():
    evaluator = build_evaluator({"transformer": two_lists()})
    peak = evaluator.evaluate(build_plan(streamed(), engine=SGLANG)).peak
    assert peak.streamed_bytes / 1000 == 2 * 600 + 270
