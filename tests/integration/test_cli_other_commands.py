"""The other commands: simulate, explain, export, models, devices, conformance, and what wrong input gets."""

import json
import shutil
from pathlib import Path

import pytest

from runtime.plan_document import load_plan

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def qwen_plan(run_cli, tmp_path):
    code, _, _ = run_cli(
        "search", "--model", "Qwen-Image", "--device", "rtx-5090", "--vram-cap", "16GiB", "--trials", "0", "--out",
        tmp_path / "qwen",
    )  # fmt: skip
    assert code == 0
    return tmp_path / "qwen" / "plan.json"


def simulate(run_cli, *arguments):
    code, out, err = run_cli("simulate", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def dit_peak(simulation):
    phases = simulation["prediction"]["phases"]
    return max(phase["charged_bytes"] for phase in phases if phase["phase"] == "later request: transformer")


def test_deeper_prefetch_costs_19_gib_and_gains_nothing_on_a_transfer_bound_image_model(run_cli):
    qwen = ("--model", "Qwen-Image", "--device", "rtx-5090")
    one, sixteen, half = (
        simulate(run_cli, *qwen, "--set", setting)
        for setting in ("transformer.prefetch=1", "transformer.prefetch=16", "transformer.resident=30")
    )
    assert dit_peak(sixteen) - dit_peak(one) == pytest.approx(19 * 2**30, rel=0.02)
    assert sixteen["prediction"]["latency_s"] >= one["prediction"]["latency_s"]
    # Residency is steep: half of the layers at the same memory save more than a tenth of the request.
    assert dit_peak(half) == dit_peak(sixteen)
    assert half["prediction"]["latency_s"] < 0.9 * one["prediction"]["latency_s"]


def test_dit_residency_gains_less_than_two_percent_where_h3_is_compute_bound(run_cli):
    streamed, resident = (
        simulate(run_cli, "--model", "H3", "--device", "rtx-4090", "--set", f"transformer.resident={count}")
        for count in (0, 7)
    )
    saved = 1 - resident["prediction"]["latency_s"] / streamed["prediction"]["latency_s"]
    assert saved < 0.02


@pytest.mark.parametrize(("recipe", "visible"), [("exact", True), ("default", False)])
def test_a_streamed_decoder_costs_visibly_more_only_with_one_tile_per_pass(run_cli, recipe, visible):
    streamed, resident = (
        simulate(run_cli, "--model", "H3", "--recipe", recipe, "--set", f"video_vae.resident={count}")
        for count in (0, 36)
    )

    def decode_s(simulation):
        use = simulation["prediction"]["uses"][-1]
        assert use["component"] == "video_vae"
        return use["end_s"] - use["start_s"]

    assert (decode_s(streamed) > 1.5 * decode_s(resident)) is visible
    if not visible:
        assert decode_s(streamed) <= decode_s(resident) * 1.02


def test_simulate_reports_a_plan_that_does_not_fit_as_an_outcome(run_cli):
    simulation = simulate(run_cli, "--model", "H3", "--set", "transformer.mode=resident")
    assert simulation["fits"] is False


def test_explain_repeats_the_findings_and_the_command(qwen_plan, run_cli):
    code, out, _ = run_cli("explain", qwen_plan)
    document = load_plan(qwen_plan)
    assert code == 0
    assert document.findings[0].split(":")[0] in out
    assert "autotune search --model Qwen-Image" in " ".join(out.split())


def test_export_prints_one_command_line_for_the_recorded_version(qwen_plan, run_cli):
    code, out, err = run_cli("export", qwen_plan, "--target", "sglang")
    assert code == 0
    assert out.startswith("sglang serve --model-path Qwen/Qwen-Image --component-residency text_encoder=")
    assert "transformer=" in out.split("--layerwise-resident-layers ")[1].split()[0]
    assert "note:" in err


def test_export_says_what_an_older_dialect_cannot_express(qwen_plan, run_cli):
    code, _, err = run_cli("export", qwen_plan, "--target", "sglang@0.5.16")
    assert code == 4
    assert "cannot express this plan" in err
    code, out, err = run_cli("export", qwen_plan, "--target", "sglang@0.5.16", "--allow-loss")
    assert code == 0
    assert out.startswith("sglang serve")
    assert "resident" in err


def test_models_and_devices_are_listed_with_sources(run_cli):
    code, out, _ = run_cli("models")
    assert code == 0
    assert "MiniMaxAI/MiniMax-H3" in out
    code, out, _ = run_cli("devices", "--json")
    devices = {device["name"]: device for device in json.loads(out)}
    assert len(devices) == 13
    assert devices["rtx-4090"]["sources"]["pinned_bytes_per_s"]
    code, out, _ = run_cli("devices", "rtx-5090")
    assert code == 0
    assert "bfloat16 rate" in out


def test_conformance_matches_every_recorded_file(run_cli):
    code, out, _ = run_cli("conformance", *sorted(DATA.glob("sglang_*.jsonl")))
    assert code == 0
    assert "157/157" in out
    assert "84/84" in out
    assert "36/36" in out
    assert "98/98" in out


def test_conformance_fails_on_one_altered_record_and_names_it(run_cli, tmp_path):
    lines = (DATA / "sglang_timing_cases.jsonl").read_text().splitlines()
    record = json.loads(lines[4])
    record["steady_pass_s"] *= 1.001
    lines[4] = json.dumps(record)
    altered = tmp_path / "altered.jsonl"
    altered.write_text("\n".join(lines))
    code, out, _ = run_cli("conformance", altered)
    assert code == 1
    assert "83/84" in out
    assert "steady_pass_s" in out
    assert "5" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search", "--vram-cap", "24Gb"), "reads as bits"),
        (("search", "--vram-cap", "0"), "at least one byte"),
        (("search", "--vram-cap", "nan"), "is not a size"),
        (("search", "--model", "Qwen-Imag"), "did you mean Qwen-Image"),
        (("search", "--device", "rtx-4900"), "rtx-4090"),
        (("search", "--host-memory", "3MiB"), "--host-memory"),
        (("search", "--tie-ratio", "2"), "--tie-ratio"),
        (("search", "--max-prefetch", "0"), "--max-prefetch"),
        (("search", "--width", "1000"), "nearest"),
        (("search", "--storage", "nowhere://x"), "storage"),
        (("search", "--sampler", "grid"), "grid"),
        (("search", "--profile", "missing.json"), "cannot read"),
        (("search", "--engine", "sglang@9.9"), "unknown"),
        (("simulate", "--set", "transformer.resident"), "component.knob=value"),
        (("simulate", "--set", "transformer.resident=51"), "50 layers"),
        (("simulate", "--set", "nobody.resident=1"), "no component"),
        (("simulate", "--set", "transformer.colour=red"), "no knob"),
        (("simulate", "--set", "transformer.mode=resident", "--set", "transformer.resident=3"), "contradicts"),
        (("explain", "missing.json"), "cannot read"),
        (("conformance", "missing.jsonl"), "missing.jsonl"),
    ],
)
def test_wrong_input_gets_one_message_and_a_non_zero_exit(arguments, message, run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_cli(*arguments)
    assert code in {2, 4}
    assert message in " ".join(err.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage",
    [b"", b"[]", b"{", b'{"format": "layerstream-plan", "version": 1}', b'{"format": "other"}', b"\xff\xfe\x00"],
)
def test_a_damaged_plan_is_named_and_refused(damage, run_cli, tmp_path):
    path = tmp_path / "plan.json"
    path.write_bytes(damage)
    for command in ("explain", "export"):
        code, _, err = run_cli(command, path)
        assert code == 2
        assert "plan.json" in err


def test_a_plan_of_another_version_is_refused(qwen_plan, run_cli):
    document = json.loads(qwen_plan.read_text())
    document["version"] = 99
    qwen_plan.write_text(json.dumps(document))
    code, _, err = run_cli("explain", qwen_plan)
    assert code == 2
    assert "version 99" in err


def test_a_plan_whose_placements_do_not_match_its_model_is_refused(qwen_plan, run_cli):
    shutil.copy(qwen_plan, qwen_plan.with_suffix(".bak"))
    document = json.loads(qwen_plan.read_text())
    document["plan"]["placements"].pop()
    qwen_plan.write_text(json.dumps(document))
    code, _, err = run_cli("explain", qwen_plan)
    assert code == 2
    assert "not for Qwen-Image" in err
