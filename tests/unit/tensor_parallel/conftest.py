"""MiniMax-H3 under its default request, read once."""

import pytest

from autotune.catalog.registry import find_model


@pytest.fixture(scope="session")
def h3():
    entry = find_model("H3")
    return entry.capture(entry.settle(entry.default_workload), lambda _: None)
