"""Executes the notebooks from their ``.py`` halves and writes the ``.ipynb`` halves without noise.

    python notebooks/execute.py [NAME ...]

Outputs hold nothing that changes from run to run: no execution counts, times, paths or ids. ``tests/integration/
test_notebooks.py`` executes them in the same way and compares.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent
TIMEOUT_S = 600


def find_scripts() -> list[Path]:
    """The ``.py`` half of every notebook, in order."""
    return sorted(FOLDER.glob("[0-9][0-9]_*.py"))


def execute(script: Path) -> NotebookNode:
    """The notebook behind ``script`` with fresh outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    notebook = jupytext.read(script)
    resources = {"metadata": {"path": str(FOLDER)}}
    # The packages beside this folder, installed or not.
    path = os.pathsep.join(filter(None, (str(FOLDER.parent), os.environ.get("PYTHONPATH"))))
    client = NotebookClient(notebook, kernel_name="python3", timeout=TIMEOUT_S, resources=resources)
    client.execute(env={**os.environ, "PYTHONPATH": path})
    return strip_noise(notebook)


def strip_noise(notebook: NotebookNode) -> NotebookNode:
    """``notebook`` with what two executions have in common."""
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = {}
        if cell.cell_type != "code":
            continue
        cell.execution_count = None
        # What libraries warn of is about the machine, and names its folders.
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = None
    metadata = {"kernelspec": notebook.metadata["kernelspec"], "jupytext": {"formats": "ipynb,py:percent"}}
    notebook.metadata = nbformat.from_dict(metadata)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def main(names: list[str]) -> None:
    """Execute the notebooks called ``names``, or all of them."""
    for script in find_scripts():
        if not names or script.stem in names:
            nbformat.write(execute(script), script.with_suffix(".ipynb"))


if __name__ == "__main__":
    main(sys.argv[1:])
