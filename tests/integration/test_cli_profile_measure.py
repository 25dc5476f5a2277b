"""``autotune profile`` on this machine's processor, from the command line to a plan."""

import json
from dataclasses import replace

import pytest
from profiling_builders import H3, QWEN_IMAGE

from autotune.catalog import registry
from autotune.measure import node
from autotune.measure.timing import PROTOCOLS
from autotune.measurements.model_profile import load_model_profile
from autotune.measurements.node_profile import load_node_profile
from autotune.measurements.timing import Effort
from runtime.plan_document import load_plan

SEARCH = ("--trials", "0", "--max-prefetch", "2", "--vram-cap", "4GiB", "--no-advice")


@pytest.fixture(autouse=True)
def reduced_catalog(tmp_path_factory, monkeypatch):
    """A catalog of two models of a few narrow layers, copies of 1 MiB at the most, few samples: all to save time."""
    monkeypatch.setattr(registry, "CATALOG", (H3, QWEN_IMAGE))
    monkeypatch.setattr(node, "choose_most_bytes", lambda *_: 2**20)
    monkeypatch.setitem(PROTOCOLS, Effort.QUICK, replace(PROTOCOLS[Effort.QUICK], limit_s=0.05))
    monkeypatch.setenv("AUTOTUNE_PROFILE_DIR", str(tmp_path_factory.mktemp("store")))


def stored(tmp_path, kind):
    (path,) = tmp_path.glob(f"{kind}-*.json")
    return path


@pytest.mark.parametrize("name", ["H3", "Qwen-Image"])
def test_a_reduced_model_is_profiled_on_the_processor_and_planned_from_that(run_cli, tmp_path, name):
    code, out, err = run_cli("profile", "--model", name, "--device", "cpu", "--quick", "--out", tmp_path / "carried")
    assert code == 0, err
    assert "timings were made now" in out
    model = load_model_profile(stored(tmp_path / "carried", "model"))
    links = load_node_profile(stored(tmp_path / "carried", "node")).links
    assert {piece.record.outcome for piece in model.pieces} == {"measured"}
    assert {link.kind for link in links} >= {"pinned_h2d", "pageable_h2d", "d2h"}
    code, out, err = run_cli("search", "--model", name, "--device", "cpu", *SEARCH, "--out", tmp_path / "plan")
    assert code == 0, err
    plan = load_plan(tmp_path / "plan" / "plan.json")
    once = sum(piece.record.timing.median_s for piece in model.pieces)
    assert plan.prediction.latency_s >= plan.prediction.compute_s > once / len(model.pieces)
    assert plan.prediction.source.startswith("predicted from measurements (compute of text_encoder")
    assert "Estimated, not measured" not in out


def test_a_second_run_reuses_what_is_valid_and_says_so(run_cli):
    options = ("profile", "--model", "Qwen-Image", "--device", "cpu", "--quick", "--component", "vae")
    first_code, first, _ = run_cli(*options)
    second_code, second, _ = run_cli(*options)
    assert (first_code, second_code) == (0, 0)
    assert "earlier runs" not in first
    assert "0 timings were made now; " in second
    assert "of earlier runs are still valid and were used again" in second


def test_an_emulated_card_is_profiled_with_the_speed_of_its_preset(run_cli):
    code, out, _ = run_cli(
        "profile", "--model", "Qwen-Image", "--device", "emulated", "--like", "rtx-5090", "--quick", "--json"
    )
    answer = json.loads(out)
    assert code == 0
    assert answer["model"]["kind"]["title"] == "emulated NVIDIA GeForce RTX 5090"
    assert len(answer["files"]) == 2
    assert "nothing here was measured on a card" in answer["model"]["notes"][0]


@pytest.mark.parametrize(
    ("options", "message", "exit_code"),
    [
        (("--device", "cuda:0"), "finds no CUDA device here", 4),
        (("--device", "tpu"), "There is no device 'tpu'", 2),
        (("--device", "cpu", "--like", "h100"), "--like says how fast an emulated card is", 2),
        (("--device", "cpu", "--quick", "--thorough"), "contradict each other", 2),
        (("--device", "cpu", "--component", "unet"), "H3 has text_encoder, transformer, audio_vae, video_vae", 2),
        (("--device", "cpu", "--attention", "magic"), "attention 'magic' is not known: choose auto, math", 2),
        (("--device", "cpu", "--autocast", "int8"), "autocast 'int8' is not known: choose none", 2),
        (("--device", "emulated", "--like", "rtx-9999"), "no device is called 'rtx-9999'", 2),
        (("--model", "nope"), "unknown model 'nope'", 2),
        (("--device", "cpu", "--disk", "/nowhere/file"), "/nowhere/file cannot be read", 2),
    ],
)
def test_wrong_input_is_one_clear_error(run_cli, options, message, exit_code):
    code, _, err = run_cli("profile", *options)
    assert (code, err.count("\n")) == (exit_code, 1)
    assert message in err
