"""What is around the pieces of a component, run with the pieces replaced."""

import pytest
import torch
from node_builders import bench_on, is_empty, virtual_device
from shrunken_models import FLUX, H3, WAN21
from torch import nn

from autotune.measure.around_run import describe_around, measure_around
from autotune.measure.piece_capture import capture_run
from autotune.measure.run_settings import RunSettings
from runtime.devices.protocol import Label


def run_around(model, name, **traits):
    build = model.list_builders()[name]
    run = capture_run(build())
    device = virtual_device(tracks_activations=True, **traits)
    record = measure_around(build(), run, RunSettings(bench=bench_on(device)))
    assert is_empty(device)
    return run, record


def test_it_takes_the_time_of_the_component_and_has_what_was_counted():
    run, record = run_around(H3, "transformer", compute_s=lambda label: 2.0 if label == Label("transformer") else 9.0)
    assert record.timing.median_s == pytest.approx(2.0)
    assert (record.name, record.moved_bytes) == ("(around)", run.around.other_bytes)
    assert record.key == describe_around("transformer", run)


@pytest.mark.parametrize(("model", "name"), [(H3, "video_vae"), (WAN21, "vae"), (FLUX, "text_encoder_2")])
def test_caches_repeated_calls_and_shared_weights_do_not_stop_it(model, name):
    _, record = run_around(model, name)
    assert record.outcome == "measured", record.note


def test_no_piece_computes_and_no_piece_holds_weights(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a layer was run")

    build = H3.list_builders()["transformer"]
    run = capture_run(build())
    whole = sum(weight.nbytes for weight in build().module.parameters())
    monkeypatch.setattr(nn.Linear, "forward", refuse)
    record = measure_around(build(), run, RunSettings(bench=bench_on(virtual_device(tracks_activations=True))))
    assert record.outcome == "measured", record.note
    assert record.weight_bytes < whole / 100


def test_weights_that_code_around_pieces_asks_for_have_their_shape_and_dtype():
    build = H3.list_builders()["transformer"]
    run, built = capture_run(build()), build()
    seen, original = [], built.run

    def watch(make_input, tracker):
        seen.append((built.module.proj_in.weight.shape, built.module.proj_in.weight.dtype))
        return original(make_input, tracker)

    object.__setattr__(built, "run", watch)
    measure_around(built, run, RunSettings(bench=bench_on(virtual_device())))
    assert set(seen) == {(build().module.proj_in.weight.shape, torch.float32)}


def test_another_run_has_another_key():
    runs = [capture_run(model.list_builders()["transformer"]()) for model in (H3, FLUX)]
    keys = {describe_around(component, run) for component in ("transformer", "other") for run in runs}
    assert len(keys) == 4
