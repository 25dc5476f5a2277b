import pytest
from table_builders import RUN, build_row, observe, read_text, write_table

from autotune.observed.measured_row import read_row
from autotune.observed.measurement_table import read_measurement_table
from autotune.observed.observation import Reason, Scope
from autotune.observed.refusal import RowRefusedError
from runtime.errors import InputError

HEADER = ",".join(RUN)
LINE = ",".join(RUN.values())


def _reasons(runs):
    return [refused.reason for refused in runs.refused]


def test_three_columns_are_enough(tmp_path):
    runs = read_text(tmp_path, "gpu,model,latency_s\nRTX 4090,Z-Image-Turbo,2.5\n")
    observation = runs.observations[0]
    assert observation.name == "row 1"
    assert observation.where == "runs.csv line 2"
    assert (observation.latencies[0].seconds, observation.latencies[0].scope) == (2.5, Scope.REQUEST)
    assert any("server is not named" in text for text in observation.assumed)


@pytest.mark.parametrize(
    "content",
    [
        f"\ufeff{HEADER}\r\n{LINE}\r\n",
        f"{HEADER}\r{LINE}\r",
        f"\n\n{HEADER}\n\n{LINE}\n\n",
        f"{HEADER}\n{LINE}".replace(",", ";"),
        f"{HEADER}\n{LINE}".replace(",", "\t"),
        f"{HEADER.upper()}\n{LINE}",
        f"{HEADER.replace('_', ' ')}\n{LINE}",
        f"{HEADER},mood\n{LINE},good\n",
    ],
    ids=["mark and CRLF", "CR", "blank lines", "semicolons", "tabs", "upper case", "spaces", "another column"],
)
def test_file_may_be_written_in_any_of_these_ways(tmp_path, content):
    runs = read_text(tmp_path, content)
    assert [observation.settings for observation in runs.observations] == [
        ("transformer.prefetch=1", "transformer.resident=30")
    ]
    assert not runs.refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\ufeff \n", "no usable header"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is no text"),
        ("gpu,latency_s\nRTX 4090,3\n", "lacks model"),
        ("gpu,model\nRTX 4090,H3\n", "has none of latency_s, peak_vram, oom"),
        (LINE, "no usable header"),
    ],
)
def test_file_without_a_usable_header_is_an_error(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_text(tmp_path, content)


def test_folder_and_missing_file_are_errors(tmp_path):
    with pytest.raises(InputError, match="no regular file"):
        read_measurement_table(tmp_path)
    with pytest.raises(InputError, match="cannot read the measurements"):
        read_measurement_table(tmp_path / "none.csv")


@pytest.mark.parametrize(
    "cells",
    [
        {"latency_s": "nan"},
        {"latency_s": "0"},
        {"latency_s": "1e30"},
        {"peak_vram": "inf"},
        {"peak_vram": "24 Gb"},
        {"peak_vram": "24.47 MiB"},
        {"oom": "maybe"},
        {"tp_size": "two"},
        {"forwards_per_step": "9"},
    ],
)
def test_damaged_row_is_refused_alone(tmp_path, cells):
    runs = read_measurement_table(write_table(tmp_path / "runs.csv", cells, {}))
    assert _reasons(runs) == [Reason.UNREADABLE]
    assert next(iter(cells)).partition("_")[0] in runs.refused[0].text
    assert len(runs.observations) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE[:60], "cut off"),
        (LINE.replace("24.47", "24,470"), "quote cells"),
        (f'{LINE[:60]}"broken', "cut off"),
    ],
)
def test_row_with_shifted_cells_is_refused_alone(tmp_path, line, message):
    runs = read_text(tmp_path, f"{HEADER}\n{LINE}\n{line}")
    assert _reasons(runs) == [Reason.UNREADABLE]
    assert message in runs.refused[0].text
    assert runs.refused[0].where == "runs.csv line 3"
    assert len(runs.observations) == 1


def test_quotation_mark_that_is_not_closed_costs_the_rows_behind_it(tmp_path):
    broken = LINE.replace("run-1", '"run-1').removesuffix(",no")
    runs = read_text(tmp_path, f"{HEADER}\n{LINE}\n{broken}\n{LINE}\n{LINE}\n{LINE}\n{LINE}")
    assert len(runs.observations) == 1
    assert _reasons(runs) == [Reason.UNREADABLE]


def test_endless_cell_is_refused_before_it_is_searched(tmp_path):
    runs = read_measurement_table(write_table(tmp_path / "runs.csv", {"notes": "(" * 100_000}, {"notes": "fine"}))
    assert "100,000 characters" in runs.refused[0].text
    assert len(runs.observations) == 1


def test_rows_of_one_id_are_told_apart_by_their_numbers(tmp_path):
    runs = read_measurement_table(write_table(tmp_path / "runs.csv", {}, {"resident": "0"}, {"id": "other"}))
    assert [run.name for run in runs.observations] == ["run-1", "run-1 (row 2)", "other"]


def test_column_that_stands_twice_must_agree_with_itself(tmp_path):
    lines = [f"{HEADER},latency_s", f"{LINE},36.68", f"{LINE},99"]
    runs = read_text(tmp_path, "\n".join(lines))
    assert len(runs.observations) == 1
    assert "latency_s stands there more than once and says '36.68' and '99'" in runs.refused[0].text


def test_header_in_the_middle_is_passed_over(tmp_path):
    runs = read_text(tmp_path, f"{HEADER}\n{LINE}\n{HEADER}\n{LINE}\n")
    assert len(runs.observations) == 2
    assert "header once more" in runs.notes[0]


def test_decimal_comma_is_not_guessed_at(tmp_path):
    runs = read_text(tmp_path, f"{HEADER}\n{LINE}".replace(",", ";").replace("36.68", "36,68"))
    assert "decimal comma" in runs.refused[0].text


def test_numbers_that_a_program_wrote_with_a_point_are_whole(tmp_path):
    row = {"prefetch": "1.0", "resident": "30.0", "steps": "50.0", "vram_gib": "NaN", "policy": "nan"}
    runs = read_measurement_table(write_table(tmp_path / "runs.csv", row))
    assert runs.observations[0].settings == ("transformer.prefetch=1", "transformer.resident=30")


def test_rows_of_another_model_are_refused_where_one_is_wanted(tmp_path):
    path = write_table(tmp_path / "runs.csv", {}, {"model": "FLUX.1-dev"})
    runs = read_measurement_table(path, "qwen-image")
    assert [observation.setup.model for observation in runs.observations] == ["Qwen-Image"]
    assert "only Qwen-Image is wanted" in runs.refused[0].text
    with pytest.raises(InputError, match="unknown model"):
        read_measurement_table(path, "Qwen")


def test_many_rows_are_read(tmp_path):
    lines = "\n".join(LINE.replace("run-1", f"run-{number}") for number in range(20_000))
    assert len(read_text(tmp_path, f"{HEADER}\n{lines}").observations) == 20_000


def test_columns_of_users_reach_the_setup():
    observation = observe(
        width="512",
        height="768",
        host_memory="64GB",
        settings="vae.mode=resident",
        server="sglang 0.5.23",
        tp_size="2",
        forwards_per_step="1",
    )
    setup = observation.setup
    assert (setup.workload.width, setup.workload.height, setup.host_bytes) == (512, 768, 64 * 10**9)
    assert (setup.tp_size, setup.forwards_per_step, setup.server) == (2, 1, "sglang 0.5.23")
    assert observation.settings[-1] == "vae.mode=resident"


def test_variant_that_is_named_is_not_refused_as_quantised():
    assert observe(model="MiniMax-H3 FP8", variant="fp8", workload="864x480 124f").setup.variant == "fp8"
    with pytest.raises(RowRefusedError, match="no variant"):
        read_row(build_row(variant="fp8"))


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"gpu": "RTX 9090"}, Reason.UNKNOWN_DEVICE),
        ({"model": "Qwen-Image-2.1"}, Reason.UNKNOWN_MODEL),
        ({"model": "Qwen-Image int8"}, Reason.QUANTISED),
        ({"gpu": "2x RTX 5090"}, Reason.SEVERAL_GPUS),
        ({"source": "vllm-project/vllm-omni"}, Reason.OTHER_ENGINE),
        ({"source": "someone's blog"}, Reason.OTHER_ENGINE),
        ({"model": "H3", "workload": ""}, Reason.NO_WORKLOAD),
        ({"latency_s": "", "peak_vram": ""}, Reason.NO_FIGURE),
        ({"latency_scope": "load", "peak_vram": ""}, Reason.NOT_EXPRESSIBLE),
        ({"component": "DiT, TeaCache"}, Reason.NOT_EXPRESSIBLE),
        ({"oom": "yes (while loading)"}, Reason.NOT_EXPRESSIBLE),
        ({"oom": "host OOM-kill"}, Reason.NOT_EXPRESSIBLE),
    ],
)
def test_every_kind_of_row_that_cannot_be_compared_has_its_reason(cells, reason):
    with pytest.raises(RowRefusedError) as caught:
        read_row(build_row(**cells))
    assert caught.value.reason is reason


def test_figure_that_cannot_be_compared_does_not_cost_the_other(tmp_path):
    runs = read_measurement_table(write_table(tmp_path / "runs.csv", {"latency_scope": "load"}))
    assert runs.observations[0].peak is not None
    assert not runs.observations[0].latencies
    assert "run-1 (runs.csv line 2): not used: latency_s is '36.68' (load)" in runs.notes[0]


def test_run_that_notes_compare_with_is_an_observation_of_its_own():
    row = build_row(
        resident="0",
        latency_s="11.6",
        latency_scope="per step",
        notes="10 resident layers beat 0 (10.4 vs 11.6 s/step)",
    )
    first, second = read_row(row).observations
    assert second.name == "run-1 (10 resident)"
    assert second.settings == ("transformer.prefetch=1", "transformer.resident=10")
    assert second.latencies[0].seconds == 10.4
    assert second.setup == first.setup


@pytest.mark.parametrize(("resident", "latency"), [("5", "11.6"), ("0", "12.0")])
def test_run_that_notes_compare_with_something_else_is_left_out(resident, latency):
    notes = "10 resident layers beat 0 (10.4 vs 11.6 s/step)"
    row = build_row(resident=resident, latency_s=latency, latency_scope="per step", notes=notes)
    assert len(read_row(row).observations) == 1


def test_run_with_other_kernels_says_so():
    assert any("torch.compile" in text for text in observe(component="DiT + torch.compile").caveats)
