"""What the package promises to callers from Python."""

import importlib
import inspect
import subprocess
import sys

import pytest

import autotune

PUBLIC = {
    "NothingFits": "autotune.workflows.planned",
    "Run": "autotune.planner",
    "collect_run": "autotune.workflows.run_collection",
    "execute": "autotune.planner",
    "save": "autotune.planner",
    "search": "autotune.planner",
    "validate": "autotune.planner",
}


def test_the_package_exports_these_names_and_no_others():
    assert autotune.__all__ == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_what_its_module_defines_and_says_what_it_is(name):
    found = getattr(autotune, name)
    assert found is getattr(importlib.import_module(PUBLIC[name]), name)
    assert inspect.getdoc(found)


def test_any_other_name_is_refused():
    with pytest.raises(AttributeError, match="module 'autotune' has no attribute 'plan_everything'"):
        autotune.plan_everything  # noqa: B018 - the access is the test


def test_importing_the_package_imports_nothing_else():
    code = "import sys, autotune; print([name for name in sys.modules if name.startswith('autotune.')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_search_takes_these_arguments_all_by_name():
    parameters = inspect.signature(autotune.search).parameters
    assert {parameter.kind for parameter in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert list(parameters) == [
        *("model", "device", "vram_cap", "host_memory", "disk_rate", "page_cache_room", "pin_cpu_memory", "link_rate"),
        *("variant", "width", "height", "frames", "steps", "prompt_tokens", "batch", "recipe", "engine"),
        *("peak_quantile", "max_prefetch", "tie_ratio", "fix", "advice", "trials", "name"),
    ]
