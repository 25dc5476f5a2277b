"""``autotune verify``: a real plan beside what the server's own code wrote for it, and hostile input."""

import json
import shutil
from pathlib import Path

import pytest
from builders import build_component, build_plan, kept, streamed
from execution_builders import build_run
from observed_builders import format_log, write_dump

from runtime.plan_document import save_plan

DATA = Path(__file__).parents[1] / "data" / "observed"
LOG, DUMP = DATA / "qwen_image_server.log", DATA / "qwen_image_perf_dump.json"
FIXED = (
    "transformer.resident=20", "transformer.prefetch=1", "transformer.policy=leading", "transformer.lifetime=forward",
    "text_encoder.mode=layerwise-offload", "text_encoder.resident=0", "text_encoder.prefetch=1", "vae.mode=resident",
)  # fmt: skip


@pytest.fixture
def toy(tmp_path):
    """A folder with the plan of a toy model, and the log and dump of a server that follows it."""

    def write(name, *, resident=0):
        components = {"transformer": build_component(8, is_dit=True, passes=10), "vae": build_component(2)}
        document, _ = build_run(components, build_plan(streamed(resident=resident), kept("vae")))
        folder = tmp_path / name
        folder.mkdir()
        save_plan(document, folder / "plan.json")
        (folder / "server.log").write_text("\n".join(format_log(document)))
        (folder / "dump.json").write_bytes(write_dump(document))
        return folder

    return write


def test_a_real_plan_is_confirmed_by_what_the_servers_own_code_wrote(run_cli, tmp_path):
    fixes = [word for setting in FIXED for word in ("--fix", setting)]
    code, _, err = run_cli(
        "search", "--model", "Qwen-Image", "--device", "rtx-5090", "--vram-cap", "24GiB", "--trials", "0",
        "--no-advice", "--out", tmp_path, *fixes,
    )  # fmt: skip
    assert code == 0, err
    code, out, _ = run_cli("verify", tmp_path / "plan.json", "--log", LOG, "--perf-dump", DUMP, "--json")
    result = json.loads(out)
    outcomes = [check["outcome"] for check in result["plans"][0]["verification"]["checks"]]
    assert (code, result["took_effect"], result["not_read"]) == (0, True, [])
    assert outcomes.count("confirmed") == 12
    assert outcomes.count("not observable") == 1


def test_a_followed_plan_ends_with_0_and_says_so_first(toy, run_cli):
    folder = toy("a")
    code, out, err = run_cli("verify", folder / "plan.json", "--log", folder / "server.log")
    assert (code, err) == (0, "")
    assert "took effect, as far as was observed" in " ".join(out.split())
    assert "MISMATCH" not in out


def test_a_plan_that_was_not_followed_ends_with_1_and_names_the_first_mismatch(toy, run_cli):
    planned, other = toy("planned", resident=4), toy("other")
    code, out, _ = run_cli("verify", planned / "plan.json", "--log", other / "server.log")
    text = " ".join(out.split())
    assert code == 1
    assert "the first mismatch is the placement of transformer: expected layerwise-offload, resident 4/8" in text
    assert "observed layerwise-offload, resident 0/8, prefetch 1" in text


def test_two_plans_observed_alike_are_flagged_as_not_read(toy, run_cli):
    one, two = toy("one"), toy("two", resident=4)
    code, out, _ = run_cli(
        "verify", one / "plan.json", two / "plan.json", "--log", one / "server.log", "--log", one / "server.log"
    )
    assert code == 1
    assert "not read:" in out


def test_a_log_of_another_model_is_said_to_be_one(toy, run_cli):
    folder = toy("a")
    code, out, _ = run_cli("verify", folder / "plan.json", "--log", LOG, "--perf-dump", DUMP)
    assert code == 1
    assert "the first mismatch is the placement of transformer" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing was observed: give the server's output with --log"),
        (("--log", "a/server.log", "--log", "a/server.log"), "--log is given 2 times for 1 plans"),
        (("--log", "missing.log"), "cannot read the log"),
        (("--log", "a/plan.json"), "is of SGLang-diffusion's log"),
        (("--perf-dump", "a/plan.json"), "is no perf dump"),
        (("--perf-dump", "a/server.log"), "is not JSON"),
        (("--perf-dump", "empty"), "is empty"),
        (("--log", "empty"), "is of SGLang-diffusion's log"),
        (("--log", "binary"), "is of SGLang-diffusion's log"),
        (("--perf-dump", "binary"), "is no text at byte"),
    ],
)
def test_wrong_input_ends_with_2_and_a_sentence(toy, run_cli, tmp_path, monkeypatch, arguments, message):
    toy("a")
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)) * 400)
    monkeypatch.chdir(tmp_path)
    code, _, err = run_cli("verify", "a/plan.json", *arguments)
    assert code == 2
    assert message in " ".join(err.split())


def test_something_else_than_a_plan_is_refused(run_cli):
    code, _, err = run_cli("verify", DUMP, "--log", LOG)
    assert code == 2
    assert "is no plan" in " ".join(err.split())


def test_damaged_observations_are_used_as_far_as_they_go(toy, run_cli, tmp_path):
    folder = toy("a")
    content = (folder / "dump.json").read_bytes()
    (folder / "cut.json").write_bytes(content[: content.index(b'"memory_checkpoints"')])
    shutil.copy(folder / "server.log", folder / "long.log")
    with (folder / "long.log").open("ab") as file:
        file.write(b"\xff\x00" * 1_000_000 + b"\nLayerwise offload ready for transformer (Toy) in 1.")
    code, out, _ = run_cli(
        "verify", folder / "plan.json", "--log", folder / "long.log", "--perf-dump", folder / "cut.json"
    )
    text = " ".join(out.split())
    assert code == 0
    assert "the file is cut off after" in text
    assert "is cut off or of an unknown release" in text
