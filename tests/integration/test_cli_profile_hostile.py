"""Profiles, stores and machines that want to break the program: one message or an answer, and nothing is lost."""

import json
import os

import pytest
from builders import build_component, build_facts
from profile_builders import build_model_profile, build_node_profile, save

from autotune.measurements.store import ProfileStore


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
