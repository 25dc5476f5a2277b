"""``autotune run``: plans that a search has saved, executed on the emulated device, and what stands in the way."""

import json
import shutil
import sys

import pytest
import torch

from runtime.measurement_document import load_measurement

VIRTUAL = ("--device", "emulated", "--clock", "virtual")


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory):
    """The folder of a small finished search."""
    folder = tmp_path_factory.mktemp("saved") / "run"
    with pytest.MonkeyPatch.context() as patch:
        arguments = ["search", "--model", "FLUX.1-dev", "--device", "rtx-5090", "--vram-cap", "16GiB", "--steps", "6"]
        options = ["--trials", "0", "--max-prefetch", "1", "--no-advice", "--out", str(folder)]
        patch.setattr("sys.argv", ["autotune", *arguments, *options])
        from autotune.cli import main  # noqa: PLC0415 - after the arguments are in place

        with pytest.raises(SystemExit, match="0"):
            main()
    return folder


@pytest.fixture
def run_folder(saved_run, tmp_path):
    """A copy of it."""
    return shutil.copytree(saved_run, tmp_path / "run")


def words(text):
    return " ".join(text.split())


def test_a_plan_takes_on_a_virtual_clock_exactly_what_was_predicted(run_folder, run_cli):
    code, out, err = run_cli("run", run_folder / "plan.json", *VIRTUAL, "--model", "FLUX.1")
    assert code == 0, err
    measurement = load_measurement(run_folder / "measurement.json")
    ratios = {item.quantity: item.ratio for item in measurement.comparisons}
    assert {"later request", "first request", "transformer", "steady pass of transformer", "peak weights"} <= set(
        ratios
    )
    assert all(ratio == pytest.approx(1, abs=2e-3) for ratio in ratios.values())
    assert ratios["later request"] == pytest.approx(1, abs=1e-4)
    assert out.startswith("Emulated under the engine")
    assert "what binds" in out
    assert "later request" in out
    assert f"Written to {run_folder / 'measurement.json'}" in words(out)


def test_the_result_is_printed_as_json_and_written_where_it_was_asked_for(run_folder, run_cli, tmp_path):
    folder = tmp_path / "new" / "folder"
    code, out, _ = run_cli(
        "run",
        run_folder / "plan.json",
        *VIRTUAL,
        "--json",
        "--out",
        folder,
        "--warmup",
        "2",
        "--repeats",
        "1",
        "--seed",
        "7",
    )
    assert code == 0
    printed = json.loads(out)
    assert printed == json.loads((folder / "measurement.json").read_text())
    assert (printed["warmup"], printed["repeats"], printed["seed"], printed["clock"]) == (2, 1, 7, "virtual")
    assert printed["command"].startswith("autotune run ")
    assert not (run_folder / "measurement.json").exists()


def test_the_real_clock_says_how_its_seconds_relate_to_those_of_the_wall(run_folder, run_cli):
    code, out, _ = run_cli(
        "run", run_folder / "plan.json", "--device", "emulated", "--time-scale", "0.02", "--repeats", "1"
    )
    measurement = load_measurement(run_folder / "measurement.json")
    assert code == 0
    assert (measurement.clock, measurement.time_scale) == ("real", 0.02)
    assert measurement.latency.median_s > 0.99 * measurement.comparisons[0].predicted
    assert "on the real clock, 0.02 wall seconds per emulated second" in words(out)


def test_more_memory_than_there_is_exits_with_3_and_writes_nothing(run_folder, run_cli):
    plan = run_folder / "plan.json"
    code, out, err = run_cli("run", plan, *VIRTUAL, "--vram-cap", "1GiB")
    assert code == 3
    assert "Device memory ran out" in err
    assert not out
    code, out, _ = run_cli("run", plan, *VIRTUAL, "--vram-cap", "1GiB", "--json")
    assert code == 3
    assert json.loads(out)["outcome"] == "does not fit"
    assert not (run_folder / "measurement.json").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_without_a_card_one_sentence_says_so(run_folder, run_cli):
    for arguments in ((), ("--device", "cuda:1")):
        code, out, err = run_cli("run", run_folder / "plan.json", *arguments)
        assert (code, out) == (4, "")
        assert "finds no CUDA device here" in err
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--device", "tpu"), "There is no device 'tpu'"),
        (("--device", "cuda:x"), "There is no device"),
        ((*VIRTUAL, "--model", "H3"), "--model is H3, and the plan is for FLUX.1-dev"),
        ((*VIRTUAL, "--model", "H4"), "unknown model 'H4'"),
        ((*VIRTUAL, "--profile", "missing.json"), "missing.json is not there"),
        ((*VIRTUAL, "--vram-cap", "24Gb"), "reads as bits"),
        ((*VIRTUAL, "--time-scale", "1"), "takes no time"),
        (("--device", "emulated", "--time-scale", "nan"), "--time-scale is nan"),
        (("--device", "emulated", "--clock", "sundial"), "sundial"),
        (("--device", "cuda", "--clock", "virtual"), "--clock only mean something with --device emulated"),
        ((*VIRTUAL, "--repeats", "0"), "--repeats"),
        ((*VIRTUAL, "--warmup", "0"), "--warmup"),
        ((*VIRTUAL, "--seed", "-1"), "--seed"),
        ((*VIRTUAL, "--out", "/dev/null"), "is no folder"),
        ((*VIRTUAL, "--out", "/proc/nowhere"), "cannot write to /proc/nowhere"),
    ],
)
def test_wrong_options_get_one_message(run_folder, run_cli, arguments, message):
    code, out, err = run_cli("run", run_folder / "plan.json", *arguments)
    assert (code, out) == (2, "")
    assert message in words(err)
    assert not (run_folder / "measurement.json").exists()


def change(path, **fields):
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | fields))


def test_a_plan_without_its_profile_says_what_to_name(run_folder, run_cli, saved_run):
    (run_folder / "profile.json").unlink()
    code, _, err = run_cli("run", run_folder / "plan.json", *VIRTUAL)
    assert code == 2
    assert "--profile" in err
    code, _, _ = run_cli("run", run_folder / "plan.json", *VIRTUAL, "--profile", saved_run / "profile.json")
    assert code == 0


@pytest.mark.parametrize("name", ["plan.json", "profile.json"])
@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b'{"format": "other"}', b"\xff\xfe\x00"])
def test_damaged_files_are_named(run_folder, run_cli, name, damage):
    (run_folder / name).write_bytes(damage)
    code, out, err = run_cli("run", run_folder / "plan.json", *VIRTUAL)
    assert (code, out) == (2, "")
    assert name in err
    assert not (run_folder / "measurement.json").exists()


def test_a_plan_for_an_unknown_engine_or_another_version_is_refused(run_folder, run_cli):
    plan = run_folder / "plan.json"
    change(plan, plan=json.loads(plan.read_text())["plan"] | {"engine": "sglang@0.6.0"})
    code, _, err = run_cli("run", plan, *VIRTUAL)
    assert code == 4
    assert "sglang@0.6.0" in err
    change(plan, version=9)
    code, _, err = run_cli("run", plan, *VIRTUAL)
    assert code == 2
    assert "version 9" in err
    code, _, err = run_cli("run", run_folder / "missing.json", *VIRTUAL)
    assert code == 2
    assert "cannot read the plan" in err


def test_a_profile_of_another_request_is_refused(run_folder, run_cli):
    profile = run_folder / "profile.json"
    document = json.loads(profile.read_text())
    document["facts"]["request"]["uses"][0]["purpose"] = "another"
    profile.write_text(json.dumps(document))
    code, _, err = run_cli("run", run_folder / "plan.json", *VIRTUAL)
    assert code == 2
    assert "another request" in err


def test_a_folder_with_a_measurement_is_still_that_of_a_run(run_folder, run_cli):
    assert run_cli("run", run_folder / "plan.json", *VIRTUAL, "--repeats", "1")[0] == 0
    code, _, _ = run_cli(
        "search", "--profile", run_folder / "profile.json", "--trials", "0", "--max-prefetch", "1", "--no-advice",
        "--out", run_folder, "--overwrite",
    )  # fmt: skip
    assert code == 0
    assert not (run_folder / "measurement.json").exists()


def test_a_full_disk_leaves_the_measurement_of_before(run_folder, run_cli, monkeypatch):
    assert run_cli("run", run_folder / "plan.json", *VIRTUAL, "--repeats", "1")[0] == 0
    before = (run_folder / "measurement.json").read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    code, _, err = run_cli("run", run_folder / "plan.json", *VIRTUAL, "--repeats", "2")
    assert code == 2
    assert "No space left on device" in err
    monkeypatch.undo()
    assert (run_folder / "measurement.json").read_bytes() == before
    assert not [path for path in run_folder.iterdir() if path.name.startswith(".layerstream")]


def test_a_missing_package_is_named(run_folder, run_cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [
        name for name in sys.modules if name.startswith(("autotune.workflows.emul", "autotune.workflows.exec"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    code, _, err = run_cli("run", run_folder / "plan.json", *VIRTUAL)
    assert code == 5
    assert "torch is not installed" in err
