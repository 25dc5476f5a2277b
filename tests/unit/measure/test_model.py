"""A whole component measured piece by piece, and the planner's facts with its seconds."""

from dataclasses import replace

import pytest
from node_builders import MemoryKeeper, bench_on, is_empty, virtual_device
from shrunken_models import FLUX, H3, QWEN_IMAGE, SHRUNKEN_MODELS, WAN21, WAN22

from autotune.catalog.built_component import capture_component
from autotune.catalog.component_capture import assemble_facts
from autotune.catalog.entry import SettledWorkload
from autotune.catalog.qwen_image import DEPLOYMENT
from autotune.measure.model import estimate_activation_bytes, measure_component, put_into_facts
from autotune.measure.piece_capture import capture_run
from autotune.measure.run_settings import RunSettings
from autotune.measure.timing import TimingProtocol
from autotune.work import Work
from runtime.errors import InputError

ONE_SAMPLE = TimingProtocol(warmups=1, least_count=1, most_count=1, spread_ratio=1.0, limit_s=1.0, least_span_s=0.0)
LAYER_S, PART_S, AROUND_S = 0.25, 0.03125, 0.5


def pace(label):
    """A layer, a part outside the stacks, and what is around both take times that add up without rounding."""
    return LAYER_S if label.layer is not None else AROUND_S if label.stack is None else PART_S


def measure(model, name, keeper=None, **traits):
    device = virtual_device(compute_s=pace, tracks_activations=True, **traits)
    measured = measure_component(model.list_builders()[name], RunSettings(bench=bench_on(device, keeper, ONE_SAMPLE)))
    assert is_empty(device)
    return measured


@pytest.mark.parametrize("model", SHRUNKEN_MODELS, ids=lambda model: model.name)
def test_every_piece_of_every_model_is_measured(model):
    for name in model.configs:
        measured = measure(model, name)
        assert {piece.record.outcome for piece in measured.pieces} == {"measured"}
        works = [work for group in measured.captured.work.groups for layers in group.layers.values() for work in layers]
        assert all(work.flops == 0 for work in works)


def test_a_pass_takes_the_time_of_its_layers_its_parts_and_what_is_around_them():
    work = measure(QWEN_IMAGE, "transformer").captured.work
    (group,) = work.groups
    assert group.layers["transformer_blocks"] == (Work(measured_s=LAYER_S),) * 3
    assert group.outside == Work(measured_s=6 * PART_S + AROUND_S)


def test_what_runs_once_per_use_is_apart_from_every_pass():
    work = measure(H3, "transformer").captured.work
    refiner, blocks = work.groups
    assert refiner.layers["token_refiner.blocks"] == (Work(measured_s=LAYER_S),) * 2
    assert blocks.layers["blocks"] == (Work(measured_s=LAYER_S),) * 4
    assert work.outside == Work(measured_s=3 * PART_S)


def test_a_decode_of_several_passes_is_shared_among_them():
    measured = measure(WAN21, "vae")
    (use,) = measured.captured.use.groups
    seconds = sum(work.measured_s for work in measured.captured.work.groups[0].layers["decoder.up_blocks"])
    assert use.passes > 1
    assert seconds == pytest.approx(4 * LAYER_S)


def test_layers_that_are_alike_are_measured_once_and_named_all():
    measured = measure(QWEN_IMAGE, "transformer")
    (block,) = [piece for piece in measured.pieces if piece.record.name == "transformer_blocks[0]"]
    assert block.places == tuple(f"transformer_blocks[{index}]" for index in range(3))
    assert (block.calls, block.passes) == (3, 1)


def test_what_was_measured_before_is_not_measured_again():
    keeper = MemoryKeeper()
    first = measure(FLUX, "transformer", keeper)
    again = measure(FLUX, "transformer", keeper, capacity_bytes=1)
    assert keeper.recalled == len(again.pieces)
    assert again.captured == first.captured


def test_what_does_not_fit_is_a_fact_and_its_counts_stay():
    measured = measure(QWEN_IMAGE, "transformer", capacity_bytes=40_000)
    failed = {piece.record.name for piece in measured.pieces if piece.record.outcome == "out_of_memory"}
    (group,) = measured.captured.work.groups
    assert "transformer_blocks[0]" in failed
    assert group.layers["transformer_blocks"][0].flops > 0
    assert group.layers["transformer_blocks"][0].measured_s == 0


def test_activations_move_by_what_the_highest_piece_was_measured_to_allocate():
    run = capture_run(H3.list_builders()["transformer"]())
    highest = max(run.pieces, key=lambda piece: piece.entry_bytes + piece.rise_bytes)
    records = {piece.digest: _Rise(piece.rise_bytes) for piece in run.pieces}
    assert estimate_activation_bytes(run, records) == run.activation_bytes
    records[highest.digest] = _Rise(highest.rise_bytes + 1000)
    assert estimate_activation_bytes(run, records) == run.activation_bytes + 1000


class _Rise:
    def __init__(self, rise_bytes):
        self.rise_bytes = rise_bytes


def test_another_piece_that_allocates_more_than_was_counted_raises_the_peak():
    run = capture_run(H3.list_builders()["transformer"]())
    records = {piece.digest: _Rise(piece.rise_bytes) for piece in run.pieces}
    low = min(run.pieces, key=lambda piece: piece.entry_bytes)
    records[low.digest] = _Rise(10 * run.activation_bytes)
    assert estimate_activation_bytes(run, records) == low.entry_bytes + 10 * run.activation_bytes


def test_facts_of_another_request_do_not_take_measured_seconds(shrunken_facts):
    captured = capture_component(QWEN_IMAGE.list_builders()["transformer"]())
    longer = replace(captured.use.groups[0], passes=captured.use.groups[0].passes + 1)
    other = captured._replace(use=replace(captured.use, groups=(longer,)))
    with pytest.raises(InputError, match="both must be of one request"):
        put_into_facts(shrunken_facts, {"transformer": other})


def test_only_measured_components_change_in_the_facts(shrunken_facts):
    measured = measure(QWEN_IMAGE, "transformer")
    facts = put_into_facts(shrunken_facts, {"transformer": measured.captured})
    assert facts.source == "measured"
    for before, after in zip(shrunken_facts.work, facts.work, strict=True):
        assert (after == before) == (after.component != "transformer")
    assert put_into_facts(shrunken_facts, {}) == shrunken_facts


@pytest.fixture(scope="module")
def shrunken_facts():
    captured = {name: capture_component(build()) for name, build in QWEN_IMAGE.list_builders().items()}
    return assemble_facts(
        "Qwen-Image",
        SettledWorkload(workload=QWEN_IMAGE.workload),
        captured,
        loaded=tuple(captured),
        sources=("a test",),
        notes=(),
        deployment=DEPLOYMENT,
    )


def test_a_record_of_another_component_that_computes_alike_serves_under_its_own_name():
    keeper = MemoryKeeper()
    measure(WAN22, "transformer", keeper)
    second = measure(WAN22, "transformer_2", keeper)
    assert keeper.recalled == len(second.pieces) - 1  # what is around the pieces is of one component alone
    assert {piece.record.component for piece in second.pieces} == {"transformer_2"}
