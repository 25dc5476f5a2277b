"""What a process imports: planning from a saved profile needs no torch, the runtime needs next to nothing."""

import subprocess
import sys
import textwrap

import pytest

import runtime


def run_python(code, *arguments):
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


BLOCK = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "optuna", "pandas", "numpy", "diffusers", "transformers", "matplotlib"}:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
"""


def test_runtime_works_without_torch_optuna_pandas_and_diffusers():
    out = run_python(
        BLOCK
        + """
import runtime
from runtime.engines.registry import find_engine
plan = runtime.Plan(engine="topup", placements=(runtime.Placement(component="a", mode=runtime.Mode.RESIDENT),))
print(find_engine("topup").name, plan.placement("a").mode, runtime.load_plan.__name__)
"""
    )
    assert out.split() == ["topup", "resident", "load_plan"]


def test_reports_import_neither_torch_nor_optuna():
    out = run_python(
        """
        import sys
        import reports.page.html, reports.page.markdown, reports.page.pdf, reports.simulation
        print(sorted({"torch", "optuna", "matplotlib.pyplot"} & set(sys.modules)))
        """
    )
    assert out.strip() == "[]"


def test_planning_from_a_saved_profile_imports_no_torch(run_cli, tmp_path):
    code, _, _ = run_cli(
        "search", "--model", "Qwen-Image", "--device", "rtx-4090", "--trials", "0", "--out", tmp_path / "first"
    )
    assert code == 0
    out = run_python(
        """
        import sys
        profile, folder = sys.argv[1:]
        sys.argv = ["autotune", "search", "--profile", profile, "--trials", "5", "--out", folder]
        from autotune.cli.app import app
        app(standalone_mode=False)
        print("torch" in sys.modules, "diffusers" in sys.modules)
        """,
        tmp_path / "first" / "profile.json",
        tmp_path / "second",
    )
    assert out.splitlines()[-1] == "False False"
    assert (tmp_path / "second" / "plan.json").exists()


@pytest.mark.parametrize("name", ["Plan", "Placement", "load_plan", "save_plan", "Mode"])
def test_runtime_exports_what_it_promises(name):
    assert name in runtime.__all__
    assert getattr(runtime, name) is not None
