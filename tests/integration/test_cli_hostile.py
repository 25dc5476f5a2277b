"""Input that wants to break the program: one message, a non-zero exit, nothing lost, nothing half-written."""

import copy
import json
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory):
    """A small finished run: its files as parsed JSON."""
    folder = tmp_path_factory.mktemp("saved") / "run"
    with pytest.MonkeyPatch.context() as patch:
        arguments = ["search", "--model", "Qwen-Image", "--device", "rtx-4090", "--trials", "0", "--max-prefetch", "1"]
        arguments += ["--no-advice"]
        patch.setattr("sys.argv", ["autotune", *arguments, "--out", str(folder)])
        from autotune.cli import main  # noqa: PLC0415 - after the arguments are in place

        with pytest.raises(SystemExit, match="0"):
            main()
    return folder


def plan_from(run_cli, profile, tmp_path, *arguments):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(profile))
    return run_cli("search", "--profile", path, "--trials", "0", "--max-prefetch", "1", "--no-advice", *arguments)


def with_change(document, keys, value):
    changed = copy.deepcopy(document)
    place = changed
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return changed


def test_overwrite_never_deletes_a_file_that_is_not_of_a_run(saved_run, run_cli, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "plan.json").write_text("{}")
    (folder / "mine.txt").write_text("keep me")
    code, _, err = run_cli(
        "search", "--profile", saved_run / "profile.json", "--trials", "0", "--out", folder, "--overwrite"
    )
    assert code == 2
    assert "mine.txt" in err
    assert (folder / "mine.txt").read_text() == "keep me"


def test_a_link_is_written_through_and_stays_a_link(saved_run, run_cli, tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    code, _, _ = run_cli(
        "search", "--profile", saved_run / "profile.json", "--trials", "0", "--max-prefetch", "1", "--out", link
    )
    assert code == 0
    assert link.is_symlink()
    assert (real / "plan.json").exists()


def test_a_link_rate_replaces_the_figure_and_its_source(saved_run, run_cli, tmp_path):
    code, _, _ = run_cli(
        "search", "--profile", saved_run / "profile.json", "--link-rate", "5GB/s", "--trials", "0", "--max-prefetch",
        "1", "--out", tmp_path / "slow",
    )  # fmt: skip
    assert code == 0
    figure = json.loads((tmp_path / "slow" / "plan.json").read_text())["device"]["figures"]["pinned_bytes_per_s"]
    assert figure == {"value": 5e9, "unit": "bytes/s", "source": "given by the user"}


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("facts", "model", "components", 0, "rest_run_bytes"), -(10**12)),
        (("facts", "model", "components", 0, "rest_run_bytes"), 2**63),
        (("facts", "model", "components", 0, "name"), "vae"),
        (("facts", "model", "components"), []),
        (("facts", "request", "uses"), []),
        (("facts", "request", "uses", 0, "groups", 0, "stacks"), ["nowhere"]),
        (("facts", "request", "uses", 0, "groups", 0, "passes"), 10**9),
        (("facts", "work", 0, "activation_bytes"), -1),
        (("facts", "work", 0, "outside", "matmul_flops"), -1e20),
        (("facts", "work", 0, "outside", "matmul_flops"), 1e308),
        (("facts", "work", 0, "compute_dtype"), "float7"),
        (("facts", "output_frames_bytes"), -5),
        (("facts", "workload", "width"), 10**30),
        (("context_bytes",), -(10**12)),
        (("device", "usable_vram_bytes"), -1),
        (("rates", "pinned_bytes_per_s"), 1e-300),
        (("rates", "attention_flops_per_s"), {}),
        (("version",), 9),
    ],
)
def test_a_profile_with_an_impossible_figure_is_refused(saved_run, run_cli, tmp_path, keys, value):
    profile = json.loads((saved_run / "profile.json").read_text())
    code, out, err = plan_from(run_cli, with_change(profile, keys, value), tmp_path, "--out", tmp_path / "run")
    assert code == 2
    assert "profile.json" in err
    assert not out
    assert not (tmp_path / "run").exists()


def test_a_model_name_cannot_choose_where_a_run_is_written(saved_run, run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    profile = json.loads((saved_run / "profile.json").read_text())
    code, _, _ = plan_from(run_cli, with_change(profile, ("facts", "model", "name"), "a/../../../escape\n"), tmp_path)
    assert code == 0
    assert next(tmp_path.rglob("plan.json")).parent.parent == tmp_path / "runs"


def test_a_stack_too_long_to_search_is_refused_at_once(saved_run, run_cli, tmp_path):
    profile = json.loads((saved_run / "profile.json").read_text())
    for component in profile["facts"]["model"]["components"]:
        if component["name"] == "transformer":
            component["stacks"][0]["layers"] *= 100
    for work in profile["facts"]["work"]:
        if work["component"] == "transformer":
            for group in work["groups"]:
                for name in group["layers"]:
                    group["layers"][name] *= 100
    code, _, err = plan_from(run_cli, profile, tmp_path, "--out", tmp_path / "run")
    assert code == 4
    assert "placements" in err


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("workload", "width"), "abc"),
        (("workload", "recipe"), 3),
        (("prediction", "phases"), []),
        (("prediction", "latency_s"), -1),
        (("host", "memory_bytes"), -1),
        (("cap", "effective_bytes"), -1),
        (("plan", "engine"), "sglang@$(x)\n"),
    ],
)
def test_a_plan_with_an_impossible_figure_is_refused(saved_run, run_cli, tmp_path, keys, value):
    plan = json.loads((saved_run / "plan.json").read_text())
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(with_change(plan, keys, value)))
    for command in ("explain", "export"):
        code, _, err = run_cli(command, path)
        assert code == 2
        assert "plan.json" in err


def test_text_in_brackets_is_text_and_no_markup(saved_run, run_cli, tmp_path):
    plan = json.loads((saved_run / "plan.json").read_text())
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(with_change(plan, ("comparisons", 0, "name"), "[/x]")))
    code, out, _ = run_cli("explain", path)
    assert code == 0
    assert "[/x]" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--vram-cap", "9" * 400 + "GiB"),
        ("--vram-cap", "9" * 5000),
        ("--link-rate", "12"),
        ("--link-rate", "1B/s"),
        ("--seed", str(2**32)),
        ("--width", str(10**31)),
        ("--batch", str(10**15)),
        ("--prompt-tokens", str(10**20)),
        ("--model-path", "--help"),
        ("--target", "sglang@9.9.9"),
        ("--out", "x" * 300),
        ("--out", "/proc/nowhere/run"),
    ],
)
def test_extreme_options_are_refused(arguments, run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_cli("search", "--model", "Qwen-Image", "--trials", "1", *arguments)
    assert code == 2
    assert err.count("\n") < 12
    assert not list(tmp_path.iterdir())


def test_typing_a_model_beside_a_profile_is_a_contradiction(saved_run, run_cli, tmp_path):
    code, _, err = run_cli("search", "--profile", saved_run / "profile.json", "--model", "H3", "--out", tmp_path / "x")
    assert code == 2
    assert "--model" in err


FAKE_NVML = """
class NVMLError(Exception):
    pass
class _Memory:
    total, free, used = {total}, {free}, {used}
def nvmlInit():
    {init}
def nvmlShutdown():
    raise OSError("gone")
def nvmlDeviceGetCount():
    return {count}
def nvmlDeviceGetHandleByIndex(index):
    return index
def nvmlDeviceGetName(handle):
    return {names}[handle]
def nvmlDeviceGetMemoryInfo(handle):
    return _Memory
"""

GIB24 = 24_564 * 2**20


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"init": "raise OSError('broken driver')"}, 0, "broken driver"),
        ({"count": "0"}, 0, "the driver lists no card"),
        ({"total": "0", "free": "0"}, 0, "(nvmlDeviceGetMemoryInfo reports no memory of the device)"),
        ({"free": "-5"}, 0, "(nvmlDeviceGetMemoryInfo reports no memory of the device)"),
        ({"used": "2**50"}, 0, "(nvmlDeviceGetMemoryInfo reports figures that exceed the total)"),
        ({"count": "2", "names": "[b'NVIDIA GeForce RTX 4090', 'NVIDIA L40S']"}, 2, "or name a kind with --device"),
        ({"names": "['NVIDIA GeForce RTX 9999']"}, 2, "name the nearest one with --device"),
        ({"names": "[b'NVIDIA GeForce RTX 4090']"}, 0, "found on this machine"),
    ],
)
def test_whatever_the_driver_says_is_an_answer_or_no_gpu(changes, code, message, run_cli, tmp_path, monkeypatch):
    settings = {
        "init": "pass",
        "count": "1",
        "total": str(GIB24),
        "free": str(20 * 2**30),
        "used": str(2**30),
        "names": "['NVIDIA GeForce RTX 4090']",
    }
    (tmp_path / "pynvml.py").write_text(FAKE_NVML.format(**(settings | changes)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found, out, err = run_cli("simulate", "--model", "Qwen-Image")
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    assert found == code
    assert message in " ".join((out + err).split())
    if message == "found on this machine":
        assert "20.00 GiB: what is free" in " ".join(out.split())
        assert "this machine's" in " ".join(out.split())


START = "import sys; sys.argv[0] = 'autotune'; from autotune.cli import main; main()"


def test_a_full_output_ends_in_a_message():
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        finished = subprocess.run(
            [sys.executable, "-c", START, "models"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert finished.returncode == 1
    assert "Traceback" not in finished.stderr
    assert "cannot write the output" in finished.stderr


def test_a_closed_output_ends_without_a_traceback():
    shell = f'"{sys.executable}" -c "{START}" models >&-'
    finished = subprocess.run(["sh", "-c", shell], stderr=subprocess.PIPE, text=True, check=False)
    assert finished.returncode in {0, 1}
    assert "Traceback" not in finished.stderr
