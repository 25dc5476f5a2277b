"""A session's report as text, JSON and data frames."""

import json
from dataclasses import replace

import pytest
from builders import build_component, build_evaluator, build_plan, kept, streamed
from toy_modules import run_on_device, virtual_device

from autotune.workflows.document import build_prediction
from runtime.errors import InputError
from runtime.measurement import PhaseMeasurement
from runtime.session_report import SessionReport

COMPONENTS = {
    "text_encoder": build_component(3, copy_ms=10, compute_ms=2),
    "transformer": build_component(4, copy_ms=6, compute_ms=3, passes=10, is_dit=True, activation_bytes=1000),
    "vae": build_component(2, copy_ms=1, compute_ms=2, passes=3),
}
PLAN = build_plan(streamed("text_encoder"), streamed("transformer"), kept("vae"))


@pytest.fixture(scope="module")
def report():
    evaluator = build_evaluator(COMPONENTS)
    device = virtual_device(evaluator, PLAN)
    _, found, _ = run_on_device(evaluator, PLAN, device, requests=3)
    device.close()
    prediction = build_prediction(evaluator.evaluate(PLAN), evaluator)
    return replace(found, prediction=prediction)


def lines_with(report, word):
    return [line.split() for line in report.to_text().splitlines() if line.lstrip().startswith(word)]


def test_text_says_emulated_and_puts_the_prediction_beside_every_latency(report):
    text = report.to_text()
    assert text.startswith("Emulated under the engine sglang@0.5.23")
    assert "All times are emulated" in text
    first, later = lines_with(report, "first request after load")[0], lines_with(report, "later requests (2)")[0]
    assert first[4:6] == first[10:12]
    assert later[3:5] == later[5:7] == later[7:9] == later[9:11]


def test_text_of_a_card_says_measured(report):
    text = replace(report, is_emulated=False, device="cuda:0").to_text()
    assert text.startswith("Measured under the engine sglang@0.5.23 on the device cuda:0.")
    assert "mulated" not in text.replace("(emulated)", "")


def test_text_names_what_binds_each_use_and_its_passes(report):
    uses = lines_with(report, "transformer")
    assert any(line[-1] == "link" for line in uses)
    assert any("10 x 24 ms" in " ".join(line) for line in uses)
    assert any(line[1:3] == ["nothing", "0"] and line[-1] == "nothing" for line in lines_with(report, "vae"))
    assert "Longest stalls" in report.to_text()


def test_text_puts_measured_and_predicted_device_memory_side_by_side(report):
    tall = replace(report, phases=(replace(report.phases[0], peak_weight_bytes=3 * 2**30), *report.phases[1:]))
    assert lines_with(tall, "load")[0][1:3] == ["3.000", "0.000"]
    assert any(
        line[:3] == ["later", "request:", "transformer"] for line in lines_with(report, "later request: transformer")
    )


def test_text_shows_host_memory_and_pins_that_were_refused(report):
    refused = tuple(f"transformer.blocks.{layer}: no" for layer in range(8))
    host = replace(report.host, requested_pin_bytes=2 * 2**30, pinned_bytes=2**30, refused_pins=refused)
    text = replace(report, host=host).to_text()
    assert "pinned 1.00 GiB of 2.00 GiB asked for (emulated)" in text
    assert "not pinned: transformer.blocks.4: no" in text
    assert "not pinned: 3 more" in text


def test_text_explains_misses_only_where_there_are_any(report):
    assert "Misses are" not in report.to_text()
    missed = replace(report, requests=(replace(report.requests[0], misses=2),))
    assert "Misses are layers that came out of the planned order" in missed.to_text()
    assert "Uses of the first request" in missed.to_text()


def test_a_session_without_requests_has_a_report(report):
    empty = replace(report, requests=(), prediction=None)
    assert "No request has ended yet." in empty.to_text()
    assert empty.frames()["requests"].empty
    assert SessionReport.from_json(empty.to_json()) == empty


def test_the_typical_request_is_the_later_one_of_median_latency(report):
    times = (9.0, 3.0, 1.0, 2.0)
    requests = tuple(replace(report.requests[0], latency_s=time_s) for time_s in times)
    assert replace(report, requests=requests).typical.latency_s == 2.0
    assert replace(report, requests=requests[:3]).typical.latency_s == 1.0
    assert replace(report, requests=requests[:1]).typical.latency_s == 9.0


def test_phases_of_the_same_name_are_joined_by_their_peaks(report):
    def phase(size, reserved):
        return PhaseMeasurement(
            phase="later request: vae",
            peak_weight_bytes=size,
            peak_activation_bytes=10 - size,
            peak_total_bytes=size,
            live_weight_bytes=size,
            reserved_bytes=reserved,
        )

    joined = replace(report, phases=(phase(1, None), phase(3, 7))).peak_phases()["later request: vae"]
    assert (joined.peak_weight_bytes, joined.peak_activation_bytes, joined.reserved_bytes) == (3, 9, 7)


def test_json_is_read_back_as_the_same_report(report):
    text = report.to_json()
    assert SessionReport.from_json(text) == report
    assert json.loads(text)["format"] == "layerstream-report"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b"\xff", "not JSON"),
        (b"[]", "not JSON"),
        (b'{"format": "layerstream-plan", "version": 1}', "is no session report"),
        (b'{"format": "layerstream-report", "version": 2}', "version 2"),
        (b'{"format": "layerstream-report", "version": 1}', "damaged"),
    ],
)
def test_what_is_no_report_is_refused(damage, message):
    with pytest.raises(InputError, match=message):
        SessionReport.from_json(damage)


def test_frames_have_a_row_for_every_request_use_pass_run_copy_and_phase(report):
    frames = report.frames()
    assert {name: len(frame) for name, frame in frames.items()} == {
        "requests": 3,
        "uses": 9,
        "passes": 3 * (1 + 10 + 3),
        "layers": 3 * (3 + 40),
        "copies": sum(len(request.copies) for request in report.requests),
        "phases": 1 + 3 * 7,
    }
    runs = frames["layers"].query("request == 1 and component == 'transformer'")
    assert runs["pass"].nunique() == 10
    assert (runs["end_s"] - runs["start_s"]).tolist() == pytest.approx([0.003] * 40)
    assert frames["copies"]["kind"].unique().tolist() == ["pinned"]
    phases = frames["phases"]
    assert (phases["peak_weight_bytes"] == phases["predicted_weight_bytes"]).all()


def test_a_scale_multiplies_what_the_session_counts_itself(report):
    scaled = report.scaled(4)
    assert scaled.host.pinned_bytes == 4 * report.host.pinned_bytes
    assert scaled.requests[1].uses[1].copied_bytes["pinned"] == 4 * report.requests[1].uses[1].copied_bytes["pinned"]
    assert scaled.requests[1].copies[0].size_bytes == 4 * report.requests[1].copies[0].size_bytes
    assert scaled.phases == report.phases
