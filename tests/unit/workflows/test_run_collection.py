"""A run folder as one record: values agree with every file, and each file that cannot be used is named."""

import csv
import json
import shutil

import pytest
from builders import build_component
from run_folder_builders import SCRIPT, measure_toy_run, write_toy_run

from autotune.workflows.run_collection import LOST, collect_run
from reports.run_data import Owner
from runtime.errors import InputError
from runtime.plan_document import load_plan

NEEDED = ("plan.json", "profile.json", "pareto.csv", "host.csv", "trials.csv", "serve.sh")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy") / "toy-run"
    files = write_toy_run(folder)
    return folder, files, measure_toy_run(folder, files)


@pytest.fixture
def folder(written, tmp_path):
    """A copy of the folder, to damage."""
    return shutil.copytree(written[0], tmp_path / "toy-run")


@pytest.fixture(scope="module")
def data(written):
    return collect_run(written[0])


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def gaps_of(folder):
    return {gap.file: gap for gap in collect_run(folder).gaps}


def test_a_whole_folder_leaves_no_gap(data, written):
    folder, files, measured = written
    assert (data.name, data.gaps, data.serve_script) == ("toy-run", (), SCRIPT)
    assert data.plan == files.document == load_plan(folder / "plan.json")
    assert data.measurement == measured
    assert data.curve
    assert data.host_curve
    assert data.trials


def test_every_cell_of_the_curve_is_in_the_record(data, written):
    folder, files, _ = written
    rows = read_csv(folder / "pareto.csv")
    names = [placement.component for placement in files.document.plan.placements]
    assert [
        (str(point.charged_bytes), repr(point.latency_s), str(point.fits), *(point.placements[name] for name in names))
        for point in data.curve
    ] == [tuple(row.values()) for row in rows]
    assert [(point.charged_bytes, point.latency_s) for point in data.curve] == [
        (point.charged_bytes, point.latency_s) for point in files.curve
    ]


def test_every_cell_of_the_hosts_is_in_the_record(data, written):
    folder, files, _ = written
    assert data.host_curve == files.host_curve
    for point, row in zip(data.host_curve, read_csv(folder / "host.csv"), strict=True):
        assert {name: "" if value == "" else str(getattr(point, name)) for name, value in row.items()} == row


def test_every_cell_of_the_trials_is_in_the_record(data, written):
    folder, files, _ = written
    assert len(data.trials) == len(files.study.records)
    for trial, row in zip(data.trials, read_csv(folder / "trials.csv"), strict=True):
        assert (trial.run, str(trial.number), trial.origin) == (row["run"], row["number"], row["origin"])
        assert (str(trial.feasible), trial.failure) == (row["feasible"], row["failure"])
        assert ["" if value is None else repr(value) for value in (trial.latency_s, trial.charged_bytes)] == [
            row["latency_s"],
            row["charged_bytes"],
        ]
        assert trial.placements == {name: row[name] for name in trial.placements}


def test_the_chosen_plan_is_the_same_in_plan_curve_and_comparisons(data):
    prediction = data.plan.prediction
    chosen = next(item for item in data.plan.comparisons if item.name == "plan")
    optimum = next(item for item in data.plan.comparisons if item.name == "optimum")
    assert (chosen.latency_s, chosen.charged_bytes) == (prediction.latency_s, prediction.peak.charged_bytes)
    assert min(point.latency_s for point in data.curve if point.fits) == pytest.approx(optimum.latency_s, rel=1e-12)


def test_owners_of_device_memory_add_up_to_what_is_charged_in_every_phase(data):
    for phase, predicted in zip(data.memory, data.plan.prediction.phases, strict=True):
        assert (phase.phase, phase.charged_bytes) == (predicted.phase, predicted.charged_bytes)
        assert sum(phase.by_component.values()) == phase.parts[Owner.STREAMED] == predicted.streamed_bytes
        assert phase.parts[Owner.RESERVE] == predicted.kept_free_bytes
        assert phase.parts[Owner.OVERHEAD] >= 0
    assert {phase.phase: phase.seconds for phase in data.memory}["later request: idle"] == 0


def test_phases_last_as_long_as_the_uses_of_the_plan(data):
    seconds = {phase.phase: phase.seconds for phase in data.memory}
    for use in data.plan.prediction.uses:
        assert seconds[f"later request: {use.component}"] == use.end_s - use.start_s
    first_s = sum(time_s for name, time_s in seconds.items() if name.startswith("first request"))
    assert first_s == pytest.approx(data.plan.prediction.first_latency_s)


def test_stalls_add_up_to_what_a_request_waits(data):
    waits_s = data.plan.prediction.latency_s - data.plan.prediction.compute_s
    assert sum(stall.stall_s for stall in data.stalls) == pytest.approx(waits_s)
    layers = {(stall.component, stall.stack, stall.layer) for stall in data.stalls}
    assert len(layers) == len(data.stalls)
    assert any(layer is not None for _, _, layer in layers)


def test_windows_are_the_first_and_a_steady_pass_of_the_longest_component(data):
    first, steady = data.windows
    (passes,) = next(use.passes for use in data.plan.prediction.uses if use.component == "transformer")
    assert (first.title, steady.title) == ("first pass", "steady pass")
    assert {first.component, steady.component} == {"transformer"}
    assert first.end_s - first.start_s == pytest.approx(passes.first_s)
    assert steady.end_s - steady.start_s == pytest.approx(passes.steady_s)
    assert first.end_s <= steady.start_s
    assert any(steady.start_s <= span.start_s and span.end_s <= steady.end_s for span in data.timeline.spans)


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_file_is_named_with_what_it_costs(folder, name):
    (folder / name).unlink()
    gap = gaps_of(folder)[name]
    assert "is not there" in gap.problem
    assert gap.lost == LOST[name]


def test_a_run_that_was_not_executed_lacks_nothing(folder):
    (folder / "measurement.json").unlink()
    found = collect_run(folder)
    assert (found.measurement, found.gaps) == (None, ())


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[1, 2]", b'"a,b\nc'])
@pytest.mark.parametrize("name", [*NEEDED[:5], "measurement.json"])
def test_a_damaged_file_is_named_and_the_others_are_used(folder, name, content):
    (folder / name).write_bytes(content)
    found = collect_run(folder)
    (gap,) = found.gaps
    assert (gap.file, gap.lost) == (name, LOST[name])
    assert gap.problem
    parts = (found.plan, found.curve, found.host_curve, found.trials, found.measurement)
    assert sum(map(bool, parts)) >= 4


@pytest.mark.parametrize("name", ["pareto.csv", "trials.csv", "host.csv"])
def test_a_table_that_was_cut_is_refused_with_its_line(folder, name):
    lines = (folder / name).read_text().splitlines()
    (folder / name).write_text("\n".join([*lines[:2], lines[2].rpartition(",")[0]]))
    gap = gaps_of(folder)[name]
    assert "line 3" in gap.problem
    assert "autotune search" in gap.problem


@pytest.mark.parametrize(("cell", "message"), [("-1", "from 0 up"), ("nan", "from 0 up"), ("many", "from 0 up")])
def test_a_cell_that_is_no_figure_is_refused(folder, cell, message):
    lines = (folder / "pareto.csv").read_text().splitlines()
    lines[1] = ",".join([cell, *lines[1].split(",")[1:]])
    (folder / "pareto.csv").write_text("\n".join(lines))
    assert message in gaps_of(folder)["pareto.csv"].problem


@pytest.mark.parametrize("name", ["plan.json", "profile.json", "measurement.json"])
def test_a_document_of_another_version_says_so(folder, name):
    document = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(document | {"version": 0}))
    gap = gaps_of(folder)[name]
    assert "version 0, this program reads 1" in gap.problem


def test_a_table_of_an_older_program_says_which_column_it_lacks(folder):
    text = (folder / "trials.csv").read_text()
    (folder / "trials.csv").write_text(text.replace("failure", "broke", 1))
    assert "lacks failure" in gaps_of(folder)["trials.csv"].problem


def test_files_of_another_run_are_left_out(folder, tmp_path):
    other = tmp_path / "other"
    files = write_toy_run(other, components={"transformer": build_component(4, passes=3, is_dit=True)})
    measure_toy_run(other, files)
    for name in ("pareto.csv", "trials.csv", "profile.json", "measurement.json"):
        shutil.copy(other / name, folder / name)
    found = collect_run(folder)
    problems = {gap.file: gap.problem for gap in found.gaps}
    assert "belongs to another run" in problems["pareto.csv"]
    assert "belongs to another run" in problems["trials.csv"]
    assert "is not the profile that plan.json was made from" in problems["profile.json"]
    assert "measures another plan" in problems["measurement.json"]
    assert (found.curve, found.trials, found.timeline, found.windows, found.stalls) == ((), (), None, (), ())


def test_without_its_profile_memory_is_told_but_not_by_component(folder):
    (folder / "profile.json").unlink()
    found = collect_run(folder)
    assert [phase.charged_bytes for phase in found.memory] == [
        phase.charged_bytes for phase in found.plan.prediction.phases
    ]
    assert all(set(phase.by_component) == {"all components"} for phase in found.memory)


def test_a_plan_whose_figures_a_replay_does_not_reach_is_not_drawn(folder):
    document = json.loads((folder / "plan.json").read_text())
    document["prediction"]["latency_s"] *= 1.01
    (folder / "plan.json").write_text(json.dumps(document))
    found = collect_run(folder)
    assert "does not lead to the plan's figures any more" in found.gaps[0].problem
    assert (found.timeline, found.stalls) == (None, ())


def test_an_engine_that_is_not_known_costs_the_timeline_only(folder):
    document = json.loads((folder / "plan.json").read_text())
    document["plan"]["engine"] = "sglang@9.9"
    (folder / "plan.json").write_text(json.dumps(document))
    found = collect_run(folder)
    assert [gap.file for gap in found.gaps] == ["profile.json"]
    assert found.memory


@pytest.mark.parametrize("kept", ["plan.json", "pareto.csv", "host.csv", "trials.csv", "measurement.json"])
def test_one_file_is_enough(folder, kept):
    for path in folder.iterdir():
        if path.name != kept:
            path.unlink()
    found = collect_run(folder)
    assert kept not in {gap.file for gap in found.gaps}
    assert sum(map(bool, (found.plan, found.curve, found.host_curve, found.trials, found.measurement))) == 1


def test_a_folder_with_nothing_of_a_run_is_refused(tmp_path, folder):
    with pytest.raises(InputError, match=r"holds nothing of a run .*name a run folder"):
        collect_run(tmp_path)
    with pytest.raises(InputError, match="is not there: name a run folder"):
        collect_run(tmp_path / "missing")
    with pytest.raises(InputError, match="is a file: name a run folder"):
        collect_run(folder / "plan.json")


def test_a_folder_in_place_of_a_file_is_named(folder):
    (folder / "plan.json").unlink()
    (folder / "plan.json").mkdir()
    assert "no regular file" in gaps_of(folder)["plan.json"].problem
