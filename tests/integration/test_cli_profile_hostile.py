"""Profiles, stores and machines that want to break the program: one message or an answer, and nothing is lost."""

import json
import os
import shlex
from dataclasses import asdict

import pytest
import typer
from builders import build_component, build_facts
from profile_builders import CARD, build_model_profile, build_node_profile, save

from autotune.catalog.registry import find_model
from autotune.cli.app import app
from autotune.detect import DetectedGpu, Detection
from autotune.measurements.store import ProfileStore
from autotune.workflows.measured_inputs import Request
from autotune.workload import Recipe, Workload


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """An empty store."""
    monkeypatch.setenv("AUTOTUNE_PROFILE_DIR", str(tmp_path / "store"))
    return ProfileStore(tmp_path / "store")


def test_a_store_whose_name_is_no_text_is_listed_with_escapes(run_cli, tmp_path, monkeypatch):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    monkeypatch.setenv("AUTOTUNE_PROFILE_DIR", folder)
    path = ProfileStore(tmp_path / os.path.basename(folder)).save_node(build_node_profile())  # noqa: PTH119
    code, out, _ = run_cli("profile", "show", "--json")
    assert code == 0
    assert json.loads(out)[0]["file"] == str(tmp_path / "caf\\udce9" / path.name)


@pytest.mark.parametrize(
    "changes",
    [{"pieces": []}, {"components": []}, {"pieces": [], "components": []}, {"components": ["transformer", "vae"]}],
    ids=str,
)
def test_a_profile_whose_pieces_are_not_of_what_it_says_was_profiled_is_refused(changes, run_cli, tmp_path):
    facts = build_facts({"vae": build_component(1), "transformer": build_component(1, is_dit=True)})
    path = save(build_model_profile(facts=facts), tmp_path / "model.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    for command in (("profile", "show", path), ("profile", "diff", path, path), ("simulate", "--profile", path)):
        code, _, err = run_cli(*command)
        assert code == 2
        assert "pieces of other components than it says were profiled" in err


def test_the_command_that_is_suggested_is_one_that_can_be_typed():
    entry = find_model("Wan2.1-T2V-1.3B")
    workload = Workload(width=320, height=320, frames=5, steps=3, prompt_tokens=7, batch=2, recipe=Recipe.EXACT)
    program, *typed = shlex.split(Request(entry=entry, workload=workload, variant="x").command("cuda:1").strip("`"))
    assert (program, typed[0]) == ("autotune", "profile")
    parameters = typer.main.get_command(app).commands["profile"].make_context("profile", typed[1:]).params
    assert (parameters["model"], parameters["device"]) == (entry.name, "cuda:1")
    assert {name: parameters[name] for name in Workload.__dataclass_fields__} == asdict(workload)


def test_where_no_variant_is_profiled_that_is_said_beside_what_is_missing(run_cli, monkeypatch):
    gpu = DetectedGpu(title=CARD.title, memory_bytes=CARD.memory_bytes, free_bytes=CARD.memory_bytes)
    for place in ("autotune.workflows.inputs.probe_gpu", "autotune.workflows.measured_inputs.detect_gpu"):
        monkeypatch.setattr(place, lambda *_: Detection(gpu=gpu, reason="a test says so"))
    code, out, err = run_cli("simulate", "--model", "H3", "--variant", "adaln-online")
    assert code in {0, 3}
    assert "variants of a model are not profiled" in " ".join((out + err).split())


def test_a_file_name_that_no_system_takes_is_not_taken_for_trouble_with_the_output(run_cli, tmp_path):
    plan = ("search", "--model", "Qwen-Image", "--device", "rtx-4090", "--trials", "0", "--max-prefetch", "1")
    assert run_cli(*plan, "--out", tmp_path / "run")[0] == 0
    code, _, err = run_cli("run", tmp_path / "run" / "plan.json", "--device", "emulated", "--profile", "x" * 300)
    assert code == 1
    assert "cannot use 'xxx" in err
    assert "output" not in err


@pytest.mark.parametrize("variable", ["AUTOTUNE_PROFILE_DIR", "AUTOTUNE_CACHE_DIR"])
def test_a_user_without_a_home_is_told_which_variable_names_a_folder(variable, run_cli, monkeypatch):
    def fail(_):
        raise RuntimeError("could not determine the home directory")

    for name in ("user_data_dir", "user_cache_dir"):
        monkeypatch.setattr(f"platformdirs.{name}", fail)
    monkeypatch.delenv(variable)
    command = ("profile", "show") if "PROFILE" in variable else ("simulate", "--model", "Qwen-Image")
    code, _, err = run_cli(*command)
    assert code == 2
    assert f"name a folder with {variable}" in err
