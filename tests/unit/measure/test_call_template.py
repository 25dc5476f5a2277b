"""Arguments of a call on the meta device, and real ones of the same shapes."""

from typing import NamedTuple

import pytest
import torch

from autotune.measure.call_template import (
    describe_template,
    fill_template,
    list_tensors,
    make_template,
    random_tensors,
)


class Pair(NamedTuple):
    left: torch.Tensor
    right: object


class Cache:
    def __init__(self, entry):
        self.entry = entry
        self.position = 3


def meta(*size, dtype=torch.float32):
    return torch.empty(size, dtype=dtype, device="meta")


def fill(value):
    return fill_template(make_template(value), random_tensors(torch.device("cpu"), seed=1))


def test_nested_arguments_come_back_in_their_structure_with_real_tensors():
    made = fill({"pair": Pair(meta(2, 3), None), "list": [meta(4, dtype=torch.bfloat16), "text", 5]})
    assert isinstance(made["pair"], Pair)
    assert made["pair"].left.shape == (2, 3)
    assert made["list"][0].dtype is torch.bfloat16
    assert (made["pair"].right, made["list"][1:]) == (None, ["text", 5])


def test_an_object_that_holds_tensors_is_copied_with_real_ones():
    original = Cache([meta(2, 2)])
    made = fill(original)
    assert made is not original
    assert (made.entry[0].shape, made.entry[0].is_meta, made.position) == ((2, 2), False, 3)
    assert original.entry[0].is_meta


def test_strides_are_kept_and_an_expanded_dimension_takes_no_memory():
    expanded, turned = meta(3, 1).expand(3, 1000), meta(4, 5).t()
    made = fill([expanded, turned])
    assert [tensor.stride() for tensor in made] == [expanded.stride(), turned.stride()]
    assert made[0].untyped_storage().nbytes() == 3 * 4


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()])
def test_empty_and_scalar_tensors_keep_their_shape(shape):
    assert fill(meta(*shape)).shape == shape


def test_integers_are_zero_masks_let_everything_through_and_values_are_finite():
    numbers, mask, values, small, waves = fill(
        [
            meta(4, dtype=torch.long),
            meta(4, dtype=torch.bool),
            meta(64),
            meta(64, dtype=torch.float8_e4m3fn),
            meta(64, dtype=torch.complex64),
        ]
    )
    assert numbers.eq(0).all()
    assert mask.all()
    assert values.std() > 0.5
    assert small.float().std() > 0.5
    assert torch.isfinite(torch.view_as_real(waves)).all()


def test_calls_are_described_alike_exactly_when_they_compute_alike():
    same = [describe_template(make_template([meta(2, 3), {"flag": True}])) for _ in range(2)]
    others = [[meta(3, 2), {"flag": True}], [meta(2, 3), {"flag": False}], [meta(2, 3, dtype=torch.half), {}]]
    assert same[0] == same[1]
    assert all(describe_template(make_template(other)) != same[0] for other in others)


def test_every_tensor_is_listed_in_order():
    template = make_template([meta(1), (meta(2), {"key": Cache(meta(3))})])
    assert [tensor.shape for tensor in list_tensors(template)] == [(1,), (2,), (3,)]
