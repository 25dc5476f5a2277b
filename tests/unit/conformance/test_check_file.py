import json
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.conformance import RecordKind, check_file
from runtime.errors import InputError

DATA = Path(__file__).parents[2] / "data"
FILES = {
    "schedule": (DATA / "sglang_schedule_traces.jsonl", RecordKind.SCHEDULE, 157),
    "timing": (DATA / "sglang_timing_cases.jsonl", RecordKind.TIMING, 84),
    "lifecycle": (DATA / "sglang_lifecycle_cases.jsonl", RecordKind.LIFECYCLE, 36),
    "flags": (DATA / "sglang_flag_cases.jsonl", RecordKind.FLAGS, 98),
    "hosting": (DATA / "sglang_hosting_cases.jsonl", RecordKind.HOSTING, 90),
    "defaults": (DATA / "sglang_default_cases.jsonl", RecordKind.DEFAULTS, 86),
}


def read_records(name):
    return [json.loads(line) for line in FILES[name][0].read_text(encoding="utf-8").splitlines()]


def write_records(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FILES)
def test_every_recorded_case_is_reproduced(name):
    path, kind, count = FILES[name]
    report = check_file(path)
    assert [difference.describe() for difference in report.differences] == []
    assert (report.path, report.kind, report.matched, report.total) == (str(path), kind, count, count)
    assert report.agrees


def set_in(record, path, value):
    *parents, last = path
    for key in parents:
        record = record[key]
    record[last] = value


# One altered field each: file, record, path inside the record, new value, field that must be named.
ALTERATIONS = [
    ("schedule", 0, ("setup", 1, 2), 5, "setup[1]"),
    ("schedule", 7, ("setup_live", "a"), [0, 1, 2, 3, 4], "setup_live"),
    ("schedule", 3, ("passes", 1, 0), ["run", "a", 0], "passes[1][0]"),
    ("schedule", 3, ("passes", 0), [], "passes[0][0]"),
    ("schedule", 11, ("live_after_passes", "a"), [9], "live_after_passes"),
    ("schedule", 0, ("finish", 0, 2), 7, "finish[0]"),
    ("schedule", 12, ("live_after_finish", "a"), [9], "live_after_finish"),
    ("schedule", 156, ("next_request_first_pass", 0, 0), "evict", "next_request_first_pass[0]"),
    ("timing", 5, ("first_pass_after_load_s",), 1.25, "first_pass_after_load_s"),
    ("timing", 5, ("second_pass_s",), 1.25, "second_pass_s"),
    ("timing", 83, ("steady_pass_s",), 1.25, "steady_pass_s"),
    ("timing", 0, ("peak_live_bytes",), 2590654143, "peak_live_bytes"),
    ("lifecycle", 4, ("live_after_load", "transformer.blocks"), [4], "live_after_load"),
    ("lifecycle", 4, ("requests", 0, "actions", 0, 0), "in_use", "requests[0].actions[0]"),
    ("lifecycle", 35, ("requests", 1, "actions", -1), ["end_use", "video_vae"], "requests[1].actions"),
    ("lifecycle", 9, ("requests", 1, "live_idle", "video_vae.decoder"), [1], "requests[1].live_idle"),
    ("lifecycle", 9, ("requests", 0, "live_idle", "audio_vae.unused"), [], "requests[0].live_idle"),
    ("flags", 0, ("components", "transformer_2", "counts", "5"), [1, 4], "components.transformer_2.counts.5"),
    ("flags", 0, ("components", "vae", "mode"), "resident", "components.vae.mode"),
    ("flags", 0, ("components", "vae", "resident_value"), 0.5, "components.vae.resident_value"),
    ("flags", 0, ("argv",), ["--layerwise-resident-layers", "transformer"], "error"),
    ("defaults", 0, ("components", "transformer", "mode"), "resident", "components.transformer.mode"),
    ("defaults", 0, ("components", "vae", "prefetch_value"), 2.0, "components.vae.prefetch_value"),
    ("defaults", 0, ("components", "vae", "policy"), "strided", "components.vae.policy"),
    ("defaults", 1, ("performance_mode",), "memory", "components.text_encoder.mode"),
    ("defaults", 1, ("components", "vae", "lifetime"), "forward", "components.vae.lifetime"),
]


@pytest.mark.parametrize(
    ("name", "index", "path", "value", "field"), ALTERATIONS, ids=[f"{a[0]}-{a[4]}-{a[1]}" for a in ALTERATIONS]
)
def test_one_altered_record_is_named_with_its_field(tmp_path, name, index, path, value, field):
    records = read_records(name)
    set_in(records[index], path, value)
    report = check_file(write_records(tmp_path / "altered.jsonl", records))
    assert (report.matched, report.total) == (len(records) - 1, len(records))
    assert not report.agrees
    assert {difference.line for difference in report.differences} == {index + 1}
    assert report.differences[0].field.startswith(field)
    assert report.differences[0].describe().startswith(f"line {index + 1}, {field}")


def test_an_altered_refusal_is_named(tmp_path):
    records = [record for record in read_records("flags") if "error" in record][:2]
    records[1]["error"] = "usage" if records[1]["error"] != "usage" else "ValueError"
    [difference] = check_file(write_records(tmp_path / "altered.jsonl", records)).differences
    assert (difference.line, difference.field) == (2, "error")


def test_a_difference_shows_what_was_recorded_and_what_we_find(tmp_path):
    record = read_records("timing")[0]
    record["steady_pass_s"] = 0.5
    [difference] = check_file(write_records(tmp_path / "altered.jsonl", [record])).differences
    assert difference.expected == "0.5"
    assert float(difference.got) == pytest.approx(0.13727165373315597)


def test_times_may_differ_by_rounding_only(tmp_path):
    record = read_records("timing")[0]
    record["steady_pass_s"] *= 1 + 5e-7
    assert check_file(write_records(tmp_path / "rounded.jsonl", [record])).agrees
    record["steady_pass_s"] *= 1 + 2e-6
    assert not check_file(write_records(tmp_path / "altered.jsonl", [record])).agrees


def test_the_order_inside_a_run_of_releases_does_not_matter_but_their_number_does(tmp_path):
    record = read_records("lifecycle")[0]
    actions = record["requests"][0]["actions"]
    index = next(i for i in range(len(actions)) if actions[i][0] == actions[i + 1][0] == "release")
    actions[index : index + 2] = reversed(actions[index : index + 2])
    assert check_file(write_records(tmp_path / "turned.jsonl", [record])).agrees
    actions[index] = actions[index + 1]
    assert not check_file(write_records(tmp_path / "doubled.jsonl", [record])).agrees


def test_long_values_are_shortened(tmp_path):
    record = read_records("schedule")[0]
    record["setup_live"]["a"] = list(range(500))
    [difference] = check_file(write_records(tmp_path / "altered.jsonl", [record])).differences
    assert len(difference.expected) == 100
    assert difference.expected.endswith("...")


def test_blank_lines_are_skipped_and_still_counted(tmp_path):
    records = read_records("timing")[:2]
    records[1]["second_pass_s"] = 7.0
    path = tmp_path / "gaps.jsonl"
    path.write_text("\n" + json.dumps(records[0]) + "\n\n" + json.dumps(records[1]) + "\n\n", encoding="utf-8")
    report = check_file(path)
    assert (report.total, report.differences[0].line) == (2, 4)


GOOD = FILES["timing"][0].read_text(encoding="utf-8").splitlines()[0]


def change(**fields):
    return json.dumps({**json.loads(GOOD), **fields})


def drop(name, key):
    record = read_records(name)[0]
    del record[key]
    return json.dumps(record)


def replace(name, **fields):
    return json.dumps({**read_records(name)[0], **fields})


DAMAGED = {
    "not JSON": ("{", 1, "not a record"),
    "a list": ("[1, 2]", 1, "not a record"),
    "a number": ("7", 1, "not a record"),
    "no known key": ('{"colour": "red"}', 1, "unknown kind of record, with the keys colour"),
    "no key at all": ("{}", 1, "unknown kind"),
    "keys of two kinds": ('{"argv": [], "steady_pass_s": 1}', 1, "unknown kind"),
    "second line cut off": (GOOD + "\n" + GOOD[:50], 2, "not a record"),
    "second line of another kind": (GOOD + '\n{"argv": []}', 2, "flag cases, in a file of timing cases"),
    "text for a number": (change(link_bytes_per_s="fast"), 1, "link_bytes_per_s"),
    "rate of zero": (change(link_bytes_per_s=0), 1, "link_bytes_per_s"),
    "NaN": (change(steady_pass_s=float("nan")), 1, "not a record"),
    "negative time": (change(second_pass_s=-1.0), 1, "second_pass_s"),
    "no stacks": (change(stacks=[]), 1, "stacks"),
    "empty stack": (change(stacks=[[]]), 1, "stacks"),
    "prefetch of zero": (change(prefetch=0), 1, "prefetch"),
    "negative resident": (change(resident=-1), 1, "resident"),
    "unknown policy": (change(policy="random"), 1, "policy"),
    "huge stack": (drop("schedule", "stacks")[:-1] + ', "stacks": [1000000000]}', 1, "stacks"),
    "missing key of a schedule trace": (drop("schedule", "finish"), 1, "finish"),
    "missing key of a timing case": (drop("timing", "stacks"), 1, "stacks"),
    "missing key of a lifecycle case": (drop("lifecycle", "sizes"), 1, "sizes"),
    "flag case without result": ('{"argv": []}', 1, "either `components` or an `error`"),
    "missing key of a default case": (drop("defaults", "components"), 1, "components"),
    "default case of an unknown model": (
        replace("defaults", model="SDXL"),
        1,
        "'SDXL' is not known: known are MiniMax",
    ),
    "default case of an unknown mode": (replace("defaults", performance_mode="turbo"), 1, "performance_mode"),
    "default case of an endless card": (replace("defaults", device_free_gib=1e300), 1, "device_free_gib"),
    "action of wrong type": ('{"passes": [[{"h2d": 1}]]}', 1, "not a record"),
    "nested too deeply": ('{"argv":' + "[" * 100_000, 1, "not a record"),
    "NUL bytes": ("\0\0\0\0", 1, "not a record"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_refused_with_file_and_line(tmp_path, case):
    text, line, reason = DAMAGED[case]
    path = tmp_path / "damaged.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        check_file(path)
    assert str(refused.value).startswith(f"{path}:{line}: ")
    assert reason in str(refused.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(b'{"argv": ["\xff\xfe"], "error": "usage"}')
    with pytest.raises(InputError, match=r"bytes\.jsonl:1: not a record"):
        check_file(path)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_is_refused(tmp_path, content):
    path = tmp_path / "empty.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"empty\.jsonl:1: the file is empty"):
        check_file(path)


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_path_that_cannot_be_read_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="cannot read"):
        check_file(tmp_path / name)


@pytest.mark.parametrize(
    ("remove", "reason"),
    [(("video_vae",), "no video_vae.decoder"), (("transformer", "blocks"), "no transformer.blocks")],
)
def test_a_lifecycle_case_without_what_its_request_uses_is_refused(tmp_path, remove, reason):
    record = read_records("lifecycle")[0]
    *parents, last = remove
    sizes = record["sizes"]
    for key in parents:
        sizes = sizes[key]
    del sizes[last]
    with pytest.raises(InputError, match=rf"broken\.jsonl:1: `sizes` has {reason}"):
        check_file(write_records(tmp_path / "broken.jsonl", [record]))


def test_knobs_of_an_unknown_component_are_refused(tmp_path):
    record = read_records("lifecycle")[0]
    record["knobs"]["upscaler"] = record["knobs"]["transformer"]
    with pytest.raises(InputError, match="`knobs` names upscaler"):
        check_file(write_records(tmp_path / "broken.jsonl", [record]))


def test_checking_imports_no_torch():
    code = "import sys, autotune.conformance as c; c.check_file(sys.argv[1]); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, FILES["timing"][0]], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"
