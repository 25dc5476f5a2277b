"""Profiles, stores and machines that want to break the program: one message or an answer, and nothing is lost."""

import json
import os

import pytest
from profile_builders import build_model_profile, build_node_profile

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
