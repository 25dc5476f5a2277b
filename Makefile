# Everything works in .venv/ at the root. `make plan` and `make test` each set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints-dev.txt

.PHONY: plan test check bench notebooks clean

# The main job: MiniMax-H3 under 24 GiB, no GPU needed. The result is in runs/h3-24gib/.
plan: $(VENV)/.installed
	$(BIN)/autotune search --model H3 --vram-cap 24GiB --out runs/h3-24gib --overwrite

test: $(VENV)/.dev-installed
	$(BIN)/python -m pytest -n 2

check: $(VENV)/.dev-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev-installed
	$(BIN)/python benchmarks/planner.py

# Executes them and writes their outputs; read them before committing.
notebooks: $(VENV)/.dev-installed
	$(BIN)/python notebooks/execute.py

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[models]'
	touch $@

$(VENV)/.dev-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --requirement requirements-dev.txt
	touch $@
