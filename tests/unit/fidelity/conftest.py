"""Facts of catalog models, read once."""

import pytest

from autotune.catalog.registry import find_model


@pytest.fixture(scope="session")
def read_model():
    """Facts of a catalog model under its default request."""
    found = {}

    def read(name):
        if name not in found:
            entry = find_model(name)
            found[name] = entry.capture(entry.settle(entry.default_workload), lambda _: None)
        return found[name]

    return read
