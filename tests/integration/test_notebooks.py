"""Every notebook runs from top to bottom, and gives the outputs that are committed."""

import base64
import importlib.util
import re
from io import BytesIO
from pathlib import Path

import nbformat
import pytest
from PIL import Image

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NAMES = ("01_tradeoff_curves", "02_leading_vs_strided", "03_host_memory", "04_predicted_vs_measured")
MAX_PICTURE_BYTES = 60_000

_spec = importlib.util.spec_from_file_location("notebooks_execute", FOLDER / "execute.py")
notebooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(notebooks)


def read_committed(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def list_pictures(notebook):
    bundles = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())]
    return [base64.b64decode(bundle["image/png"]) for bundle in bundles if "image/png" in bundle]


def describe_outputs(notebook):
    """Outputs of every cell; of a picture only its size, because fonts are drawn a little differently elsewhere."""
    described = []
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", ()):
            plain = dict(output.get("data", {}))
            if "image/png" in plain:
                plain["image/png"] = Image.open(BytesIO(base64.b64decode(plain["image/png"]))).size
            described.append((number, output.output_type, plain, output.get("text"), output.get("metadata")))
    return described


def test_the_folder_holds_these_notebooks_in_both_halves():
    assert [script.stem for script in notebooks.find_scripts()] == list(NAMES)
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_both_halves_of_a_notebook_hold_the_same_cells(name):
    paired = notebooks.jupytext.read(FOLDER / f"{name}.py")
    committed = read_committed(name)
    assert [(cell.cell_type, cell.source) for cell in committed.cells] == [
        (cell.cell_type, cell.source) for cell in paired.cells
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_gives_the_committed_outputs(name):
    fresh = notebooks.execute(FOLDER / f"{name}.py")
    assert describe_outputs(fresh) == describe_outputs(read_committed(name)), (
        f"notebooks/{name}.ipynb is out of date: run `make notebooks`, read it, and commit it"
    )


@pytest.mark.parametrize("name", NAMES)
def test_committed_outputs_hold_nothing_that_changes_from_run_to_run(name):
    committed = read_committed(name)
    stripped = notebooks.strip_noise(read_committed(name))
    assert committed == stripped
    text = re.sub(r'"image/png": ".*?"', "", (FOLDER / f"{name}.ipynb").read_text())
    assert not re.search(r"/(?:home|root|tmp|work|usr|var)/|0x[0-9a-f]{6,}|\d\d:\d\d:\d\d", text)


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_small_and_have_words_for_those_who_do_not_see_them(name):
    committed = read_committed(name)
    pictures = list_pictures(committed)
    assert pictures
    assert max(map(len, pictures)) <= MAX_PICTURE_BYTES
    outputs = [output for cell in committed.cells for output in cell.get("outputs", ())]
    shown = [output for output in outputs if "image/png" in output.get("data", {})]
    assert all(output.metadata["image/png"]["alt"] for output in shown)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_opens_with_a_question_and_ends_with_one_sentence(name):
    cells = read_committed(name).cells
    assert cells[0].source.startswith("# ")
    assert cells[0].source.splitlines()[0].endswith("?")
    (output,) = cells[-1].outputs
    answer = output["data"]["text/markdown"]
    assert re.fullmatch(r"\*\*[A-Z][^\n]*\.\*\*", answer)
    assert not re.search(r"\.\s", answer), "one sentence"


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_use_what_is_public(name):
    source = (FOLDER / f"{name}.py").read_text()
    imported = re.findall(r"^(?:from|import) ([\w.]+)", source, flags=re.MULTILINE)
    own = [module for module in imported if module.split(".")[0] in {"autotune", "runtime", "reports"}]
    assert "autotune" in own
    assert not [
        module
        for module in own
        if not re.fullmatch(r"autotune|runtime|runtime\.timeline|reports\.figures\.\w+", module)
    ]
