"""``autotune report``, and the pages that searches and runs write: one source of values, and clear words about gaps."""

import csv
import shutil
import subprocess
import sys
import textwrap

import pytest

import autotune.workflows.reporting
from autotune.workflows.run_collection import collect_run
from reports.page.html import render_html
from reports.page.markdown import render_markdown
from reports.uses import list_use_rows
from runtime.measurement_document import load_measurement
from runtime.plan_document import load_plan


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory):
    """The folder of a small finished search with everything in it."""
    folder = tmp_path_factory.mktemp("saved") / "run"
    options = ["--trials", "8", "--max-prefetch", "1", "--out", str(folder)]
    search = ["search", "--model", "FLUX.1-dev", "--device", "rtx-5090", "--vram-cap", "16GiB", "--steps", "16"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["autotune", *search, *options])
        from autotune.cli import main  # noqa: PLC0415 - after the arguments are in place

        with pytest.raises(SystemExit, match="0"):
            main()
    return folder


@pytest.fixture
def run_folder(saved_run, tmp_path):
    """A copy of it."""
    return shutil.copytree(saved_run, tmp_path / "run")


def words(text):
    return " ".join(text.split())


def test_a_search_leaves_a_page_and_no_gap(saved_run):
    data = collect_run(saved_run)
    assert data.gaps == ()
    assert (saved_run / "report.html").read_text() == render_html(data)
    assert data.timeline is not None
    assert len(data.host_curve) == 6 == sum(point.latency_s is not None for point in data.host_curve)
    assert len(data.trials) == 8


def test_what_ifs_of_the_plan_are_those_of_the_machine_and_the_steps(saved_run):
    changes = [item.change.partition(" (")[0] for item in load_plan(saved_run / "plan.json").what_ifs]
    assert changes == ["2 GiB more VRAM", "half the link rate", "half the steps"]
    half = next(item for item in load_plan(saved_run / "plan.json").what_ifs if item.change.startswith("half the link"))
    assert half.then_s > half.now_s


@pytest.mark.parametrize("form", ["html", "md", "pdf"])
def test_a_report_is_written_beside_the_run_in_every_format(run_folder, run_cli, form):
    (run_folder / "report.html").unlink()
    code, out, err = run_cli("report", run_folder, "--format", form)
    assert (code, err) == (0, "")
    path = run_folder / f"report.{form}"
    assert f"Written to {path}" in words(out)
    start = {"html": b"<!DOCTYPE html>", "md": b"# ", "pdf": b"%PDF"}[form]
    assert path.read_bytes().startswith(start)


def test_the_format_follows_the_name_of_the_file(run_folder, run_cli, tmp_path):
    assert run_cli("report", run_folder, "--out", tmp_path / "a.MD")[0] == 0
    assert (tmp_path / "a.MD").read_text() == render_markdown(collect_run(run_folder))
    assert run_cli("report", run_folder, "--out", tmp_path / "page")[0] == 0
    assert (tmp_path / "page").read_text().startswith("<!DOCTYPE html>")


def test_gaps_are_named_with_their_file_and_the_rest_is_reported(run_folder, run_cli):
    (run_folder / "host.csv").unlink()
    (run_folder / "profile.json").write_text("{}")
    code, _, err = run_cli("report", run_folder)
    assert code == 0
    assert "note: host.csv is not there" in err
    assert "note: profile.json is no profile" in err
    assert "Left out: the timeline of a request" in err
    assert "profile.json" in (run_folder / "report.html").read_text()


@pytest.mark.parametrize("place", ["missing", "empty", "plan.json"])
def test_what_is_no_run_folder_is_refused(run_folder, run_cli, tmp_path, place):
    (tmp_path / "empty").mkdir()
    path = run_folder / place if place == "plan.json" else tmp_path / place
    code, _, err = run_cli("report", path)
    assert code == 2
    assert "name a run folder, which autotune search or autotune run has written" in err


@pytest.mark.parametrize("options", [(), ("--format", "md")])
def test_a_report_is_not_written_over_what_is_no_report(run_folder, run_cli, options):
    plan = run_folder / "plan.json"
    before = plan.read_bytes()
    code, _, err = run_cli("report", run_folder, "--out", plan, *options)
    assert (code, "no report" in err) == (2, True)
    assert plan.read_bytes() == before


def test_a_report_is_not_written_over_a_folder_or_into_nothing(run_folder, run_cli, tmp_path):
    code, _, err = run_cli("report", run_folder, "--out", tmp_path)
    assert (code, "is no file" in err) == (2, True)
    code, _, err = run_cli("report", run_folder, "--out", tmp_path / "missing" / "a.html")
    assert (code, "cannot write the report" in err) == (2, True)


def test_a_run_writes_its_uses_and_a_page_that_has_the_measurement(run_folder, run_cli):
    code, out, err = run_cli("run", run_folder / "plan.json", "--device", "emulated", "--clock", "virtual")
    assert (code, "warning" in err) == (0, False)
    assert "uses.csv" in words(out)
    measurement = load_measurement(run_folder / "measurement.json")
    assert collect_run(run_folder).measurement == measurement
    assert (
        "Emulated" in (run_folder / "report.html").read_text() or "emulated" in (run_folder / "report.html").read_text()
    )
    with (run_folder / "uses.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, expected in zip(rows, list_use_rows(measurement), strict=True):
        for name, cell in row.items():
            value = getattr(expected, name)
            assert cell == ("" if value is None else value if isinstance(value, str) else repr(value))


def test_a_measurement_elsewhere_has_a_page_about_its_plan(run_folder, run_cli, tmp_path):
    plan, there = run_folder / "plan.json", tmp_path / "there"
    assert run_cli("run", plan, "--device", "emulated", "--clock", "virtual", "--out", there)[0] == 0
    assert {path.name for path in there.iterdir()} == {"measurement.json", "uses.csv", "report.html"}
    assert load_plan(plan).findings[0].split(":")[0] in (there / "report.html").read_text()
    assert not (run_folder / "measurement.json").exists()


def test_a_page_that_cannot_be_drawn_is_a_warning_and_the_run_is_kept(run_cli, tmp_path, monkeypatch):
    def fail(*_):
        raise ValueError("no fonts")

    monkeypatch.setattr(autotune.workflows.reporting, "write_report", fail)
    folder = tmp_path / "run"
    arguments = ("--model", "FLUX.1-dev", "--device", "rtx-5090", "--max-prefetch", "1", "--no-advice", "--trials", "0")
    code, _, err = run_cli("search", *arguments, "--out", folder)
    assert code == 0
    assert "warning: no report was written (ValueError: no fonts)" in err
    assert load_plan(folder / "plan.json")
    assert not (folder / "report.html").exists()


def test_a_run_folder_with_reports_can_be_replaced(run_folder, run_cli):
    for form in ("html", "md", "pdf"):
        assert run_cli("report", run_folder, "--format", form)[0] == 0
    run_cli("run", run_folder / "plan.json", "--device", "emulated", "--clock", "virtual")
    arguments = ("--profile", run_folder / "profile.json", "--max-prefetch", "1", "--no-advice", "--trials", "0")
    code, _, err = run_cli("search", *arguments, "--out", run_folder, "--overwrite")
    assert (code, err) == (0, "")
    assert not (run_folder / "report.pdf").exists()


def test_reporting_imports_neither_torch_nor_optuna(saved_run, tmp_path):
    code = """
        import sys
        from pathlib import Path
        from autotune.cli.commands.report import report
        report(Path(sys.argv[1]), form=None, out=Path(sys.argv[2]))
        print(sorted({"torch", "optuna", "diffusers", "transformers"} & set(sys.modules)))
        """
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(saved_run), str(tmp_path / "a.html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == "[]"
