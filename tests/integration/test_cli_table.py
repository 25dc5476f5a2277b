"""``autotune table`` end to end on a real model."""

import csv
import json

import pytest

TABLE = (
    "table", "--model", "Qwen-Image", "--device", "rtx-4090", "--sizes", "1024x1024,512x512x1,1024x1024", "--caps",
    "4GiB,12GiB,16GiB", "--max-prefetch", "1",
)  # fmt: skip


def test_table_has_a_row_per_size_and_cap_on_the_terminal_and_in_one_file(run_cli, tmp_path):
    code, out, err = run_cli(*TABLE, "--out", tmp_path / "table")
    assert code == 0, err
    with (tmp_path / "table" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["request"], int(row["cap_bytes"]) // 2**30) for row in rows] == [
        (size, cap) for size in ("1024x1024", "512x512") for cap in (4, 12, 16)
    ]
    assert [row["fits"] for row in rows] == ["False", "True", "True"] * 2
    assert all(int(row["charged_bytes"]) <= int(row["cap_bytes"]) for row in rows if row["fits"] == "True")
    assert all(int(row["short_bytes"]) > 0 for row in rows if row["fits"] == "False")
    assert "note: 1024x1024 runs as 1024x1024" not in err
    for words in ("nothing fits", "missing", "safest single choice", "the rule:"):
        assert words in " ".join(out.split())


def test_json_has_the_safest_plan_with_its_slowdown_per_pair(run_cli, tmp_path):
    code, out, _ = run_cli(*TABLE, "--out", tmp_path / "table", "--json")
    answer = json.loads(out)
    assert code == 0
    assert len(answer["rows"]) == len(answer["safest"]["slowdown_ratios"]) == 6
    known = [ratio for ratio in answer["safest"]["slowdown_ratios"] if ratio is not None]
    assert answer["safest"]["worst_ratio"] == max(known)
    assert answer["safest"]["cap_bytes"] == 12 * 2**30


def test_nothing_fits_has_its_own_exit_code_and_still_a_table(run_cli, tmp_path):
    code, out, _ = run_cli(
        "table", "--model", "Qwen-Image", "--device", "rtx-4090", "--sizes", "1024x1024", "--caps", "2GiB",
        "--max-prefetch", "1", "--out", tmp_path / "table",
    )  # fmt: skip
    assert code == 3
    assert "nothing fits anywhere" in out
    assert (tmp_path / "table" / "table.csv").exists()


def test_a_finished_table_and_foreign_files_are_not_overwritten(run_cli, tmp_path):
    small = (
        "table", "--model", "Qwen-Image", "--device", "rtx-4090", "--sizes", "512x512", "--caps", "16GiB",
        "--max-prefetch", "1", "--out", tmp_path / "table",
    )  # fmt: skip
    assert run_cli(*small)[0] == 0
    code, _, err = run_cli(*small)
    assert code == 2
    assert "--overwrite" in err
    assert run_cli(*small, "--overwrite")[0] == 0
    (tmp_path / "table" / "mine.txt").write_text("")
    code, _, err = run_cli(*small, "--overwrite")
    assert code == 2
    assert "mine.txt" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sizes", "864", "--caps", "24GiB"), "'864' is no size"),
        (("--sizes", "864x480x124", "--caps", "24Gb"), "reads as bits"),
        (("--sizes", "864x480x124", "--caps", "24GiB", "--tie-ratio", "1"), "--tie-ratio"),
        (("--sizes", "865x480x124", "--caps", "24GiB"), "the nearest is --width 864"),
        (("--sizes", "864x480x2000", "--caps", "24GiB"), "--frames is 2000"),
        (("--sizes", "864x480x124", "--caps", "24GiB", "--variant", "auto"), "no variant 'auto'"),
    ],
)
def test_wrong_input_gets_one_message_before_any_file(run_cli, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_cli("table", *arguments)
    assert code == 2
    assert message in " ".join(err.split())
    assert not list(tmp_path.iterdir())


def test_frames_that_the_server_rounds_are_told(run_cli, tmp_path):
    code, out, err = run_cli(
        "table", "--model", "Wan2.1-T2V-1.3B", "--device", "rtx-4090", "--sizes", "832x480x83,832x480x81", "--caps",
        "24GiB", "--max-prefetch", "1", "--out", tmp_path / "table", "--json",
    )  # fmt: skip
    assert code == 0
    assert "note: 832x480x83 runs as 832x480x81" in err
    assert [row["request"] for row in json.loads(out)["rows"]] == ["832x480x81"]
