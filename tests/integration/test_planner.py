"""Planning from Python gives what the command line writes."""

import pytest

import autotune
from runtime.errors import InputError, UnitError
from runtime.plan_document import load_plan

QUICK = {"model": "Z-Image-Turbo", "device": "rtx-4090", "trials": 0, "advice": False, "max_prefetch": 1}
OPTIONS = (
    *("search", "--model", "Z-Image-Turbo", "--device", "rtx-4090", "--trials", "0", "--no-advice"),
    *("--max-prefetch", "1"),
)


@pytest.fixture(scope="module")
def run():
    return autotune.search(vram_cap="12GiB", name="z-image", **QUICK)


def test_a_run_in_memory_is_what_its_saved_folder_gives(run, tmp_path):
    autotune.save(run, tmp_path / "z-image")
    assert autotune.collect_run(tmp_path / "z-image") == run.data


def test_a_run_in_memory_with_hosts_and_trials_is_what_its_saved_folder_gives(tmp_path):
    run = autotune.search(vram_cap="12GiB", host_memory="24GiB", name="run", **QUICK | {"trials": 5, "advice": True})
    autotune.save(run, tmp_path / "run")
    assert run.data.host_curve
    assert len(run.data.trials) == 5
    assert autotune.collect_run(tmp_path / "run") == run.data


def test_the_command_line_writes_the_same_plan(run, run_cli, tmp_path):
    code, _, err = run_cli(*OPTIONS, "--vram-cap", "12GiB", "--out", tmp_path / "run")
    assert code == 0, err
    document = load_plan(tmp_path / "run" / "plan.json")
    for name in ("plan", "prediction", "findings", "comparisons", "assumptions", "profile_id", "cap", "host"):
        assert getattr(document, name) == getattr(run.plan, name)


def test_a_run_names_the_command_that_repeats_it():
    found = autotune.search(fix=["transformer.policy=strided", "vae.mode=resident"], pin_cpu_memory=False, **QUICK)
    assert found.plan.command == (
        "autotune search --model Z-Image-Turbo --device rtx-4090 --no-pin-cpu-memory --max-prefetch 1 "
        "--fix transformer.policy=strided --fix vae.mode=resident --no-advice --trials 0"
    )
    assert found.plan.plan.placement("vae").mode == "resident"


def test_nothing_fits_is_an_answer_that_says_what_is_missing():
    answer = autotune.search(vram_cap="1GiB", **QUICK)
    assert isinstance(answer, autotune.NothingFits)
    assert answer.nearest.peak.charged_bytes - answer.cap_bytes == answer.short_bytes > 0


def test_an_executed_run_has_a_measurement_that_is_saved_with_it(run, tmp_path):
    executed = autotune.execute(run, repeats=1)
    measured = executed.data.measurement
    assert run.data.measurement is None
    assert measured.latency.median_s == pytest.approx(run.plan.prediction.latency_s, rel=1e-3)
    autotune.save(executed, tmp_path / "z-image")
    assert autotune.collect_run(tmp_path / "z-image") == executed.data


@pytest.mark.parametrize(
    ("wish", "error", "message"),
    [
        ({"vram_cap": "12Gb"}, UnitError, "ambiguous"),
        ({"device": "rtx-9999"}, InputError, "no device is called"),
        ({"recipe": "fast"}, InputError, "recipe is 'fast': known are default, exact"),
        ({"fix": ["transformer.colour=red"]}, InputError, "colour"),
        ({"steps": 0}, InputError, "--steps is 0"),
    ],
)
def test_wrong_wishes_are_refused(wish, error, message):
    with pytest.raises(error, match=message):
        autotune.search(**QUICK | wish)


def test_validating_a_table_compares_what_it_can(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        autotune.validate(tmp_path / "nowhere.csv")
