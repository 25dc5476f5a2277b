"""Logs and dumps of single runs as observations: what a log says of the request counts more than what was typed."""

from pathlib import Path

import pytest

from autotune.catalog.registry import find_model
from autotune.workflows.observed_sources import RunWish, read_observed

DATA = Path(__file__).parents[2] / "data" / "observed"


def _read(model, *files):
    entry = find_model(model)
    wish = RunWish(model=entry.name, device="rtx-4090", workload=entry.default_workload)
    return read_observed([",".join(str(DATA / name) for name in files)], wish)


@pytest.mark.parametrize(
    ("model", "log", "shape"),
    [
        ("H3", "h3_small_host_server.log", (864, 480, 124, 21)),
        ("Qwen-Image", "qwen_image_server.log", (1024, 1024, 1, 50)),
    ],
)
def test_a_logs_request_is_the_runs_own_with_steps_as_sigma_points_where_these_count(model, log, shape):
    workload = _read(model, log).observations[0].setup.workload
    assert (workload.width, workload.height, workload.frames, workload.steps) == shape


def test_a_run_of_another_model_is_refused_and_named():
    runs = _read("H3", "qwen_image_server.log")
    assert not runs.observations
    assert "it is a run of Qwen/Qwen-Image, not of H3" in runs.refused[0].text


def test_a_dump_alone_says_that_placements_are_taken_for_granted():
    runs = _read("Qwen-Image", "qwen_image_perf_dump.json")
    assert any("nothing says where components were" in note for note in runs.notes)
