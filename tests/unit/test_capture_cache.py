"""The cache answers only for the request it was made for, and never with a damaged file."""

import dataclasses
import json
import subprocess
import sys

import pytest

from autotune import capture_cache
from autotune.capture_cache import (
    compute_cache_key,
    compute_source_digest,
    find_cache_dir,
    load_model_facts,
    read_library_versions,
)
from autotune.catalog.registry import find_model
from autotune.catalog.variants import Variant
from runtime.errors import InputError, MissingDependencyError

WARM_START = """
import sys, time
started_s = time.perf_counter()
from autotune.capture_cache import load_model_facts
facts = load_model_facts("FLUX.1-dev")
print(facts.model.name, "torch" in sys.modules, time.perf_counter() - started_s < 3.0)
"""


@pytest.fixture(scope="module")
def real_facts(tmp_path_factory):
    """FLUX.1-dev read from its classes once, and the directory that holds its cache file."""
    directory = tmp_path_factory.mktemp("facts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(capture_cache.CACHE_DIR_VARIABLE, str(directory))
        return load_model_facts("FLUX.1-dev"), directory


@pytest.fixture
def cache(tmp_path, monkeypatch, real_facts):
    """An empty cache and a count of captures, which answer with the real facts."""
    monkeypatch.setenv(capture_cache.CACHE_DIR_VARIABLE, str(tmp_path))
    captures = []

    def capture(entry, settled, notify):
        captures.append(settled.workload)
        return dataclasses.replace(real_facts[0], workload=settled.workload)

    monkeypatch.setattr(capture_cache, "_capture", capture)
    return tmp_path, captures


def only_file(directory):
    (path,) = directory.iterdir()
    return path


def test_second_call_is_answered_from_disk_with_equal_facts(cache):
    directory, captures = cache
    first = load_model_facts("FLUX.1-dev")
    assert load_model_facts("black-forest-labs/flux.1-dev") == first
    assert len(captures) == 1
    assert only_file(directory).name.startswith("FLUX.1-dev-")


def test_facts_carry_the_versions_they_depend_on(cache):
    assert load_model_facts("FLUX.1-dev").versions == read_library_versions()


def test_refresh_reads_the_classes_again(cache):
    load_model_facts("FLUX.1-dev")
    load_model_facts("FLUX.1-dev", refresh=True)
    assert len(cache[1]) == 2


def test_another_workload_is_another_file(cache):
    default = find_model("FLUX.1-dev").default_workload
    load_model_facts("FLUX.1-dev", default)
    load_model_facts("FLUX.1-dev", dataclasses.replace(default, steps=20))
    assert len(cache[1]) == len(list(cache[0].iterdir())) == 2


def test_workloads_that_the_server_rounds_to_one_share_their_work_but_not_their_notes(cache):
    default = find_model("FLUX.1-dev").default_workload
    odd = dataclasses.replace(default, width=1030)
    assert load_model_facts("FLUX.1-dev", odd).workload == default


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda _: "",
        lambda _: "[1, 2]",
        lambda text: text.replace("23802816640", "23802816641").replace('"passes":50', '"passes":51'),
        lambda text: json.dumps({**json.loads(text), "key": "another request"}),
        lambda text: json.dumps({**json.loads(text), "facts": {}}),
    ],
    ids=["truncated", "empty", "foreign", "altered", "other key", "no facts"],
)
def test_unusable_file_is_announced_and_rebuilt(cache, damage):
    directory, captures = cache
    facts = load_model_facts("FLUX.1-dev")
    path = only_file(directory)
    path.write_text(damage(path.read_text()))
    said = []
    assert load_model_facts("FLUX.1-dev", progress=said.append) == facts
    assert len(captures) == 2
    assert any("ignoring the cache file" in sentence for sentence in said)
    assert load_model_facts("FLUX.1-dev") == facts
    assert len(captures) == 2


def test_file_with_impossible_facts_is_rebuilt(cache):
    facts = load_model_facts("FLUX.1-dev")
    path = only_file(cache[0])
    wrong = json.loads(path.read_text())
    wrong["facts"]["work"] = []
    encoded = json.dumps(wrong["facts"])
    digest = capture_cache.hashlib.sha256(encoded.encode()).hexdigest()
    path.write_text(f'{{"key": "{wrong["key"]}", "facts_sha256": "{digest}", "facts": {encoded}}}')
    said = []
    assert load_model_facts("FLUX.1-dev", progress=said.append) == facts
    assert "ignoring" in said[0]


def test_variant_is_derived_from_the_cached_facts_of_the_released_model(cache, monkeypatch):
    directory, captures = cache
    variant = Variant(name="half", title="half the steps", flags=("--half",), same_output=False)
    entry = dataclasses.replace(
        find_model("FLUX.1-dev"),
        variants=(variant,),
        derive=lambda facts, name: dataclasses.replace(facts, output_frames_bytes=len(name)),
    )
    monkeypatch.setattr(capture_cache, "find_model", lambda name: entry)
    released, derived = load_model_facts("FLUX.1-dev"), load_model_facts("FLUX.1-dev", variant="Half")
    assert (released.variant, derived.variant, derived.output_frames_bytes) == ("", "half", 4)
    assert derived.notes[-1] == "variant half: half the steps; "
    assert len(captures) == len(list(directory.iterdir())) == 1


def test_unknown_variant_is_refused_before_anything_is_read(cache):
    with pytest.raises(InputError, match=r"FLUX\.1-dev has no variant 'fp8'"):
        load_model_facts("FLUX.1-dev", variant="fp8")
    assert not cache[1]


def test_unwritable_directory_costs_a_notice_not_the_answer(cache, monkeypatch, tmp_path):
    blocker = tmp_path / "a-file"
    blocker.write_text("")
    monkeypatch.setenv(capture_cache.CACHE_DIR_VARIABLE, str(blocker / "inside"))
    said = []
    assert load_model_facts("FLUX.1-dev", progress=said.append).model.name == "FLUX.1-dev"
    assert any("could not keep" in sentence for sentence in said)


def test_only_whole_files_are_left_behind(cache):
    load_model_facts("FLUX.1-dev")
    assert [path.suffix for path in cache[0].iterdir()] == [".json"]


def test_key_depends_on_model_configuration_workload_and_versions():
    entry = find_model("H3")
    settled = entry.settle(entry.default_workload)
    versions = {"torch": "1", "diffusers": "1", "transformers": "1"}
    key = compute_cache_key(entry, settled, versions)
    assert key == compute_cache_key(entry, settled, dict(reversed(versions.items())))
    changed = [
        (dataclasses.replace(entry, name="H4"), settled, versions),
        (dataclasses.replace(entry, configs={**entry.configs, "transformer": {"num_layers": 49}}), settled, versions),
        (entry, entry.settle(dataclasses.replace(entry.default_workload, recipe="exact")), versions),
        (entry, settled, {**versions, "diffusers": "2"}),
    ]
    assert len({key, *(compute_cache_key(*inputs) for inputs in changed)}) == 5


def test_source_digest_follows_the_capture_code(tmp_path):
    for name in ("autotune/capture.py", "autotune/catalog/flux.py", "runtime/model_spec.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a = 1\n")
    before = compute_source_digest(tmp_path)
    (tmp_path / "autotune/unrelated.py").write_text("b = 2\n")
    assert compute_source_digest(tmp_path) == before
    (tmp_path / "autotune/catalog/flux.py").write_text("a = 2\n")
    assert compute_source_digest(tmp_path) != before


def test_missing_library_is_named_with_the_extra_to_install(monkeypatch):
    monkeypatch.setattr(capture_cache, "LIBRARIES", ("torch", "no-such-library"))
    with pytest.raises(
        MissingDependencyError, match=r"no-such-library is not installed.*layerstream-autotune\[models\]"
    ):
        load_model_facts("FLUX.1-dev")


def test_library_that_cannot_be_imported_is_a_missing_dependency(tmp_path, monkeypatch):
    def capture(settled, progress):
        raise ModuleNotFoundError("No module named 'diffusers.models'", name="diffusers.models")

    entry = dataclasses.replace(find_model("H3"), capture=capture)
    monkeypatch.setenv(capture_cache.CACHE_DIR_VARIABLE, str(tmp_path))
    monkeypatch.setattr(capture_cache, "find_model", lambda name: entry)
    with pytest.raises(MissingDependencyError, match=r"install layerstream-autotune\[models\]"):
        load_model_facts("H3")


def test_impossible_request_is_refused_before_anything_is_read(cache):
    default = find_model("H3").default_workload
    with pytest.raises(InputError, match="no canvas"):
        load_model_facts("H3", dataclasses.replace(default, width=1000))
    assert not cache[1]


def test_cache_lies_in_the_user_cache_unless_the_environment_says_otherwise(monkeypatch, tmp_path):
    monkeypatch.setenv(capture_cache.CACHE_DIR_VARIABLE, str(tmp_path))
    assert find_cache_dir() == tmp_path
    monkeypatch.delenv(capture_cache.CACHE_DIR_VARIABLE)
    assert find_cache_dir().name == "layerstream-autotune"


def test_warm_start_imports_no_torch(real_facts, monkeypatch):
    monkeypatch.setenv(capture_cache.CACHE_DIR_VARIABLE, str(real_facts[1]))
    result = subprocess.run([sys.executable, "-c", WARM_START], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["FLUX.1-dev", "False", "True"]
