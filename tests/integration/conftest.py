"""Runs the command line in this process and keeps captured models between tests and workers."""

import sys

import pytest

from autotune.cli import main


@pytest.fixture(autouse=True, scope="session")
def shared_cache(tmp_path_factory):
    """One cache of captured models for all workers of a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path_factory.getbasetemp().parent / "model-cache"))
        yield


@pytest.fixture(autouse=True)
def undrawn_pages(request, monkeypatch):
    """Pages take seconds to draw and every search writes one: they are drawn for the modules that look at them."""
    if request.module.__name__.rpartition(".")[2] not in {"test_cli_report", "test_page_in_browser"}:
        monkeypatch.setattr("reports.page.html.render_html", lambda _: "<!doctype html><title>not drawn</title>")


@pytest.fixture
def run_cli(monkeypatch, capsys):
    """Call ``autotune`` with arguments; returns exit code, standard output and standard error, 120 columns wide."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["autotune", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return code, captured.out, captured.err

    return run
