"""Rates that measured pieces reached, for what was not measured."""

import pytest
from profile_builders import build_record, timed

from autotune.measurements.achieved import derive_flops_per_s, derive_memory_bytes_per_s
from autotune.measurements.model_profile import MeasuredPiece

DTYPES = {"transformer": "bfloat16", "vae": "float16"}


def piece(flops, moved_bytes, seconds, *, component="transformer", calls=1, **changes):
    record = build_record(
        component=component, timing=timed(seconds, count=3), flops=flops, moved_bytes=moved_bytes, **changes
    )
    return MeasuredPiece(record=record, places=("blocks[0]",), calls=calls, passes=1)


def unmeasured():
    record = build_record(timing=None, outcome="out_of_memory", flops=9e15)
    return MeasuredPiece(record=record, places=("blocks[1]",), calls=1, passes=1)


def test_rate_of_arithmetic_is_that_of_all_calls_of_pieces_that_it_binds():
    pieces = [piece(4e12, 1e9, 0.5, calls=3), piece(1e12, 1e9, 1.0), piece(1e9, 1e9, 9.0), unmeasured()]
    assert derive_flops_per_s(pieces, DTYPES) == {"bfloat16": pytest.approx((3 * 4e12 + 1e12) / (3 * 0.5 + 1.0))}


def test_each_dtype_has_its_own_rate():
    pieces = [piece(4e12, 1e9, 0.5), piece(1e12, 1e9, 0.5, component="vae")]
    assert derive_flops_per_s(pieces, DTYPES) == {"bfloat16": pytest.approx(8e12), "float16": pytest.approx(2e12)}


def test_where_memory_binds_everything_the_most_that_was_reached_stands_for_arithmetic():
    pieces = [piece(1e9, 1e9, 0.5), piece(3e9, 1e9, 0.5)]
    assert derive_flops_per_s(pieces, DTYPES) == {"bfloat16": pytest.approx(6e9)}


def test_rate_of_memory_is_that_of_pieces_that_it_binds():
    pieces = [piece(0.0, 2e9, 0.5, calls=2), piece(0.0, 1e9, 1.0), piece(4e12, 9e9, 0.5)]
    assert derive_memory_bytes_per_s(pieces) == pytest.approx((2 * 2e9 + 1e9) / (2 * 0.5 + 1.0))
    assert derive_memory_bytes_per_s([piece(4e12, 9e9, 0.5)]) == pytest.approx(18e9)


def test_nothing_measured_says_nothing():
    assert derive_flops_per_s([unmeasured()], DTYPES) == {}
    assert derive_memory_bytes_per_s([unmeasured()]) == 0
