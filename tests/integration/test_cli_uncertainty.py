"""How far predictions may be off, on the command line: intervals, ties, the quantile of the peak, saved profiles."""

import json
from dataclasses import replace

import pytest

from autotune.fidelity.prior import derive_uncertainty
from autotune.profile import encode_profile, load_profile
from runtime.plan_document import load_plan

REQUEST = ("--model", "Qwen-Image", "--device", "rtx-5090")
QUICK = ("--trials", "0", "--max-prefetch", "1", "--no-advice")


def words(text):
    return " ".join(text.split())


@pytest.fixture
def searched(run_cli, tmp_path):
    """Search and return what was printed, and the folder."""

    def search(name, *options):
        code, out, err = run_cli("search", *QUICK, *options, "--vram-cap", "24GiB", "--out", tmp_path / name)
        assert code == 0, err
        return words(out), tmp_path / name

    return search


def test_a_search_says_how_far_it_may_be_off_and_who_is_faster_by_how_much(searched, run_cli):
    out, folder = searched("run", *REQUEST)
    prediction = load_plan(folder / "plan.json").prediction
    assert "± is one standard deviation here and below" in out
    assert "the plan is faster than everything streamed by" in out
    assert "95.0 % of the cases stay within" in out
    assert prediction.latency_low_s < prediction.latency_s < prediction.latency_high_s
    assert "± is one standard deviation" in words((folder / "report.md").read_text())
    code, out, err = run_cli("explain", folder / "plan.json")
    assert code == 0, err
    assert "two plans are a tie where their difference is at most its standard deviation" in words(out)


def test_a_plan_saved_before_spreads_were_known_is_explained_without_them(searched, run_cli):
    _, folder = searched("run", *REQUEST)
    saved = json.loads((folder / "plan.json").read_text())
    for phase in saved["prediction"]["phases"]:
        del phase["kept_free_bytes"]
    for comparison in saved["comparisons"]:
        del comparison["difference_s"], comparison["difference_sd_s"]
    for name in [
        name for name in saved["prediction"] if name.startswith(("latency_", "peak_")) and name != "latency_s"
    ]:
        del saved["prediction"][name]
    (folder / "plan.json").write_text(json.dumps(saved))
    code, out, err = run_cli("explain", folder / "plan.json")
    assert code == 0, err
    assert "± is one" not in out
    assert "expected" not in words(out).partition("Cap:")[0]


def test_a_calibrated_profile_makes_intervals_and_margins_narrower(searched, tmp_path):
    _, first = searched("first", *REQUEST)
    profile = load_profile(first / "profile.json")
    assert profile.uncertainty is None
    wide = derive_uncertainty(profile.facts, profile.rates, profile.device)
    covariance = tuple(tuple(value / 25 for value in row) for row in wide.covariance)
    path = tmp_path / "calibrated.json"
    path.write_bytes(encode_profile(replace(profile, uncertainty=replace(wide, covariance=covariance))))
    _, second = searched("second", "--profile", str(path))
    before, after = (load_plan(folder / "plan.json").prediction for folder in (first, second))
    assert after.latency_high_s - after.latency_low_s < 0.5 * (before.latency_high_s - before.latency_low_s)
    assert after.peak_sd_bytes == pytest.approx(before.peak_sd_bytes / 5, rel=0.05)
    assert after.peak.kept_free_bytes == 512 * 2**20 < before.peak.kept_free_bytes
    assert load_profile(second / "profile.json").uncertainty is not None


def test_a_profile_saved_before_uncertainty_was_known_plans_the_same(searched):
    _, first = searched("first", *REQUEST)
    saved = json.loads((first / "profile.json").read_text())
    del saved["uncertainty"]
    (first / "profile.json").write_text(json.dumps(saved))
    _, second = searched("second", "--profile", str(first / "profile.json"))
    before, after = (load_plan(folder / "plan.json") for folder in (first, second))
    assert before.plan == after.plan
    assert before.prediction.latency_sd_s == pytest.approx(after.prediction.latency_sd_s)


def test_the_expected_peak_is_planned_with_at_quantile_one_half_without_a_reserve(run_cli):
    charged = {}
    for options in (("--peak-quantile", "0.5", "--reserve", "0"), ("--peak-quantile", "0.8"), ()):
        code, out, err = run_cli("simulate", *REQUEST, *options, "--json")
        assert code == 0, err
        prediction = json.loads(out)["prediction"]
        peak = max(prediction["phases"], key=lambda phase: phase["charged_bytes"])
        charged[prediction["peak_quantile"]] = (peak["charged_bytes"], peak["kept_free_bytes"])
    assert charged[0.5][1] == 0
    assert charged[0.5][0] < charged[0.8][0] < charged[0.95][0]


@pytest.mark.parametrize("command", ["search", "simulate", "table"])
def test_a_quantile_that_is_none_is_refused_before_any_work(run_cli, command):
    options = ("--caps", "24GiB", "--sizes", "1024x1024") if command == "table" else ()
    code, _, err = run_cli(command, *REQUEST, *options, "--peak-quantile", "95")
    assert code == 2
    assert "--peak-quantile is 95" in words(err)


def test_a_table_at_a_lower_quantile_fits_where_the_safe_one_does_not(run_cli, tmp_path):
    def tabulate(cap, quantile):
        options = ("--sizes", "1024x1024", "--caps", cap, "--max-prefetch", "1", "--peak-quantile", quantile)
        code, out, err = run_cli("table", *REQUEST, *options, "--out", tmp_path / f"{cap}-{quantile}", "--json")
        assert code in {0, 3}, err
        return json.loads(out)

    expected, safe = (tabulate("3GiB", quantile)["rows"][0]["charged_bytes"] for quantile in ("0.5", "0.95"))
    between = f"{(expected + safe) // 2**21}MiB"
    assert [tabulate(between, quantile)["outcome"] for quantile in ("0.5", "0.95")] == ["planned", "nothing fits"]
