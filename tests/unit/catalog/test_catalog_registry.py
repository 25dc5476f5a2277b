"""Names of catalog models."""

import subprocess
import sys

import pytest

from autotune.catalog.registry import CATALOG, find_model, list_model_names
from runtime.errors import InputError


def test_catalog_lists_its_models():
    assert set(list_model_names()) >= {"H3", "Qwen-Image", "FLUX.1-dev", "Z-Image-Turbo", "HunyuanVideo"}
    assert list_model_names()[0] == "H3"


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("H3", "H3"),
        ("minimax-h3", "H3"),
        ("MiniMaxAI/MiniMax-H3", "H3"),
        ("qwen-IMAGE", "Qwen-Image"),
        ("Qwen/Qwen-Image", "Qwen-Image"),
        (" flux.1-DEV ", "FLUX.1-dev"),
        ("black-forest-labs/FLUX.1-dev", "FLUX.1-dev"),
        ("Tongyi-MAI/Z-Image-Turbo", "Z-Image-Turbo"),
        ("hunyuanvideo-community/hunyuanvideo", "HunyuanVideo"),
    ],
)
def test_model_is_found_by_any_of_its_names_in_any_case(spelling, name):
    assert find_model(spelling).name == name


def test_unknown_model_is_refused_with_the_names_and_the_closest_one():
    with pytest.raises(InputError, match=r"'Qwen-Imgae' \(did you mean Qwen-Image\?\).*H3, Qwen-Image, FLUX\.1-dev"):
        find_model("Qwen-Imgae")


def test_name_like_no_other_is_refused_without_a_guess():
    with pytest.raises(InputError, match=r"unknown model 'xyzzy': the catalog has"):
        find_model("xyzzy")


def test_no_two_models_share_a_name():
    names = [name.casefold() for entry in CATALOG for name in entry.names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.name)
def test_every_component_names_the_source_of_its_configuration(entry):
    for component in entry.configs:
        assert any(source.startswith(f"{component}:") for source in entry.sources)


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.name)
def test_default_workload_is_one_that_the_server_runs_as_it_is(entry):
    assert entry.settle(entry.default_workload).workload == entry.default_workload


def test_listing_models_imports_no_model_library():
    program = (
        "import sys; from autotune.catalog.registry import find_model; find_model('H3').settle("
        "find_model('H3').default_workload); print({'torch', 'diffusers', 'transformers'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
