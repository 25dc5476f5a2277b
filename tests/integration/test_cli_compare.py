"""``autotune compare``: runs, plans, profiles and measurements side by side, and what cannot be compared."""

import json
import shutil

import pytest
from run_folder_builders import measure_toy_run, write_toy_run

from runtime.plan_document import load_plan


@pytest.fixture(scope="module")
def saved_runs(tmp_path_factory):
    """Two runs of one toy model under different caps; the second one was executed."""
    parent = tmp_path_factory.mktemp("runs")
    write_toy_run(parent / "small", cap_bytes=24_000)
    files = write_toy_run(parent / "large", cap_bytes=45_000)
    measure_toy_run(parent / "large", files)
    return parent


@pytest.fixture
def runs(saved_runs, tmp_path):
    """A copy of them."""
    return shutil.copytree(saved_runs, tmp_path / "runs")


def words(text):
    return " ".join(text.split())


def test_two_runs_differ_in_placements_first_then_in_figures(runs, run_cli):
    code, out, err = run_cli("compare", runs / "small", runs / "large")
    assert (code, err) == (0, "")
    assert out.startswith("Compared: small (a run), large (a run)")
    assert out.index("Placed differently") < out.index("Different\n") < out.index("Equal: ")
    assert "Only in large: " in out
    assert "emulated later request: p50" in words(out)


def test_json_has_the_values_of_the_plans_unrounded(runs, run_cli):
    code, out, _ = run_cli("compare", runs / "small", runs / "large" / "plan.json", "--json")
    found = json.loads(out)
    plans = [load_plan(runs / name / "plan.json") for name in ("small", "large")]
    figures = {row["name"]: row["values"] for row in found["figures"]}
    assert code == 0
    assert found["kinds"] == ["run", "plan"]
    assert figures["later request"] == [plan.prediction.latency_s for plan in plans]
    assert figures["VRAM charged"] == [plan.prediction.peak.charged_bytes for plan in plans]
    assert figures["VRAM cap"] == [plan.cap.effective_bytes for plan in plans]
    for row in found["placements"]:
        assert row["values"] == [plan.plan.placement(row["name"]).describe() for plan in plans]
    assert "model" in found["equal"]


def test_three_sides_stand_in_the_order_in_which_they_were_named(runs, run_cli):
    write_toy_run(runs / "middle", cap_bytes=28_000)
    code, out, _ = run_cli("compare", runs / "large", runs / "small", runs / "middle", "--json")
    assert code == 0
    assert json.loads(out)["sides"] == ["large", "small", "middle"]


def test_profiles_and_measurements_are_compared_by_what_they_say_they_are(runs, run_cli):
    code, out, _ = run_cli("compare", runs / "small" / "profile.json", runs / "large" / "profile.json")
    assert code == 0
    assert "small/profile.json (a profile), large/profile.json (a profile)" in words(out)
    copied = shutil.copy(runs / "large" / "measurement.json", runs / "again.json")
    code, out, _ = run_cli("compare", runs / "large" / "measurement.json", copied)
    assert (code, "Nothing that both have differs" in out) == (0, True)


def test_the_same_run_twice_is_equal(runs, run_cli):
    code, out, _ = run_cli("compare", runs / "small", runs / "small")
    assert code == 0
    assert "small (1) (a run), small (2) (a run)" in words(out)
    assert "Nothing that both have differs" in out


def test_gaps_of_a_side_are_named(runs, run_cli):
    (runs / "small" / "host.csv").unlink()
    code, _, err = run_cli("compare", runs / "small", runs / "large")
    assert code == 0
    assert f"note: {runs / 'small'}/host.csv is not there" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not there"),
        ("{}", "is nothing that can be compared"),
        ('{"format": "layerstream-node-profile"}', "autotune profile diff"),
        ('{"format": "layerstream-plan"}', "has plan version None"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(runs, run_cli, content, message):
    path = runs / "odd.json"
    if content is not None:
        path.write_text(content)
    code, _, err = run_cli("compare", runs / "small", path)
    assert code == 2
    assert message in err
    assert "odd.json" in err


def test_one_thing_alone_or_a_folder_without_plan_is_refused(runs, run_cli, tmp_path):
    code, _, err = run_cli("compare", runs / "small")
    assert (code, "compare takes two or more" in err) == (2, True)
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(runs / "small" / "pareto.csv", alone)
    code, _, err = run_cli("compare", runs / "small", alone)
    assert (code, "has neither plan nor measurement" in err) == (2, True)
