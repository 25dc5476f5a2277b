"""The public table, read once."""

from functools import cache
from pathlib import Path

import pytest

from autotune.observed.measurement_table import read_measurement_table

PUBLIC_TABLE = Path(__file__).parents[2] / "data" / "public_measurements.csv"


@cache
def read_public():
    """All its runs."""
    return read_measurement_table(PUBLIC_TABLE)


def find_observed(name):
    """The observation called ``name``."""
    return next(observation for observation in read_public().observations if observation.name == name)


def find_refused(name):
    """The refused row called ``name``."""
    return next(refused for refused in read_public().refused if refused.name == name)


def list_latencies(name):
    """(scope, component) -> seconds of an observation, compared with a tolerance."""
    return {
        (latency.scope, latency.component): pytest.approx(latency.seconds) for latency in find_observed(name).latencies
    }
