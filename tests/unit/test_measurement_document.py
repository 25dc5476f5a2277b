"""``measurement.json``: what is in it, how it is written, and what is refused when it is read."""

import json
from datetime import UTC, datetime

import pytest
from builders import build_component, build_plan, kept, streamed
from execution_builders import build_run

from autotune.workflows.emulated_execution import execute_emulated
from autotune.workflows.measurement_record import build_measurement
from autotune.workflows.run_settings import Emulation, Rounds
from reports.measurement import measurement_table
from runtime.documents import encode_document
from runtime.errors import InputError
from runtime.measurement_document import FILE_NAME, load_measurement, save_measurement
from runtime.time_spread import Spread

COMPONENTS = {
    "text_encoder": build_component(2, copy_ms=5, compute_ms=1),
    "transformer": build_component(4, copy_ms=6, compute_ms=3, passes=8, is_dit=True, activation_bytes=500),
}
ROUNDS = Rounds(warmup=2, repeats=3)


@pytest.fixture(scope="module")
def measurement():
    document, profile = build_run(COMPONENTS, build_plan(kept("text_encoder"), streamed("transformer")))
    execution = execute_emulated(document, profile, Emulation(clock="virtual"), ROUNDS, seed=5)
    return build_measurement(
        document, execution, ROUNDS, seed=5, command="autotune run", created=datetime(2026, 1, 1, tzinfo=UTC)
    )


def test_it_says_what_was_run_and_how(measurement):
    assert (measurement.model, measurement.engine, measurement.clock) == ("toy", "sglang@0.5.23", "virtual")
    assert measurement.placements["transformer"].startswith("layerwise-offload")
    assert (measurement.warmup, measurement.repeats, measurement.seed) == (2, 3, 5)
    assert {"python", "torch"} <= set(measurement.software)
    assert measurement.workload["width"] == 64
    assert measurement.created == "2026-01-01T00:00:00+00:00"


def test_only_requests_after_the_warm_up_count(measurement):
    assert measurement.latency.count == 3
    assert measurement.uses[1].time.count == 3
    assert measurement.uses[1].passes[0].count == 8
    assert measurement.uses[1].binding == "link"
    assert measurement.uses[0].binding == "none"


def test_predicted_and_measured_stand_side_by_side(measurement):
    compared = {item.quantity: item for item in measurement.comparisons}
    assert list(compared) == [
        "later request",
        "first request",
        "text_encoder",
        "transformer",
        "steady pass of transformer",
        "peak weights",
        "peak of weights and activations",
    ]
    assert all(item.ratio == pytest.approx(1) for item in compared.values())
    table = measurement_table(measurement)
    assert table.columns == ("", "predicted", "emulated", "ratio")
    assert [row[3] for row in table.rows] == ["1.000"] * 7


def test_a_saved_measurement_is_read_back_and_replaces_the_one_before(measurement, tmp_path):
    folder = tmp_path / "deep" / "run"
    path = save_measurement(measurement, folder)
    path.write_text("old")
    assert save_measurement(measurement, folder) == path
    assert load_measurement(path) == measurement
    assert [found.name for found in folder.iterdir()] == [FILE_NAME]


def test_a_folder_that_cannot_be_written_leaves_nothing(measurement, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("mine")
    with pytest.raises(InputError, match="cannot write the measurement"):
        save_measurement(measurement, blocked)
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(InputError, match="cannot write the measurement"):
        save_measurement(measurement, tmp_path)
    assert blocked.read_text() == "mine"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["file", FILE_NAME]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b'{"format": "layerstream-plan"}', "is no measurement"),
        (b'{"format": "layerstream-measurement", "version": 9}', "measurement version 9, this program reads 1"),
        (b'{"format": "layerstream-measurement", "version": 1}', "is damaged"),
    ],
)
def test_what_is_no_measurement_is_named_and_refused(content, message, tmp_path):
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_measurement(path)
    with pytest.raises(InputError, match="cannot read the measurement"):
        load_measurement(tmp_path / "missing.json")


def find_numbers(node, path=()):
    """Where each number of a document is."""
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from find_numbers(value, (*path, key))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield path


def test_no_figure_may_be_negative(measurement, tmp_path):
    path = tmp_path / FILE_NAME
    for place in find_numbers(json.loads(encode_document(measurement))):
        changed = json.loads(encode_document(measurement))
        node = changed
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = -2
        path.write_text(json.dumps(changed))
        with pytest.raises(InputError, match=r"is damaged|version -2"):
            load_measurement(path)


@pytest.mark.parametrize("figures", [(4, 1, 3, 1), (1, 1, 0.5, 1), (1, 1, 1, 0), (1, 1, float("inf"), 1)])
def test_a_spread_is_in_order(figures):
    median_s, low_s, high_s, count = figures
    with pytest.raises(InputError, match="spread"):
        Spread(median_s=median_s, low_s=low_s, high_s=high_s, count=count)


@pytest.mark.parametrize(
    ("times_s", "median_s", "p95_s"),
    [([2.0], 2.0, 2.0), ([3.0, 1.0], 2.0, 2.9), ([1.0] * 3, 1.0, 1.0), (range(21), 10, 19), (range(101), 50, 95)],
)
def test_a_percentile_lies_between_two_times(times_s, median_s, p95_s):
    spread = Spread.over(times_s)
    assert (spread.median_s, spread.p95_s) == (median_s, pytest.approx(p95_s))
    assert (spread.low_s, spread.high_s, spread.count) == (min(times_s), max(times_s), len(times_s))


@pytest.mark.parametrize("p95_s", [0.5, 3.5])
def test_a_percentile_lies_between_the_median_and_the_most(p95_s):
    with pytest.raises(InputError, match="p95"):
        Spread(median_s=1, low_s=1, high_s=3, count=3, p95_s=p95_s)


def test_a_document_of_before_percentiles_and_components_is_read(measurement, tmp_path):
    old = json.loads(encode_document(measurement))
    del old["components"], old["latency"]["p95_s"]
    path = tmp_path / FILE_NAME
    path.write_text(json.dumps(old))
    read = load_measurement(path)
    assert (read.components, read.latency.p95_s) == ((), None)
    assert read.uses == measurement.uses
