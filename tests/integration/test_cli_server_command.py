"""A command that somebody runs: predicted, compared, and as the base of a search."""

import json

import pytest

from autotune.profile import load_profile
from runtime.plan_document import load_plan

COOKBOOK = (
    "sglang serve --model-path MiniMaxAI/MiniMax-H3 --layerwise-offload-components dit,text_encoder,vae "
    "--layerwise-resident-layers video_vae=36 --dit-layerwise-resident-layers 14 --port 30000 --colour blue"
)
QWEN = "sglang serve --model-path Qwen/Qwen-Image"
CARD = ("--device", "rtx-5090", "--vram-cap", "32GiB")


@pytest.fixture
def report(run_cli):
    def predict(command, *arguments):
        code, out, err = run_cli("simulate", "--from-command", command, *CARD, *arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return predict


def test_the_cookbook_s_recipe_is_predicted_and_compared_with_default_and_best(report):
    found = report(COOKBOOK)
    assert found["simulation"]["placements"] == {
        "text_encoder": "layerwise-offload P=1 r=0",
        "transformer": "layerwise-offload P=1 r=14 leading forward",
        "video_vae": "layerwise-offload P=1 r=36 leading forward",
        "audio_vae": "resident",
    }
    assert found["chosen_by_server"] == ["audio_vae"]
    assert found["ignored"] == ["--port 30000"]
    assert "'--colour blue' is unknown" in found["unknown"][0]
    command, default, best = found["plans"]
    assert [plan["name"] for plan in found["plans"]] == ["this command", "server default", "best plan"]
    assert command["latency_s"] == found["simulation"]["prediction"]["latency_s"]
    assert best["fits"]
    assert best["charged_bytes"] < command["charged_bytes"]
    assert default["placements"]["transformer"] == "layerwise-offload P=1 r=0"


def test_the_report_is_readable(run_cli):
    code, out, _ = run_cli("simulate", "--from-command", f"{QWEN} --lora-path x --frob", *CARD)
    assert code == 0
    assert "left to the server: text_encoder, transformer, vae" in out.replace("\n", " ")
    assert "does not follow --lora-path x" in out
    assert "warning: '--frob' is unknown" in out
    for heading in ("Compared", "Placements", "this command", "server default", "best plan", "chosen by"):
        assert heading in out


def test_a_command_says_its_recipe_variant_and_canvas(report):
    base = "--model-path MiniMaxAI/MiniMax-H3 --component-residency all=layerwise-offload"
    memory = report(f"sglang serve {base} --performance-mode memory")
    assert memory["simulation"]["workload"]["recipe"] == "exact"
    made = report(f"sglang generate {base} --width 864 --height 480 --minimax-h3-adaln-online", "--steps", "9")
    assert (made["simulation"]["workload"]["width"], made["simulation"]["workload"]["height"]) == (864, 480)
    assert any("adaln-online" in assumption for assumption in made["simulation"]["assumptions"])


def test_a_command_may_stand_in_a_file(report, tmp_path):
    script = tmp_path / "serve.sh"
    script.write_text(f"#!/bin/bash\n# ours\n{QWEN} \\\n  --component-residency all=layerwise-offload\n")
    assert report(f"@{script}")["chosen_by_server"] == []


def test_a_search_leaves_what_the_command_and_the_user_fix(run_cli, tmp_path):
    code, out, err = run_cli(
        "search", "--base-command", f"{QWEN} --dit-layerwise-resident-layers 5 --port 3 --lora-path x",
        "--fix", "transformer.lifetime=permanent", "--fix", "vae.mode=component-offload",
        "--fix", "text_encoder.prefetch=11", *CARD, "--trials", "30", "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    document = load_plan(tmp_path / "run" / "plan.json")
    transformer, encoder = (document.plan.placement(name) for name in ("transformer", "text_encoder"))
    assert (transformer.resident, transformer.lifetime, encoder.prefetch) == (5, "permanent", 11)
    assert document.plan.placement("vae").mode == "component-offload"
    assert any("fixed by the user" in assumption for assumption in document.assumptions)
    assert "does not follow --lora-path x" in err
    assert "leave out what the base command says besides: --port 3" in err
    assert "--component-residency" in out
    assert "sglang serve --model-path Qwen/Qwen-Image" in (tmp_path / "run" / "serve.sh").read_text()


def test_a_profile_of_another_model_is_refused(run_cli, tmp_path):
    code, _, err = run_cli("search", "--model", "Qwen-Image", *CARD, "--trials", "0", "--out", tmp_path / "run")
    assert code == 0, err
    profile = tmp_path / "run" / "profile.json"
    assert load_profile(profile).facts.model.name == "Qwen-Image"
    code, _, err = run_cli("simulate", "--profile", profile, "--from-command", COOKBOOK)
    assert (code, err.count("\n")) == (2, 1)
    code, out, err = run_cli("simulate", "--profile", profile, "--from-command", QWEN, "--json")
    assert code == 0, err
    assert json.loads(out)["plans"][0]["name"] == "this command"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("simulate", "--from-command", ""), 2, "empty"),
        (("simulate", "--from-command", "sglang serve 'x"), 2, "close its quotes"),
        (("simulate", "--from-command", "\udcff"), 2, "no text"),
        (("simulate", "--from-command", "x" * 1_000_000), 2, "characters"),
        (("simulate", "--from-command", "@/nowhere/serve.sh"), 2, "no such file"),
        (("simulate", "--from-command", "@/"), 2, "no such file"),
        (("simulate", "--from-command", f"{QWEN} --config /nowhere.yaml"), 2, "is no file"),
        (("simulate", "--from-command", f"{QWEN} --num-gpus 2"), 4, "one GPU"),
        (("simulate", "--from-command", "sglang serve --model-path no/body"), 2, "name the model with --model"),
        (("simulate", "--from-command", QWEN, "--model", "H3"), 2, "leave one out"),
        (("simulate", "--from-command", QWEN, "--set", "vae.mode=resident"), 2, "leave one out"),
        (("simulate", "--from-command", QWEN, "--engine", "topup"), 2, "leave one out"),
        (("search", "--model", "Qwen-Image", "--fix", "vae.colour=1"), 2, "no knob"),
        (("search", "--model", "Qwen-Image", "--fix", "vae.prefetch=1", "--fix", "vae.prefetch=2"), 2, "contradict"),
        (
            ("search", "--base-command", f"{QWEN} --component-residency vae=resident", "--fix", "vae.resident=1"),
            2,
            "--fix vae.resident=1 and --base-command for vae: mode resident contradict",
        ),
    ],
    ids=range(15),
)
def test_wrong_input_is_one_clear_error(run_cli, arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    got, _, err = run_cli(*arguments)
    assert got == code, err
    assert message in err
    assert len(err) < 1000
    assert not list(tmp_path.iterdir())
