"""Rates as documents hold them."""

import json
from dataclasses import replace

import msgspec
import pytest
from builders import RATES

from autotune.rates import Rates
from runtime.errors import InputError
from runtime.interference import NO_INTERFERENCE, Interference


def test_rates_saved_before_interference_was_known_have_none():
    saved = json.loads(msgspec.json.encode(RATES))
    del saved["interference"]
    assert msgspec.convert(saved, Rates) == RATES
    assert RATES.interference == NO_INTERFERENCE


def test_interference_is_saved_and_checked_when_it_is_loaded():
    disturbed = replace(RATES, interference=Interference(compute_slowdown_ratio=0.1, copy_slowdown_ratio=0.02))
    text = msgspec.json.encode(disturbed)
    assert msgspec.json.decode(text, type=Rates) == disturbed
    with pytest.raises(InputError, match="copy_slowdown_ratio is -1"):
        msgspec.json.decode(text.replace(b"0.02", b"-1"), type=Rates)
