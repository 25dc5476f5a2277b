"""Facts captured once per session from the real classes."""

from dataclasses import replace

import pytest

from autotune.catalog.registry import find_model
from autotune.workload import Recipe


def capture(name, **changes):
    entry = find_model(name)
    return entry.capture(entry.settle(replace(entry.default_workload, **changes)), lambda _: None)


@pytest.fixture(scope="session")
def h3():
    return capture("H3")


@pytest.fixture(scope="session")
def h3_exact():
    return capture("H3", recipe=Recipe.EXACT)


@pytest.fixture(scope="session")
def qwen_image():
    return capture("Qwen-Image")


@pytest.fixture(scope="session")
def flux():
    return capture("FLUX.1-dev")


@pytest.fixture(scope="session")
def z_image():
    return capture("Z-Image-Turbo")


@pytest.fixture(scope="session")
def hunyuan():
    return capture("HunyuanVideo")


@pytest.fixture(scope="session")
def capture_model():
    return capture
