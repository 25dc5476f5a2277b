"""``autotune search`` end to end on the real models."""

import csv
import json

import pytest

from autotune.cli.app import app
from autotune.export.read_back import plan_from_options
from autotune.export.sglang_options import parse_options
from autotune.profile import load_profile
from runtime.plan_document import load_plan

FILES = {
    "flags.txt", "host.csv", "pareto.csv", "plan.json", "profile.json", "report.html", "report.md", "serve.sh",
    "trials.csv",
}  # fmt: skip


@pytest.fixture(scope="module")
def h3_run(tmp_path_factory):
    """The main job: H3 under 24 GiB, no device named."""
    folder = tmp_path_factory.mktemp("runs") / "h3"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["autotune", "search", "--model", "H3", "--vram-cap", "24GiB", "--out", str(folder)])
        app(standalone_mode=False)
    return folder


def test_search_writes_every_file_of_a_run(h3_run):
    assert {path.name for path in h3_run.iterdir()} == FILES


def test_plan_names_the_default_card_and_the_assumed_host_in_every_output(h3_run):
    document = load_plan(h3_run / "plan.json")
    assert "the default card" in document.device.origin
    assert document.host.memory_bytes == 192 * 2**30
    for name in ("report.md", "serve.sh"):
        text = (h3_run / name).read_text()
        assert "the default card" in text
        assert "192 GiB, assumed" in text


def test_report_says_first_that_copies_are_hidden_and_where_tuning_would_pay(h3_run):
    document = load_plan(h3_run / "plan.json")
    assert document.findings[0].startswith("Copies are hidden behind compute")
    assert {gain.setting for gain in document.tuning_gains} == {"864x480", "864x480 in 8 steps", "8 steps"}
    assert "864x480" in document.findings[1]
    gains = {gain.setting: gain.gain_ratio for gain in document.tuning_gains}
    assert gains["864x480 in 8 steps"] > gains["864x480"] > 0


def test_plan_stays_within_the_cap_and_the_card(h3_run):
    document = load_plan(h3_run / "plan.json")
    assert document.cap.asked_bytes == 24 * 2**30
    assert document.cap.effective_bytes == document.device.usable_vram_bytes < 24 * 2**30
    assert document.prediction.peak.charged_bytes <= document.cap.effective_bytes


def test_exported_flags_parse_back_to_the_plan(h3_run):
    document = load_plan(h3_run / "plan.json")
    tokens = (h3_run / "flags.txt").read_text().split()
    assert plan_from_options(parse_options(tokens), document.model) == document.plan


def test_trials_are_seeded_and_reach_the_optimum(h3_run):
    with (h3_run / "trials.csv").open() as file:
        trials = list(csv.DictReader(file))
    assert len(trials) == 100
    assert trials[0]["origin"] == "exact optimum"
    best = min(float(trial["latency_s"]) for trial in trials if trial["feasible"] == "True")
    comparisons = {item.name: item.latency_s for item in load_plan(h3_run / "plan.json").comparisons}
    assert best == pytest.approx(comparisons["optimum"])


def test_curve_falls_from_the_smallest_plan_on(h3_run):
    with (h3_run / "pareto.csv").open() as file:
        points = [(int(row["charged_bytes"]), float(row["latency_s"])) for row in csv.DictReader(file)]
    assert points == sorted(points)
    assert [latency for _, latency in points] == sorted((latency for _, latency in points), reverse=True)


def test_a_saved_profile_gives_the_same_plan(h3_run, run_cli, tmp_path):
    code, out, _ = run_cli(
        "search", "--profile", h3_run / "profile.json", "--vram-cap", "24GiB", "--out", tmp_path / "again", "--json"
    )
    assert code == 0
    assert load_plan(tmp_path / "again" / "plan.json").plan == load_plan(h3_run / "plan.json").plan
    assert json.loads(out)["plan"]["profile_id"] == load_profile(tmp_path / "again" / "profile.json").digest


def test_same_seed_gives_the_same_trials_and_plan(run_cli, tmp_path):
    for name in ("one", "two"):
        code, _, _ = run_cli(
            "search", "--model", "Qwen-Image", "--device", "rtx-5090", "--vram-cap", "16GiB", "--trials", "40",
            "--seed", "7", "--out", tmp_path / name,
        )  # fmt: skip
        assert code == 0
    assert (tmp_path / "one" / "trials.csv").read_text() == (tmp_path / "two" / "trials.csv").read_text()
    assert load_plan(tmp_path / "one" / "plan.json").plan == load_plan(tmp_path / "two" / "plan.json").plan


def test_nothing_fits_has_its_own_exit_code_and_names_limit_need_and_nearest_plan(run_cli, tmp_path):
    arguments = ("search", "--model", "H3", "--vram-cap", "6GiB", "--out", tmp_path / "none")
    code, _, err = run_cli(*arguments)
    assert code == 3
    assert "nothing fits: the VRAM cap is 6.00 GiB" in err
    assert "transformer: layerwise-offload P=1 r=0" in err
    code, out, _ = run_cli(*arguments, "--json")
    answer = json.loads(out)
    assert code == 3
    assert answer["short_bytes"] == answer["needed_bytes"] - answer["available_bytes"] > 0
    assert not (tmp_path / "none").exists()


def test_a_finished_run_is_not_overwritten_unless_asked(h3_run, run_cli):
    before = (h3_run / "plan.json").read_bytes()
    code, _, err = run_cli("search", "--model", "H3", "--vram-cap", "24GiB", "--out", h3_run)
    assert code == 2
    assert "--overwrite" in err
    assert (h3_run / "plan.json").read_bytes() == before


def test_a_host_too_small_for_all_pins_says_what_waits_where(run_cli, tmp_path):
    code, out, _ = run_cli(
        "search", "--vram-cap", "24GiB", "--host-memory", "64GB", "--trials", "0", "--no-advice", "--out",
        tmp_path / "small",
    )  # fmt: skip
    assert code == 0
    assert "Pinned host memory does not hold every layer" in " ".join(out.split())


@pytest.mark.parametrize("model", ["H3", "Qwen-Image", "FLUX.1-dev"])
@pytest.mark.parametrize("cap", [6, 12, 16, 24, 48, 96])
def test_every_cap_gives_a_plan_or_a_clear_answer(model, cap, run_cli, tmp_path):
    code, out, err = run_cli(
        "search", "--model", model, "--vram-cap", f"{cap}GiB", "--device", "b200", "--trials", "0", "--max-prefetch",
        "2", "--no-advice", "--out", tmp_path / "run",
    )  # fmt: skip
    assert code in {0, 3}
    if code == 0:
        document = load_plan(tmp_path / "run" / "plan.json")
        assert document.prediction.peak.charged_bytes <= cap * 2**30
        tokens = (tmp_path / "run" / "flags.txt").read_text().split()
        assert plan_from_options(parse_options(tokens), document.model) == document.plan
    else:
        assert "nothing fits" in err
        assert not out
