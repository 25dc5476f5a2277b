"""``autotune profile show`` and ``diff``, and plans made from profiles."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from profile_builders import (
    CARD,
    EMULATED,
    TOY,
    build_fingerprint,
    build_interference,
    build_link,
    build_model_profile,
    build_node_profile,
    build_record,
    one_piece_each,
    save,
    with_measured_work,
)

from autotune.capture_cache import find_facts_key, load_model_facts
from autotune.cli.show_profile import show_measured
from autotune.detect import DetectedGpu, Detection
from autotune.measurements.model_profile import MeasuredPiece, RunOptions
from autotune.measurements.records import LinkKind
from autotune.measurements.store import ProfileStore
from autotune.workload import list_options
from runtime.plan_document import load_plan

# What a server keeps beside weights may be off by more than the toy card has: its expected peak is planned with.
PLAN = ("--engine", "topup", "--trials", "0", "--vram-cap", "2GiB", "--max-prefetch", "1", "--peak-quantile", "0.5")
OLD = (datetime.now(UTC) - timedelta(days=31)).isoformat()


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """An empty store."""
    monkeypatch.setenv("AUTOTUNE_PROFILE_DIR", str(tmp_path / "store"))
    return ProfileStore(tmp_path / "store")


def words(*texts):
    return " ".join(" ".join(texts).split())


def test_show_names_every_piece_with_its_time_and_what_it_reaches(run_cli, tmp_path):
    code, out, _ = run_cli("profile", "show", save(build_model_profile(), tmp_path / "model.json"))
    assert code == 0
    assert "Measured times of toy on emulated card" in out
    assert "blocks[0] and 3 alike" in out
    assert "3 ms to 3 ms" in out
    assert "transformer: 36 ms in 3 passes" in out


def test_show_says_what_is_wrong_with_a_profile(run_cli, tmp_path):
    lost = MeasuredPiece(
        record=build_record("blocks[9]", outcome="out_of_memory", timing=None), places=("blocks[9]",), calls=1, passes=1
    )
    model = build_model_profile(measured_at=OLD)
    path = save(replace(model, pieces=(*model.pieces, lost)), tmp_path / "model.json")
    code, out, _ = run_cli("profile", "show", path)
    assert code == 0
    assert "not valid here: it is 31 days old" in words(out)
    assert "transformer blocks[9] ran out of device memory" in words(out)
    answer = json.loads(run_cli("profile", "show", path, "--json")[1])
    assert answer["reasons"]
    assert answer["profile"]["facts"]["model"]["name"] == "toy"


def test_show_of_a_node_has_links_interference_and_sources(run_cli, tmp_path):
    node = build_node_profile(interference=(build_interference(),), unknown={"numa_node": "the kernel does not say"})
    code, out, _ = run_cli("profile", "show", save(node, tmp_path / "node.json"))
    assert code == 0
    for text in ("pinned", "toy transformer blocks[0]", "+20.0 %", "read before and after", "kernel does not say"):
        assert text in words(out)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_short_form_says_what_it_means_before_the_tables_and_fits_the_terminal(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    links = [build_link(kind, size, 2e9) for kind in get_args(LinkKind) for size in (2**30, 6000)]
    node = build_node_profile(links=tuple(links), interference=(build_interference(),))
    show_measured(build_model_profile(), node, ["A request computes 36 ms"])
    out = capsys.readouterr().out
    titles = ("A request computes", "transformer: 36 ms", "Links of", "Reads of", "Interference", "Budgets")
    places = [out.find(title) for title in titles]
    assert places == sorted(places)
    assert places[0] > 0
    assert max(map(len, out.splitlines())) <= int(columns)
    assert "2.00 / 2.00" in out


def test_show_without_a_file_lists_the_store_and_names_damaged_files(run_cli, store):
    paths = [store.save_model(build_model_profile()), store.save_node(build_node_profile(measured_at=OLD))]
    (store.folder / "model-damaged.json").write_text("{")
    code, out, err = run_cli("profile", "show")
    assert code == 0
    assert "toy on emulated card" in words(out)
    assert "not valid here: it is 31 days old" in words(out)
    assert {path.name for path in paths} <= set(out.split())
    assert "model-damaged.json is not JSON" in err
    rows = json.loads(run_cli("profile", "show", "--json")[1])
    assert [row["is_valid"] for row in rows] == [True, False]


def test_an_empty_store_names_the_command_that_fills_it(run_cli):
    code, out, _ = run_cli("profile", "show")
    assert code == 0
    assert "autotune profile --model MODEL" in words(out)


def test_diff_finds_and_names_one_slower_layer(run_cli, tmp_path):
    first = save(build_model_profile(), tmp_path / "first.json")
    second = save(build_model_profile(times_s=(3e-3, 3e-3, 3.6e-3, 3e-3)), tmp_path / "second.json")
    code, out, _ = run_cli("profile", "diff", first, second)
    assert code == 1
    for text in ("transformer blocks[2]: time", "+20.0 %", "3 ms", "3.6 ms"):
        assert text in out
    answer = json.loads(run_cli("profile", "diff", first, second, "--json")[1])
    changed = [item for item in answer["comparisons"] if item["verdict"] == "changed"]
    assert [item["name"] for item in changed] == ["transformer blocks[2]: time"]


def test_diff_of_two_runs_of_the_same_thing_finds_nothing(run_cli, tmp_path):
    paths = [save(build_model_profile(noise_ratio=0.01, seed=seed), tmp_path / f"run-{seed}.json") for seed in (1, 2)]
    code, out, _ = run_cli("profile", "diff", *paths)
    assert code == 0
    assert "figures agree" in out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"\xff\x00", "is not JSON"),
        (b'{"format": "layerstream-plan", "version": 1}', "is no model profile"),
        (b'{"format": "layerstream-model-profile", "version": 99}', "version 99"),
        (b'{"format": "layerstream-node-profile", "version": 1, "links": NaN}', "is not JSON"),
        (b'{"format": "layerstream-node-profile", "version": 1}', "is damaged"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_a_hostile_file_gets_one_message(content, message, run_cli, tmp_path):
    (tmp_path / "bad.json").write_bytes(content)
    good = save(build_model_profile(), tmp_path / "good.json")
    for arguments in (("show", tmp_path / "bad.json"), ("diff", good, tmp_path / "bad.json")):
        code, out, err = run_cli("profile", *arguments)
        assert (code, out) == (2, "")
        assert message in err


def test_a_folder_a_missing_file_and_two_kinds_are_wrong_input(run_cli, tmp_path):
    model, node = (
        save(build(), tmp_path / name) for build, name in ((build_model_profile, "m"), (build_node_profile, "n"))
    )
    for arguments, message in (
        (("show", tmp_path), "no regular file"),
        (("show", tmp_path / "nowhere"), "No such file"),
        (("diff", model, node), "compare two of one kind"),
    ):
        code, _, err = run_cli("profile", *arguments)
        assert code == 2
        assert message in err


def test_a_plan_from_profiles_uses_measured_times_and_links_and_says_so(run_cli, tmp_path):
    model = save(build_model_profile(), tmp_path / "model.json")
    node = save(build_node_profile(interference=(build_interference(),)), tmp_path / "node.json")
    code, out, err = run_cli("search", "--profile", model, "--node-profile", node, *PLAN, "--out", tmp_path / "run")
    assert code == 0, err
    document = load_plan(tmp_path / "run" / "plan.json")
    assert document.prediction.compute_s == pytest.approx(3 * 4 * 3e-3)
    assert document.device.figures["pinned_bytes_per_s"].value == pytest.approx(2e6)
    assert "measured on this machine" in document.device.figures["pinned_bytes_per_s"].source
    assert document.device.figures["compute_slowdown_ratio"].value == pytest.approx(0.1)
    assert not any("interference" in item for item in document.not_modelled)
    assert any(finding.startswith("Compute of transformer was measured") for finding in document.findings)
    report = (tmp_path / "run" / "report.md").read_text()
    for text in (out, report):
        assert "Estimated, not measured" not in text
        assert "Predicted from measurements (compute of transformer; copies from pinned memory" in words(text)


def test_the_saved_profile_of_such_a_run_gives_the_same_plan(run_cli, tmp_path):
    model = save(build_model_profile(), tmp_path / "model.json")
    node = save(build_node_profile(), tmp_path / "node.json")
    assert run_cli("search", "--profile", model, "--node-profile", node, *PLAN, "--out", tmp_path / "one")[0] == 0
    code, _, err = run_cli("search", "--profile", tmp_path / "one" / "profile.json", *PLAN, "--out", tmp_path / "two")
    assert code == 0, err
    one, two = (load_plan(tmp_path / name / "plan.json") for name in ("one", "two"))
    assert one.plan == two.plan
    assert one.prediction.latency_s == two.prediction.latency_s
    assert one.prediction.source == two.prediction.source


def test_simulate_and_table_take_profiles_too(run_cli, tmp_path):
    model = save(build_model_profile(), tmp_path / "model.json")
    node = save(build_node_profile(), tmp_path / "node.json")
    files = ("--profile", model, "--node-profile", node, "--engine", "topup")
    code, out, err = run_cli("simulate", *files)
    assert code == 0, err
    assert words(out).startswith("Predicted from measurements (compute of transformer")
    assert "note: Links of this machine's emulated were measured" in words(out)
    code, out, err = run_cli("table", *files, "--caps", "2GiB,4GiB", "--max-prefetch", "1", "--out", tmp_path / "table")
    assert code == 0, err
    assert words(out).startswith("Predicted from measurements")


SPELLED_OUT = f"autotune profile --model toy --device emulated {shlex.join(list_options(TOY.workload, None))}"


@pytest.mark.parametrize(
    ("model", "node", "messages"),
    [
        ({"measured_at": OLD}, {}, ("31 days old", SPELLED_OUT)),
        ({"versions": {"torch": "0.1"}, "measured_at": "never"}, {}, ("torch changed from 0.1 to", "'never'")),
        ({}, {"node": build_fingerprint(machine="other")}, ("another machine", "profile.json")),
        ({}, {"node": build_fingerprint(kind=CARD)}, ("is of NVIDIA GeForce RTX 4090",)),
    ],
)
def test_stale_and_foreign_profiles_are_refused_with_every_reason(model, node, messages, run_cli, tmp_path):
    paths = (
        save(build_model_profile(**model), tmp_path / "model.json"),
        save(build_node_profile(**node), tmp_path / "node.json"),
    )
    code, _, err = run_cli("simulate", "--profile", paths[0], "--node-profile", paths[1], "--engine", "topup")
    assert code == 2
    for message in messages:
        assert message in words(err)


def test_options_that_do_not_go_together_are_refused(run_cli, tmp_path):
    model = save(build_model_profile(), tmp_path / "model.json")
    node = save(build_node_profile(), tmp_path / "node.json")
    for arguments, message in (
        (("simulate", "--node-profile", node), "--node-profile goes beside --profile"),
        (("simulate", "--profile", model, "--device", "rtx-4090"), "already says --device"),
        (("simulate", "--profile", node), "is a node profile, which has no model"),
        (("table", "--caps", "4GiB"), "give one of the two"),
        (("table", "--caps", "4GiB", "--profile", model, "--sizes", "64x64"), "give one of the two"),
        (("simulate", "--profile", model, "--engine", "topup"), "pinned_bytes_per_s is unknown on emulated card"),
    ):
        code, _, err = run_cli(*arguments)
        assert code == 2
        assert message in err


@pytest.mark.parametrize("device", ["cpu", "emulated", "cuda", "cuda:1"])
def test_a_device_of_this_machine_needs_a_profile(device, run_cli):
    code, _, err = run_cli("simulate", "--model", "Qwen-Image", "--device", device, "--steps", "9")
    assert code == 2
    assert f"autotune profile --model Qwen-Image --device {device} --steps 9" in err


def test_without_a_profile_a_card_is_planned_for_from_its_preset_and_the_remedy_is_named(run_cli, monkeypatch):
    pretend_card(monkeypatch)
    code, out, err = run_cli("simulate", "--model", "Qwen-Image")
    assert code == 0, err
    assert out.startswith("Estimated, not measured.")
    assert "note: Nothing is measured: there is no model profile of this model" in words(out)
    assert "autotune profile --model Qwen-Image --device cuda" in words(out)


def test_a_card_with_measured_links_is_planned_for_with_them_and_datasheet_compute(run_cli, monkeypatch, store):
    pretend_card(monkeypatch)
    node = build_fingerprint(kind=CARD, device="cuda:0", device_uuid="GPU-1")
    store.save_node(build_node_profile(node=node, links=build_card_links(5e9)))
    code, out, err = run_cli("simulate", "--model", "Qwen-Image", "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["prediction"]["source"].startswith("predicted from measurements (copies from pinned memory")
    assert "estimated: compute of" in answer["prediction"]["source"]
    assert any("Compute is estimated from datasheet rates" in note for note in answer["notes"])
    by_preset = json.loads(run_cli("simulate", "--model", "Qwen-Image", "--device", "rtx-4090", "--json")[1])
    assert answer["prediction"]["latency_s"] > by_preset["prediction"]["latency_s"]


def test_links_of_another_card_are_not_used(run_cli, monkeypatch, store):
    pretend_card(monkeypatch)
    node = build_fingerprint(kind=CARD, device="cuda:0", device_uuid="GPU-2")
    store.save_node(build_node_profile(node=node, links=build_card_links(5e9)))
    code, out, err = run_cli("simulate", "--model", "Qwen-Image")
    assert code == 0, err
    assert out.startswith("Estimated, not measured.")


def build_catalog_profile(kind, name="Qwen-Image", **changes):
    """A profile of a model of the catalog under its default request, in which every layer took a second."""
    facts = load_model_facts(name)
    fields = {
        "facts": with_measured_work(facts, 1.0),
        "facts_key": find_facts_key(name, facts.workload),
        "kind": kind,
        **one_piece_each(*dict.fromkeys(use.component for use in facts.request.uses)),
        "flops_per_s": {},
    }
    return build_model_profile(**(fields | changes))


def test_a_fresh_profile_of_this_model_and_card_is_found_and_used(run_cli, monkeypatch, store):
    pretend_card(monkeypatch)
    store.save_model(build_catalog_profile(CARD))
    code, out, err = run_cli("simulate", "--model", "Qwen-Image", "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert "compute of text_encoder, transformer and vae" in answer["prediction"]["source"]
    assert "Qwen-Image measured on" in answer["device"]
    assert "Links are datasheet figures" in words(*answer["notes"])
    assert answer["prediction"]["compute_s"] > 50 * 60


@pytest.mark.parametrize(
    ("changes", "arguments", "reason"),
    [
        ({"measured_at": OLD}, (), "it is 31 days old"),
        ({"options": RunOptions(compiled=True)}, (), "it was made with attention auto, autocast none, compiled"),
        ({}, ("--steps", "9"), "it is of another request"),
        ({"versions": {"diffusers": "0.1"}}, (), "diffusers changed from 0.1 to"),
    ],
)
def test_a_profile_that_is_not_valid_here_is_not_used_and_every_reason_is_told(
    changes, arguments, reason, run_cli, monkeypatch, store
):
    pretend_card(monkeypatch)
    store.save_model(build_catalog_profile(CARD, **changes))
    code, out, err = run_cli("simulate", "--model", "Qwen-Image", *arguments)
    assert code == 0, err
    assert out.startswith("Estimated, not measured.")
    assert reason in words(out)


def test_variants_are_compared_like_with_like(run_cli, monkeypatch, store, tmp_path):
    pretend_card(monkeypatch)
    store.save_model(build_catalog_profile(CARD, "H3"))
    store.save_node(
        build_node_profile(node=build_fingerprint(kind=CARD, device="cuda:0"), links=build_card_links(2e10))
    )
    arguments = ("--model", "H3", "--variant", "auto", "--trials", "0", "--max-prefetch", "1", "--no-advice")
    code, _, err = run_cli("search", *arguments, "--out", tmp_path / "run")
    assert code == 0, err
    document = load_plan(tmp_path / "run" / "plan.json")
    assert document.prediction.source.startswith("predicted from measurements (copies from pinned memory")
    assert any("so that like meets like" in finding for finding in document.findings)


def test_a_device_of_this_machine_is_planned_for_as_profiled(run_cli, store):
    store.save_model(build_catalog_profile(EMULATED, flops_per_s={"bfloat16": 1e14}))
    store.save_node(build_node_profile(links=build_card_links(5e9)))
    code, out, err = run_cli("simulate", "--model", "Qwen-Image", "--device", "emulated", "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["device"].startswith("emulated card, as profiled: Qwen-Image measured on")
    assert answer["host"].startswith("this machine's")


def pretend_card(monkeypatch):
    """This machine has an RTX 4090."""
    gpu = DetectedGpu(title=CARD.title, memory_bytes=CARD.memory_bytes, free_bytes=23 * 2**30, uuid="GPU-1")
    detection = Detection(gpu=gpu, reason="pretended")
    monkeypatch.setattr("autotune.workflows.inputs.probe_gpu", lambda: detection)
    monkeypatch.setattr("autotune.workflows.measured_inputs.detect_gpu", lambda _: detection)


def build_card_links(bytes_per_s):
    """Links that are slower than the preset's."""
    sizes = (2**20, 2**30)
    kinds = ("pinned_h2d", "pageable_h2d", "d2h")
    return tuple(build_link(kind, size, bytes_per_s) for kind in kinds for size in sizes)


def test_planning_from_measured_profiles_imports_no_torch(tmp_path):
    model = save(build_model_profile(), tmp_path / "model.json")
    node = save(build_node_profile(), tmp_path / "node.json")
    words_typed = ["autotune", "simulate", "--profile", model, "--node-profile", node, "--engine", "topup", "--json"]
    code = f"""
import sys
sys.argv = {list(map(str, words_typed))}
from autotune.cli.app import app
app(standalone_mode=False)
print("torch" in sys.modules, "diffusers" in sys.modules)
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == "False False"
