"""``autotune validate``: what it prints and writes, and hostile input."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from builders import build_component, build_facts
from planning_builders import build_target

from autotune.profile import Profile, encode_profile

HEAD = (
    "id,source,date,gpu,vram_gib,model,component,layers,weight_bytes,workload,steps,prefetch,resident,policy,pin,"
    "peak_vram,peak_unit,latency_s,latency_scope,oom,notes\n"
)
ROWS = {
    "streamed": "A,sgl-project/sglang PR #1,2026-09-17,RTX 4090,24,FLUX.1-dev,text encoders CLIP+T5,,,one pass,1,1,0,"
    "leading,,,,0.48,component stage only,no,\n",
    "resident": "B,sgl-project/sglang PR #1,2026-09-17,RTX 4090,24,FLUX.1-dev,text encoders CLIP+T5,,,one pass,1,,all,"
    "resident,,,,0.057,component stage only,no,\n",
    "quantised": "C,sgl-project/sglang PR #1,2026-09-17,RTX 4090,24,FLUX.1-dev nf4,DiT,,,,1,1,0,leading,,9,GiB,,,no,\n",
    "too many": "D,sgl-project/sglang PR #1,2026-09-17,RTX 4090,24,FLUX.1-dev,DiT,,,1024x1024,50,1,99,leading,,9,GiB,"
    ",,no,\n",
    "not a number": "E,sgl-project/sglang PR #1,2026-09-17,RTX 4090,24,FLUX.1-dev,DiT,,,1024x1024,50,1,0,leading,,nan,"
    "GiB,,,no,\n",
}


@pytest.fixture
def write_table(tmp_path):
    def write(*names, head=HEAD):
        path = tmp_path / "runs.csv"
        path.write_text(head + "".join(ROWS[name] for name in names), encoding="utf-8")
        return path

    return write


def test_compared_and_refused_rows_are_printed_and_written(run_cli, write_table, tmp_path):
    folder = tmp_path / "out"
    code, out, err = run_cli("validate", "--against", write_table(*ROWS), "--out", folder)
    assert (code, "Compared: 2 runs on one card; 3 cannot be compared" in out) == (0, True), err
    assert "longest stack has" in out.replace("\n", " ")
    assert sorted(path.name for path in folder.iterdir()) == [
        "validation-latency.png",
        "validation.csv",
        "validation.json",
        "validation.md",
    ]
    frame = pd.read_csv(folder / "validation.csv")
    assert list(frame["run"]) == ["A", "B", "C", "E", "D"]
    assert list(frame["outcome"].str.startswith("not compared")) == [False, False, True, True, True]
    assert (folder / "validation-latency.png").read_bytes().startswith(b"\x89PNG")


def test_json_has_figures_groups_and_refusals(run_cli, write_table, tmp_path):
    code, out, err = run_cli("validate", "--against", write_table(*ROWS), "--out", tmp_path / "out", "--json")
    assert code == 0, err
    found = json.loads(out)
    (group,) = found["groups"]
    assert group["fitted_on"] == ["A"]
    assert [figure["run"] for figure in group["figures"]] == ["B"]
    assert [item["verdict"] for item in group["differences"]] == ["right"]
    assert found["refusals"] == {"quantised": 1, "unreadable": 1, "not expressible": 1}
    assert {figure["unit"] for figure in found["figures"]} == {"s"}


def test_other_models_are_left_out_on_request(run_cli, write_table, tmp_path):
    table = write_table("streamed")
    code, _, err = run_cli("validate", "--against", table, "--model", "H3", "--out", tmp_path / "out")
    assert code == 2
    assert "only H3 is wanted" in err


@pytest.mark.parametrize(
    ("names", "head", "text"),
    [
        (("quantised",), HEAD, "no run can be compared"),
        ((), HEAD, "no run can be compared"),
        (("streamed",), "speed,colour\n", "no usable header"),
    ],
)
def test_table_without_a_comparable_row_is_refused_and_nothing_is_written(
    run_cli, write_table, tmp_path, names, head, text
):
    code, _, err = run_cli("validate", "--against", write_table(*names, head=head), "--out", tmp_path / "out")
    assert (code, text in err) == (2, True), err
    assert not (tmp_path / "out").exists()


def test_missing_table_and_taken_folder_are_refused(run_cli, write_table, tmp_path):
    code, _, err = run_cli("validate", "--against", tmp_path / "none.csv", "--out", tmp_path / "out")
    assert (code, "none.csv" in err) == (2, True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    code, _, err = run_cli("validate", "--against", write_table("streamed"), "--out", tmp_path / "out", "--overwrite")
    assert (code, "mine.txt" in err) == (2, True)


def test_validation_is_replaced_only_on_request(run_cli, write_table, tmp_path):
    table, folder = write_table("streamed"), tmp_path / "out"
    assert run_cli("validate", "--against", table, "--out", folder)[0] == 0
    assert run_cli("validate", "--against", table, "--out", folder)[0] == 2
    assert run_cli("validate", "--against", table, "--out", folder, "--overwrite")[0] == 0


def test_a_profile_of_a_card_that_no_run_is_of_is_refused(run_cli, write_table, tmp_path):
    path = tmp_path / "profile.json"
    facts, target = build_facts({"transformer": build_component(2, is_dit=True)}), build_target(50_000)
    device = replace(target.device, name="rtx-5090")
    path.write_bytes(encode_profile(Profile(facts=facts, rates=target.rates, context_bytes=0, device=device)))
    options = ("--profile", path, "--out", tmp_path / "out")
    code, _, err = run_cli("validate", "--against", write_table("streamed"), *options)
    assert (code, "--profile is of 1 x rtx-5090" in err) == (2, True)


def test_damaged_profile_and_unknown_engine_are_refused(run_cli, write_table, tmp_path):
    table, damaged = write_table("streamed"), tmp_path / "profile.json"
    damaged.write_text("{}")
    assert run_cli("validate", "--against", table, "--profile", damaged, "--out", tmp_path / "out")[0] == 2
    assert run_cli("validate", "--against", table, "--engine", "sglang@9.9", "--out", tmp_path / "out")[0] in {2, 4}
