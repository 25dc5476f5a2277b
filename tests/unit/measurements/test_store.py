"""Where profiles are kept, and which one is found."""

from dataclasses import replace
from datetime import timedelta

import pytest
from profile_builders import CARD, NOW, build_fingerprint, build_model_profile, build_node_profile

from autotune.measurements.model_profile import RunOptions
from autotune.measurements.store import ProfileStore, find_profile_dir
from autotune.measurements.validity import ModelWish
from runtime.errors import ProfileError

FRESH = build_model_profile(measured_at=NOW.isoformat())


def aged(profile, days):
    return replace(profile, measured_at=(NOW - timedelta(days=days)).isoformat())


def test_what_was_saved_is_found_again(tmp_path):
    store = ProfileStore(tmp_path / "new" / "folder")
    path = store.save_model(FRESH)
    found = store.find_model(ModelWish(model="toy"), NOW)
    assert found.found is not None
    assert found.found.path == path
    assert found.found.profile == FRESH


def test_a_later_measurement_takes_the_place_of_an_earlier_one(tmp_path):
    store = ProfileStore(tmp_path)
    assert store.save_model(aged(FRESH, 3)) == store.save_model(FRESH)
    assert len(store.list_models()) == 1


def test_the_freshest_valid_one_is_taken(tmp_path):
    store = ProfileStore(tmp_path)
    for days, version in ((0, "2.14"), (2, "2.13"), (1, "2.12")):
        store.save_model(replace(aged(FRESH, days), versions={"torch": version}))
    found = store.find_model(ModelWish(model="toy", versions={"torch": "2.13"}), NOW)
    assert found.found is not None
    assert found.found.profile.versions == {"torch": "2.13"}
    assert [item.profile.versions["torch"] for item in store.list_models()] == ["2.14", "2.12", "2.13"]


def test_where_none_is_valid_the_nearest_one_says_why(tmp_path):
    store = ProfileStore(tmp_path)
    store.save_model(replace(FRESH, kind=CARD, options=RunOptions(compiled=True)))
    store.save_model(aged(FRESH, 40))
    found = store.find_model(ModelWish(model="toy", kind=FRESH.kind, options=RunOptions()), NOW)
    assert found.found is None
    assert len(found.verdict.reasons) == 1
    assert "40 days old" in found.verdict.reasons[0]
    assert store.find_model(ModelWish(model="H3"), NOW).nearest is None


def test_a_node_is_found_by_its_fingerprint_and_never_from_another_machine(tmp_path):
    store = ProfileStore(tmp_path)
    here = build_fingerprint(kind=CARD, device_uuid="GPU-1")
    for node in (replace(here, machine="other"), replace(here, device_uuid="GPU-2"), here):
        store.save_node(build_node_profile(node=node, measured_at=NOW.isoformat()))
    found = store.find_node(here, {}, NOW)
    assert found.found is not None
    assert found.found.profile.node == here
    assert store.find_node(replace(here, machine="third"), {}, NOW).nearest is None


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"format": "layerstream-model-profile", "version": 2}'])
def test_a_damaged_file_is_passed_over_and_named(content, tmp_path):
    store = ProfileStore(tmp_path)
    store.save_model(FRESH)
    (tmp_path / "model-bad.json").write_bytes(content)
    (tmp_path / "node-folder.json").mkdir()
    assert len(store.list_models()) == 1
    assert store.list_nodes() == ()
    assert ["model-bad.json" in problem or "node-folder.json" in problem for problem in store.problems] == [True] * 2


def test_a_store_that_is_not_there_is_empty_and_one_that_cannot_be_written_says_so(tmp_path):
    assert ProfileStore(tmp_path / "nowhere").list_models() == ()
    (tmp_path / "file").write_text("")
    with pytest.raises(ProfileError, match="AUTOTUNE_PROFILE_DIR"):
        ProfileStore(tmp_path / "file").save_model(FRESH)


@pytest.mark.parametrize("name", ["file", "file/below", "x" * 300])
def test_a_store_that_cannot_be_read_is_not_taken_for_an_empty_one(name, tmp_path):
    (tmp_path / "file").touch()
    store = ProfileStore(tmp_path / name)
    assert store.list_models() == store.list_nodes() == ()
    assert ["cannot be read" in problem for problem in store.problems] == [True]


def test_the_folder_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("AUTOTUNE_PROFILE_DIR", str(tmp_path))
    assert find_profile_dir() == tmp_path
    monkeypatch.delenv("AUTOTUNE_PROFILE_DIR")
    assert "layerstream-autotune" in str(find_profile_dir())


def test_names_of_models_become_safe_names_of_files(tmp_path):
    facts = replace(FRESH.facts, model=replace(FRESH.facts.model, name="../../evil name"))
    path = ProfileStore(tmp_path).save_model(replace(FRESH, facts=facts))
    assert path.parent == tmp_path
    assert ProfileStore(tmp_path).list_models()[0].profile.facts.model.name == "../../evil name"
