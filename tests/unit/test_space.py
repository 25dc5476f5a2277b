import pytest
from builders import build_component, build_facts, moved, streamed

from autotune.space import SearchSpace, fold
from runtime.errors import InputError
from runtime.residency import Lifetime, Mode, Policy


def component(count):
    return build_facts({"transformer": build_component(count)}).model.components[0]


def test_the_space_refuses_to_fetch_nothing_ahead():
    with pytest.raises(InputError, match="--max-prefetch is 0: at least one layer is always fetched ahead"):
        SearchSpace(max_prefetch=0)


@pytest.mark.parametrize(
    ("knobs", "folded"),
    [
        ({"resident": 0, "prefetch": 1, "policy": Policy.STRIDED}, {"resident": 0, "prefetch": 1}),
        ({"resident": 0, "lifetime": Lifetime.PERMANENT}, {"resident": 0}),
        ({"resident": 10, "policy": Policy.STRIDED}, {"resident": 10}),
        ({"resident": 10, "prefetch": 4, "lifetime": Lifetime.PERMANENT}, {"resident": 10, "lifetime": "permanent"}),
        ({"prefetch": 99}, {"prefetch": 10}),
    ],
)
def test_placements_that_behave_alike_fold_to_the_plainest(knobs, folded):
    assert fold(streamed(**knobs), component(10)) == streamed(**folded)


@pytest.mark.parametrize(
    "knobs",
    [
        {"resident": 0, "prefetch": 2, "policy": Policy.STRIDED},
        {"resident": 1, "policy": Policy.STRIDED},
        {"resident": 9, "policy": Policy.STRIDED, "lifetime": Lifetime.PERMANENT},
    ],
)
def test_policies_are_told_apart_wherever_they_differ(knobs):
    assert fold(streamed(**knobs), component(10)) == streamed(**knobs)


def test_no_two_placements_of_a_space_are_the_same():
    placements = SearchSpace(max_prefetch=3).placements(component(6))
    assert len(set(placements)) == len(placements)
    assert all(fold(placement, component(6)) == placement for placement in placements)


def test_a_component_without_layers_is_kept_or_moved_whole():
    assert [placement.mode for placement in SearchSpace().placements(component(0))] == [
        Mode.RESIDENT,
        Mode.COMPONENT_OFFLOAD,
    ]


def test_modes_can_be_left_out():
    space = SearchSpace(modes=(Mode.COMPONENT_OFFLOAD,))
    assert space.placements(component(3)) == (moved(),)


def test_the_size_of_a_space_is_the_product_over_components():
    model = build_facts({"vae": build_component(0), "dit": build_component(1)}).model
    assert SearchSpace().size(model) == 2 * len(SearchSpace().placements(model.components[1]))
