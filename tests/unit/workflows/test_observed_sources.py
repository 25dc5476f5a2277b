"""Logs and dumps of single runs as observations: what a log says of the request counts more than what was typed."""

from pathlib import Path

import pytest

from autotune.catalog.registry import find_model
from autotune.workflows.observed_sources import RunWish, read_observed
from runtime.errors import InputError

DATA = Path(__file__).parents[2] / "data" / "observed"


TABLE = "gpu,model,component,resident,latency_s,latency_scope\nRTX 4090,H3,DiT,0,300,denoise stage total\n"


def _read(model, *files):
    return _read_all(model, ",".join(str(DATA / name) for name in files))


def _read_all(model, *sources):
    entry = find_model(model)
    wish = RunWish(model=entry.name, device="rtx-4090", workload=entry.default_workload)
    return read_observed(sources, wish)


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


def test_a_file_whose_figures_would_count_twice_is_refused(tmp_path):
    table, link = tmp_path / "runs.csv", tmp_path / "same.csv"
    table.write_text(TABLE, encoding="utf-8")
    link.symlink_to(table)
    with pytest.raises(InputError, match=r"runs\.csv is given more than once"):
        _read_all("H3", str(table), str(link))


def test_a_log_may_stand_beside_the_dump_of_each_request(tmp_path):
    log, dump, other = DATA / "qwen_image_server.log", DATA / "qwen_image_perf_dump.json", tmp_path / "second.json"
    other.write_bytes(dump.read_bytes())
    runs = _read_all("Qwen-Image", f"{log},{dump}", f"{log},{other}")
    assert len({run.name for run in runs.observations}) == 2


def test_rows_of_two_tables_without_names_are_told_apart(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(TABLE, encoding="utf-8")
    runs = _read_all("H3", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    assert [name.startswith("row 1 (") for name in (run.name for run in runs.observations)] == [True, True]
    assert len({run.name for run in runs.observations}) == 2
