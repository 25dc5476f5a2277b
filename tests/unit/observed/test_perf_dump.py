"""Dumps of --perf-dump-path: what each figure means, and what becomes of damaged ones."""

import json
import re
from pathlib import Path

import pytest

from autotune.catalog.registry import find_model
from autotune.observed.observation import ObservedPeak, PeakKind, Scope, Setup
from autotune.observed.perf_dump import load_perf_dump, parse_perf_dump
from autotune.observed.run_observation import FIRST_REQUEST, MOVED_DOWN, observe_dump
from autotune.workload import Workload
from runtime.errors import InputError
from runtime.units import MIB

DATA = Path(__file__).parents[2] / "data" / "observed"
WHOLE = {
    "total_duration_ms": 2000.0,
    "steps": [{"name": "DenoisingStage", "duration_ms": 1500.0}, {"name": "DecodingStage", "duration_ms": 250.0}],
    "denoise_steps_ms": [{"step": step, "duration_ms": ms} for step, ms in ((0, 700.0), (1, 400.0), (2, 400.0))],
    "memory_checkpoints": {"after_forward": {"peak_allocated_mb": 100.0, "peak_reserved_mb": 120.0}},
    "meta": {"model": "Qwen/Qwen-Image"},
}
SETUP = Setup(
    model="Qwen-Image",
    device="rtx-5090",
    workload=Workload(width=1024, height=1024, frames=1, steps=3, prompt_tokens=512),
)


def parse(**changes):
    return parse_perf_dump(json.dumps(WHOLE | changes).encode(), "dump.json")


def observe(dump, setup=SETUP, **changes):
    components = tuple(find_model(setup.model).configs)
    return observe_dump(dump, setup, name="run", components=components, **changes)


def latencies(observation):
    return {(item.scope, item.component): item.seconds for item in observation.latencies}


def test_a_dump_of_the_servers_own_writer_is_read_whole():
    dump = load_perf_dump(DATA / "h3_small_host_perf_dump.json")
    assert dump.faults == ()
    assert dump.model == "MiniMaxAI/MiniMax-H3"
    assert len(dump.steps_s) == 20
    assert sum(stage.seconds for stage in dump.stages) == pytest.approx(dump.total_s)
    assert {point.name for point in dump.checkpoints} == {
        "before_forward", "after_forward", "load_peak", "runtime_peak", "warmup_peak",
    }  # fmt: skip


def test_the_servers_megabytes_are_mebibytes_and_its_milliseconds_become_seconds():
    dump = parse()
    assert dump.total_s == 2.0
    assert dump.request_peak.peak_allocated_bytes == 100 * MIB
    assert dump.request_peak.peak_reserved_bytes == 120 * MIB


def test_an_observation_has_the_median_step_uses_by_component_and_the_request():
    observation = observe(parse())
    assert latencies(observation) == {
        (Scope.USE, "transformer"): 1.5,
        (Scope.USE, "vae"): 0.25,
        (Scope.STEP, "transformer"): 0.4,
        (Scope.REQUEST, ""): 2.0,
    }
    assert observation.peak == ObservedPeak(size_bytes=100 * MIB, kind=PeakKind.ALLOCATED)
    assert observation.assumed == ()


def test_stages_that_run_several_components_are_one_sum_with_the_other_uses_of_these():
    setup = Setup(model="H3", device="rtx-4090", workload=SETUP.workload)
    observation = observe(load_perf_dump(DATA / "h3_small_host_perf_dump.json"), setup)
    uses = [item for item in observation.latencies if item.scope is Scope.USE]
    assert {item.component for item in uses} == {"text_encoder", "transformer", "video_vae+audio_vae"}
    [decoding] = [item for item in uses if "vae" in item.component]
    assert decoding.seconds == pytest.approx(12.2939, abs=1e-3)


def test_steps_in_which_the_host_ran_ahead_are_replaced_by_shares_of_their_stage():
    short = [{"step": step, "duration_ms": 10.0} for step in range(3)]
    observation = observe(parse(denoise_steps_ms=short))
    assert latencies(observation)[Scope.STEP, "transformer"] == pytest.approx(0.5)
    assert "ran ahead of the device" in observation.assumed[0]


def test_the_peak_is_what_tensors_occupied_else_what_was_reserved():
    assert observe(parse()).peak == ObservedPeak(size_bytes=100 * MIB, kind=PeakKind.ALLOCATED)
    alone = {"after_forward": {"peak_allocated_mb": 0.0, "peak_reserved_mb": 120.0}}
    assert observe(parse(memory_checkpoints=alone)).peak == ObservedPeak(size_bytes=120 * MIB, kind=PeakKind.RESERVED)


def test_caveats_name_the_first_request_and_components_that_may_be_moved_whole():
    streamed = tuple(f"{name}.mode=layerwise-offload" for name in ("text_encoder", "transformer", "vae"))
    first = observe(parse(tag="cli_generate"), settings=streamed)
    later = observe(parse(tag="server_perf_dump"))
    assert FIRST_REQUEST in first.caveats
    assert MOVED_DOWN not in first.caveats
    assert FIRST_REQUEST not in later.caveats
    assert MOVED_DOWN in later.caveats


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"total_duration_ms": float("nan")}, "total_duration_ms is nan ms"),
        ({"total_duration_ms": 0}, "total_duration_ms is 0 ms: a duration is positive"),
        ({"total_duration_ms": "2 s"}, "total_duration_ms is a string"),
        ({"total_duration_ms": 10**400}, "total_duration_ms is 1000"),
        ({"steps": {}}, "steps is an object, not a list"),
        ({"steps": [{"name": 3, "duration_ms": 1}]}, r"steps\[0\] is no entry with name and duration_ms"),
        ({"denoise_steps_ms": [{"step": 0, "duration_ms": -1}]}, r"denoise_steps_ms\[0\].duration_ms is -1 ms"),
        ({"denoise_steps_ms": [7, {"step": 1, "duration_ms": 5}]}, r"denoise_steps_ms\[0\] is no entry"),
        ({"memory_checkpoints": []}, "memory_checkpoints is a list"),
        ({"memory_checkpoints": {"a": {"peak_allocated_mb": 5.0}}}, "a.peak_reserved_mb is null"),
        ({"memory_checkpoints": {"a": {"peak_allocated_mb": 1e300, "peak_reserved_mb": 1}}}, "is 1e[+]300 MiB"),
    ],
)  # fmt: skip
def test_each_fault_is_one_message_and_the_rest_is_used(changes, fault):
    dump = parse(**changes)
    assert len(dump.faults) == 1
    assert re.search(fault, dump.faults[0])
    assert dump.stages or dump.total_s


def test_missing_keys_are_named_and_zeros_of_a_processor_are_no_peak():
    points = {"after_forward": {"peak_allocated_mb": 0.0, "peak_reserved_mb": 0.0}}
    content = json.dumps({"total_duration_ms": 5, "memory_checkpoints": points})
    dump = parse_perf_dump(content.encode(), "dump.json")
    assert dump.faults == ("steps is missing", "denoise_steps_ms is missing")
    assert dump.request_peak is None


def test_a_cut_off_dump_keeps_everything_before_the_cut():
    content = (DATA / "h3_small_host_perf_dump.json").read_bytes()
    dump = parse_perf_dump(content[: content.index(b'"step": 12')], "dump.json")
    assert len(dump.steps_s) == 12
    assert len(dump.stages) == 8
    assert dump.faults[0].startswith("the file is cut off after")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xff\xfe\x00\x01", "is no text at byte 0"),
        (b"\x00" * 100, "is not JSON"),
        (b"[1, 2]", "is a list in JSON, not an object"),
        (b'{"format": "layerstream-plan"}', "is no perf dump, which has one of total_duration_ms"),
        (b"[" * 200_000, "is not JSON"),
        (b'{"total_duration_ms": NaN, "steps": 1}', "nothing in dump.json can be used"),
    ],
)
def test_what_is_no_dump_is_refused_with_what_to_give_instead(content, message):
    with pytest.raises(InputError, match=message):
        parse_perf_dump(content, "dump.json")


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path):
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(InputError, match="cannot read the perf dump"):
            load_perf_dump(path)


def test_faults_of_a_hopeless_file_are_counted_not_listed():
    dump = parse(denoise_steps_ms=[0] * 5000)
    assert len(dump.faults) == 21
    assert dump.faults[-1] == "and 4980 more"
