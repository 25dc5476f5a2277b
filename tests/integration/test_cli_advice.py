"""Advice and variants through ``autotune search``, ``simulate``, ``export`` and ``models``."""

import json

import pytest

from runtime.plan_document import load_plan

SMALL_HOST = (
    "--device", "rtx-4090", "--vram-cap", "24GiB", "--host-memory", "64GB", "--width", "864", "--height", "480",
    "--steps", "21", "--max-prefetch", "1", "--trials", "0",
)  # fmt: skip


def search(run_cli, folder, *arguments):
    code, out, err = run_cli("search", "--model", "H3", *SMALL_HOST, *arguments, "--out", folder)
    assert code == 0, err
    return load_plan(folder / "plan.json"), out


def test_search_offers_switches_that_the_card_supports_in_two_groups(run_cli, tmp_path):
    document, out = search(run_cli, tmp_path / "run")
    known = [item for item in document.advice if item.gain_ratio is not None]
    assert [item.switch for item in known if item.same_output] == ["--variant adaln-online"]
    assert {"--variant int8", "--variant int8-online", "--steps 10"} == {
        item.switch for item in known if not item.same_output
    }  # fp8 loads the whole DiT onto the device, and 864x480 is the smaller canvas already
    assert known[0].gain_ratio > 0.02
    assert any(finding.startswith("--variant adaln-online would give the same output") for finding in document.findings)
    assert [item.change.partition(" (")[0] for item in document.what_ifs] == [
        "2 GiB more VRAM",
        "16 GiB more host memory",
        "half the link rate",
        "half the steps",
    ]
    report = (tmp_path / "run" / "report.md").read_text()
    for text in (out, report):
        assert "What other switches would give" in text
        assert "not modelled: " in text
    assert "--variant adaln-online | same |" in report


def test_advice_can_be_left_out(run_cli, tmp_path):
    document, out = search(run_cli, tmp_path / "run", "--no-advice")
    assert document.advice == ()
    assert "What other switches" not in out


def test_auto_takes_the_fastest_variant_and_names_both_times(run_cli, tmp_path):
    document, _ = search(run_cli, tmp_path / "run", "--variant", "auto", "--no-advice")
    assert document.variant == "adaln-online"
    assert "took variant adaln-online" in document.findings[1]
    assert "the model as released takes" in document.findings[1]
    flags = (tmp_path / "run" / "flags.txt").read_text()
    assert "--minimax-h3-adaln-online\n" in flags
    assert "--minimax-h3-adaln-plan-width 2" in flags
    assert "Variant adaln-online." in (tmp_path / "run" / "report.md").read_text()
    code, out, _ = run_cli("export", tmp_path / "run" / "plan.json")
    assert code == 0
    assert "--minimax-h3-adaln-online" in out


def test_auto_is_for_catalog_models(run_cli, tmp_path):
    _, _ = search(run_cli, tmp_path / "run", "--no-advice")
    code, _, err = run_cli(
        "search", "--profile", tmp_path / "run" / "profile.json", "--variant", "auto", "--out", tmp_path / "again"
    )
    assert code == 2
    assert "--variant auto" in err


@pytest.mark.parametrize("command", ["search", "simulate", "table"])
def test_an_unknown_variant_is_refused_with_the_list(run_cli, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = ("--sizes", "864x480x124", "--caps", "24GiB") if command == "table" else ()
    code, _, err = run_cli(command, "--variant", "int4", *more)
    assert code == 2
    assert "H3 has no variant 'int4': it has adaln-online, fp8, int8-online, int8" in err
    assert not list(tmp_path.iterdir())


def test_simulate_shows_what_a_variant_costs_and_what_it_cannot_load(run_cli):
    code, out, _ = run_cli("simulate", "--device", "rtx-4090", "--variant", "adaln-online", "--json")
    thin = json.loads(out)
    assert (code, thin["variant"], thin["warnings"]) == (0, "adaln-online", [])
    _, out, _ = run_cli("simulate", "--device", "rtx-4090", "--json")
    released = json.loads(out)
    assert thin["prediction"]["host_bytes"]["transformer"] < 0.65 * released["prediction"]["host_bytes"]["transformer"]
    code, out, _ = run_cli("simulate", "--device", "rtx-4090", "--variant", "fp8")
    assert code == 0
    assert "Variant fp8." in out
    assert "cannot be loaded here" in " ".join(out.split())


def test_models_lists_variants_with_flags(run_cli):
    code, out, _ = run_cli("models")
    assert code == 0
    assert "--minimax-h3-adaln-online" in out
    assert "Variants" in out
    code, out, _ = run_cli("models", "--json")
    variants = {entry["name"]: entry["variants"] for entry in json.loads(out)}
    assert [item["name"] for item in variants["H3"]] == ["adaln-online", "fp8", "int8-online", "int8"]
    assert variants["FLUX.1-dev"] == []
