"""The load that copies are measured beside."""

import pytest
from node_builders import bench_on, virtual_device
from shrunken_models import QWEN_IMAGE

from autotune.measure.heaviest_layer import find_heaviest_layer
from autotune.measure.run_settings import RunSettings
from autotune.measurements.model_profile import RunOptions


def find_key(options: RunOptions) -> str:
    settings = RunSettings(bench=bench_on(virtual_device()), options=options)
    return find_heaviest_layer("Qwen-Image", QWEN_IMAGE.list_builders()["transformer"], settings).key


@pytest.mark.parametrize(
    "options", [RunOptions(attention="math"), RunOptions(autocast="bfloat16"), RunOptions(compiled=True)]
)
def test_what_was_measured_under_other_options_is_another_load(options: RunOptions) -> None:
    assert find_key(options) == find_key(options)
    assert find_key(options) != find_key(RunOptions())
