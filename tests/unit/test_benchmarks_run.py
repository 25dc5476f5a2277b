"""Every benchmark runs to its end in its tiny mode and prints one JSON object last."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch
from run_data_builders import build_document

from autotune.catalog.registry import list_model_names
from runtime.plan_document import save_plan

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def load(monkeypatch):
    """Imports a script of the benchmarks as if it were run."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return importlib.import_module


def run_main(module, arguments, capsys):
    """Exit status of ``main`` and the JSON object of its last line."""
    code = module.main(arguments)
    return code, json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_executor_benchmark_agrees_with_the_replay_on_the_virtual_clock(load, capsys, tmp_path):
    out = tmp_path / "executor.json"
    code, result = run_main(load("executor"), ["--quick", "--out", str(out)], capsys)
    assert code == 0
    assert len(result["cases"]) >= 8
    assert max(abs(case["virtual_error_s"]) for case in result["cases"]) < 1e-9
    assert json.loads(out.read_text()) == result


def test_schedules_benchmark_finds_no_loss_on_a_small_grid(load, capsys):
    code, result = run_main(load("schedules"), ["--quick"], capsys)
    assert code == 0
    assert result["equal_layers"]["slower"] == 0
    assert result["equal_layers"]["topup"]["any_order_exactly"] == result["equal_layers"]["cases"]
    assert result["unequal_layers"]["topup"]["in_order_exactly"] == result["unequal_layers"]["cases"]


def test_overhead_benchmark_compares_every_variant(load, capsys):
    code, result = run_main(load("overhead"), ["--quick"], capsys)
    assert code == 0
    assert [row["variant"] for row in result["variants"]][:2] == ["plain", "session real"]


def test_profile_cost_measures_a_model_in_a_process_of_its_own(load, capsys, tmp_path):
    out = tmp_path / "profile_cost.json"
    code, result = run_main(load("profile_cost"), ["--quick", "--out", str(out)], capsys)
    assert code == 0
    (row,) = result["models"]
    pieces = row["device_peaks"]["pieces"]
    assert row["distinct_pieces"] < row["places"]
    assert row["outcomes"]["failed"] == []
    assert min(row["seconds"].values()) > 0
    assert pieces["total_bytes"] <= pieces["weights_and_buffers_bytes"] + pieces["activations_bytes"]
    assert row["largest_layer_bytes"] < row["needed_bytes"]
    assert json.loads(out.read_text()) == result


def test_profile_cost_notes_a_model_that_takes_too_long(load, capsys, monkeypatch):
    cost = load("profile_cost")
    monkeypatch.setattr(cost, "MOST_S", 0.01)
    code, result = run_main(cost, ["--only", "H3,FLUX.1"], capsys)
    assert code == 1
    assert [row["model"] for row in result["models"]] == ["H3", "FLUX.1-dev"]
    assert {row["error"] for row in result["models"]} == {"not done after 0.01 s"}


def test_every_catalog_model_has_a_small_request(load):
    requests = load("small_requests")
    assert list(requests.REQUESTS) == list(list_model_names())
    for name, request in requests.REQUESTS.items():
        entry = requests.ask_small(name)
        settled = entry.settle(entry.default_workload)
        assert bool(request.why_unsettled) == any("not settled" in note for note in settled.notes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a card is checked by running the script itself")
def test_profile_part_predicts_every_plan_that_it_executes(load, capsys):
    code, result = run_main(load("gpu_check"), ["--quick", "--only", "profile"], capsys)
    assert code == 0
    part = result["parts"]["profile"]
    assert part["on_cuda"] == "not run: no CUDA device"
    assert list(part["result"]["profile"]["pieces"]) == ["measured"]
    assert len(part["result"]["plans"]) >= 3
    assert max(abs(row["error_ratio"]) for row in part["result"]["plans"]) < 0.02
    assert part["result"]["left_out"] == ["a second profile"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a card is checked by running the script itself")
def test_gpu_check_says_what_it_could_not_run_without_a_card(load, capsys):
    code, result = run_main(load("gpu_check"), ["--quick", "--only", "overlap,peaks,residency,overhead"], capsys)
    assert code == 0
    assert result["cuda_parts"] == "not run: no CUDA device"
    assert {part["on_cuda"] for part in result["parts"].values()} == {"not run: no CUDA device"}
    assert {part["device"] for part in result["parts"].values()} == {"emulated"}


def test_gpu_check_notes_a_part_that_fails_and_goes_on(load, capsys, monkeypatch):
    check = load("gpu_check")

    def fail(bench):
        raise check.CheckError("promise broken", {"measured": 1})

    def stop(bench):
        raise RuntimeError("out of cards")

    def succeed(bench):
        return {"layers": bench.layers}

    parts = tuple(
        check.Part(name=name, run=run, budget_s=1)
        for name, run in {"first": fail, "second": stop, "third": succeed}.items()
    )
    monkeypatch.setattr(check, "PARTS", parts)
    code, result = run_main(check, ["--quick", "--device", "emulated"], capsys)
    assert code == 1
    assert result["failed"] == ["first", "second"]
    assert result["parts"]["first"]["result"] == {"measured": 1}
    assert "out of cards" in result["parts"]["second"]["error"]
    assert result["parts"]["third"]["status"] == "passed"


def test_report_time_tells_every_format_and_picture(load, capsys, tmp_path):
    save_plan(build_document(), tmp_path / "plan.json")
    code, result = run_main(load("report_time"), [str(tmp_path), "--rounds", "1"], capsys)
    assert code == int(result["slowest_cold_cpu_s"] > result["limit_s"])
    assert [row["picture"] for row in result["pictures"]] == ["memory", "changes"]
    assert result["html_bytes"] > sum(row["inline_bytes"] for row in result["pictures"])
    assert all(result[part]["cold_s"] > 0 for part in ("read", "html", "markdown", "pdf"))
