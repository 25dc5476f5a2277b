"""``autotune calibrate``: options that would be ignored, and files that it leaves as they were."""

import pytest

HEAD = "gpu,model,component,resident,latency_s,latency_scope\n"
ROW = "RTX 5090,Qwen-Image,DiT,30,36.68,denoise stage total\n"


@pytest.fixture
def calibrate(run_cli, tmp_path):
    (tmp_path / "runs.csv").write_text(HEAD + ROW, encoding="utf-8")
    fixed = ("--model", "Qwen-Image", "--device", "rtx-5090", "--observed", tmp_path / "runs.csv")
    return lambda *options: run_cli("calibrate", *fixed, *options)


def test_the_table_is_not_written_over(calibrate, tmp_path):
    code, _, err = calibrate("--out", tmp_path / "runs.csv")
    assert (code, "holds no profile" in err) == (2, True)
    assert (tmp_path / "runs.csv").read_text(encoding="utf-8") == HEAD + ROW


def test_the_profile_that_is_read_is_not_written_over(calibrate, tmp_path):
    path = tmp_path / "profile.json"
    assert calibrate("--out", path)[0] == 0
    before = path.read_bytes()
    code, _, err = calibrate("--profile", path, "--out", tmp_path / "." / "profile.json")
    assert (code, "that --profile reads" in err) == (2, True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("options", [("--tp-size", "2"), ("--host-memory", "64GB")])
def test_what_a_table_says_itself_is_not_asked_for_and_ignored(calibrate, options):
    code, _, err = calibrate(*options)
    assert (code, "only tables are given" in err) == (2, True)


def test_a_choice_of_no_run_is_refused(calibrate):
    code, _, err = calibrate("--only", " , ")
    assert (code, "--only names no run" in err) == (2, True)
