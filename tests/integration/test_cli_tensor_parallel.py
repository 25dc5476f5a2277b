"""``--tp-size``: per-GPU plans in search, simulate and table, the commands they are read from and written to."""

import json

import pytest

from runtime.errors import PlanError, UnsupportedError
from runtime.plan_document import load_plan
from runtime.session import executable_of

CARD = ("--device", "rtx-5090", "--host-memory", "377GiB")
TWO = ("--model", "H3", *CARD, "--tp-size", "2")
COMMAND = "sglang serve --model-path MiniMaxAI/MiniMax-H3 --num-gpus 2 --tp-size 2 --dit-layerwise-offload"


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory):
    """The folder of a search for two ranks."""
    folder = tmp_path_factory.mktemp("ranks") / "run"
    with pytest.MonkeyPatch.context() as patch:
        options = ["--vram-cap", "24GiB", "--trials", "0", "--max-prefetch", "1", "--out", str(folder)]
        patch.setattr("sys.argv", ["autotune", "search", *TWO, *options])
        from autotune.cli import main  # noqa: PLC0415 - after the arguments are in place

        with pytest.raises(SystemExit, match="0"):
            main()
    return folder


def words(text):
    return " ".join(text.split())


def test_a_search_for_two_ranks_plans_one_of_them_and_says_so(saved_run):
    document = load_plan(saved_run / "plan.json")
    assert document.tp_size == 2
    assert document.model.component("transformer").run_bytes < 34e9
    assert document.device.figures["exchange_bytes_per_s"].value == pytest.approx(0.59 * 50.5e9)
    assert "All figures are per GPU" in " ".join(document.findings)
    report = (saved_run / "report.md").read_text()
    assert "of VRAM on each of 2 GPUs (" in report
    assert "tensor parallel over 2 GPUs" in report


def test_its_command_asks_for_two_gpus_and_is_read_back_as_the_same_plan(saved_run, run_cli):
    flags = (saved_run / "flags.txt").read_text().splitlines()
    assert {"--num-gpus 2", "--tp-size 2"} <= set(flags)
    command = " ".join(["sglang serve --model-path MiniMaxAI/MiniMax-H3", *flags])
    code, out, err = run_cli("simulate", "--from-command", command, *CARD, "--vram-cap", "24GiB", "--json")
    assert code == 0, err
    report = json.loads(out)
    document = load_plan(saved_run / "plan.json")
    assert report["simulation"]["tp_size"] == 2
    assert report["simulation"]["prediction"]["latency_s"] == pytest.approx(document.prediction.latency_s)


def test_its_profile_is_of_one_rank_and_stays_so(saved_run, run_cli):
    profile = saved_run / "profile.json"
    code, out, err = run_cli("simulate", "--profile", profile, "--host-memory", "377GiB", "--json")
    assert code == 0, err
    assert json.loads(out)["tp_size"] == 2
    for options, message in ((("--tp-size", "4"), "one of 2 ranks"), (("--shared-link",), "already says how fast")):
        code, _, err = run_cli("simulate", "--profile", profile, *options)
        assert code == 2
        assert message in err


def test_a_plan_of_two_ranks_is_not_executed(saved_run, run_cli):
    code, _, err = run_cli("run", saved_run / "plan.json", "--device", "emulated", "--clock", "virtual")
    assert code == 4
    assert "executed on one" in err
    with pytest.raises(UnsupportedError, match="2 GPUs in tensor parallel"):
        executable_of(load_plan(saved_run / "plan.json"))


def test_a_plan_saved_before_ranks_were_known_is_of_one_card(saved_run, tmp_path):
    saved = json.loads((saved_run / "plan.json").read_text())
    del saved["tp_size"]
    (tmp_path / "plan.json").write_text(json.dumps(saved))
    assert load_plan(tmp_path / "plan.json").tp_size == 1
    (tmp_path / "plan.json").write_text(json.dumps({**saved, "tp_size": 0}))
    with pytest.raises(PlanError, match="at least one rank"):
        load_plan(tmp_path / "plan.json")


def test_a_shared_link_makes_copies_and_exchanges_slower(run_cli):
    answers = []
    for options in ((), ("--shared-link",), ("--exchange-rate", "400GB/s")):
        code, out, err = run_cli("simulate", *TWO, *options, "--json")
        assert code == 0, err
        answers.append(json.loads(out)["prediction"]["latency_s"])
    own_links, shared_link, nvlink = answers
    assert nvlink < own_links < shared_link


def test_a_host_that_cannot_pin_for_all_ranks_is_a_warning(run_cli):
    code, out, err = run_cli("simulate", "--model", "H3", "--device", "rtx-5090", "--tp-size", "2",
                             "--host-memory", "125GB")  # fmt: skip
    assert code == 0, err
    assert "does not divide it" in words(out)
    assert "of each rank" in words(out)


def test_a_table_of_two_ranks_fits_where_one_card_does_not(run_cli, tmp_path):
    fits = []
    for number, ranks in enumerate((("--tp-size", "2"), ())):
        options = (
            "--sizes",
            "1344x768x124",
            "--caps",
            "9900MiB",
            "--max-prefetch",
            "1",
            "--peak-quantile",
            "0.5",
            "--out",
            tmp_path / str(number),
        )
        code, out, err = run_cli("table", "--model", "H3", *CARD, *ranks, *options, "--json")
        assert code in {0, 3}, err
        fits.append(json.loads(out)["outcome"])
    assert fits == ["planned", "nothing fits"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("simulate", "--model", "H3", *CARD, "--tp-size", "0"), 2, "tp-size"),
        (("simulate", "--model", "H3", *CARD, "--tp-size", "3"), 4, "take one of 2, 4, 8"),
        (("simulate", "--model", "H3", *CARD, "--shared-link"), 2, "give --tp-size"),
        (("simulate", *TWO, "--exchange-rate", "fast"), 2, "rate"),
        (("simulate", *TWO, "--variant", "fp8"), 4, "leave out --variant"),
        (("search", *TWO, "--variant", "auto"), 4, "leave one out"),
        (("search", *TWO, "--engine", "topup"), 4, "runs on one card"),
        (("simulate", "--model", "Qwen-Image", *CARD, "--tp-size", "2"), 4, "only H3"),
        (("simulate", "--from-command", COMMAND, *CARD, "--tp-size", "4"), 2, "the command runs 2 ranks"),
        (("simulate", "--from-command", f"{COMMAND} --num-gpus 4", *CARD), 4, "sequence or guidance parallel"),
        (("simulate", "--from-command", f"{COMMAND} --tp-size 4", *CARD), 2, "divisible by --tp-size"),
    ],
    ids=range(11),
)
def test_what_ranks_cannot_do_is_one_clear_error(run_cli, arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    got, _, err = run_cli(*arguments)
    assert got == code, err
    assert message in err
