"""One piece on a device: its time, its memory, and what is left there when anything goes wrong."""

import pytest
import torch
from node_builders import bench_on, is_empty, virtual_device
from shrunken_models import H3
from torch import nn

from autotune.measure.call_template import list_tensors
from autotune.measure.held_piece import hold_piece
from autotune.measure.piece_capture import capture_run
from autotune.measure.piece_run import label_of, run_piece
from autotune.measure.run_settings import RunSettings
from autotune.measurements.model_profile import RunOptions
from runtime.devices.protocol import Label, MemoryKind
from runtime.errors import DeviceError, InputError


def find_block(index=0):
    build = H3.list_builders()["transformer"]
    run = capture_run(build())
    piece = next(piece for piece in run.pieces if piece.place.name == f"blocks[{index}]")
    return piece, build().module.get_submodule(piece.place.path)


def settings_on(device, **options):
    return RunSettings(bench=bench_on(device), options=RunOptions(**options))


def test_a_layer_takes_the_time_of_its_label_and_leaves_nothing_behind():
    device = virtual_device(compute_s=lambda label: 0.125 if label.stack == "blocks" else 9.0, tracks_activations=True)
    piece, module = find_block()
    record = run_piece("transformer", piece, module, settings_on(device))
    assert (record.outcome, record.timing.median_s) == ("measured", pytest.approx(0.125))
    assert record.weight_bytes == sum(weight.nbytes for weight in module.parameters())
    assert is_empty(device)
    assert all(weight.is_meta for weight in module.parameters())


def test_what_a_call_allocates_is_what_the_meta_device_counted():
    piece, module = find_block()
    record = run_piece("transformer", piece, module, settings_on(virtual_device(tracks_activations=True)))
    # The graph on the meta device knows attention as one operator, as the processor's kernel does.
    assert record.rise_bytes == pytest.approx(piece.rise_bytes, rel=0.35)


def test_no_more_than_the_layer_its_inputs_and_what_it_allocates_is_ever_on_the_device():
    piece, module = find_block()
    templates = [*list_tensors(piece.call.args), *list_tensors(piece.call.kwargs)]
    input_bytes = sum(template.extent * template.dtype.itemsize for template in templates)
    device = virtual_device(tracks_activations=True)
    record = run_piece("transformer", piece, module, settings_on(device))
    assert device.memory().peak_total_bytes <= record.weight_bytes + input_bytes + record.rise_bytes


@pytest.mark.parametrize("share", [0.5, 1.02])
def test_a_layer_that_does_not_fit_is_a_record_of_that(share):
    piece, module = find_block()
    weight_bytes = sum(weight.nbytes for weight in module.parameters())
    device = virtual_device(capacity_bytes=int(weight_bytes * share), tracks_activations=True)
    record = run_piece("transformer", piece, module, settings_on(device))
    assert (record.outcome, record.timing) == ("out_of_memory", None)
    assert "Device memory ran out" in record.note
    assert is_empty(device)


def test_a_layer_that_raises_is_a_record_of_that():
    class Broken(nn.Module):
        def forward(self, *_, **__):
            raise ValueError("no such kernel\nand more")

    piece, _ = find_block()
    device = virtual_device(tracks_activations=True)
    record = run_piece("transformer", piece, Broken(), settings_on(device))
    assert (record.outcome, record.note) == ("failed", "ValueError: no such kernel")
    assert is_empty(device)


@pytest.mark.parametrize("result", ["garbage", (), torch.zeros(1)], ids=["text", "nothing", "another shape"])
def test_a_layer_that_returns_something_else_than_in_the_models_own_run_is_not_timed(result):
    class Strange(nn.Module):
        def forward(self, *_, **__):
            return result

    piece, _ = find_block()
    device = virtual_device(tracks_activations=True)
    record = run_piece("transformer", piece, Strange(), settings_on(device))
    assert (record.outcome, record.timing) == ("failed", None)
    assert "in the model's own run" in record.note
    assert is_empty(device)


def test_a_device_that_does_not_answer_any_more_ends_the_run_and_its_memory_is_given_back(monkeypatch):
    def lose():
        raise DeviceError("an illegal memory access was encountered")

    class Fatal(nn.Linear):
        def forward(self, *_, **__):
            monkeypatch.setattr(device, "synchronize", lose)
            raise RuntimeError("CUDA error")

    piece, _ = find_block()
    device = virtual_device(tracks_activations=True)
    with pytest.raises(DeviceError, match="illegal memory access"):
        run_piece("transformer", piece, Fatal(8, 8, device="meta"), settings_on(device))
    assert not sum(device.memory().live_bytes.values())


def test_an_interrupt_is_passed_on_and_leaves_nothing_behind():
    class Interrupted(nn.Linear):
        def forward(self, *_, **__):
            raise KeyboardInterrupt

    piece, _ = find_block()
    device = virtual_device(tracks_activations=True)
    with pytest.raises(KeyboardInterrupt):
        run_piece("transformer", piece, Interrupted(8, 8, device="meta"), settings_on(device))
    assert is_empty(device)


def test_autocast_and_attention_are_in_force_while_a_layer_runs():
    seen = []

    class Watching(nn.Module):
        def forward(self, *_, **__):
            seen.append((torch.is_autocast_enabled("cpu"), torch.backends.cuda.flash_sdp_enabled()))

    piece, _ = find_block()
    run_piece("transformer", piece, Watching(), settings_on(virtual_device(), autocast="bfloat16", attention="math"))
    assert set(seen) == {(True, False)}
    assert torch.backends.cuda.flash_sdp_enabled()


@pytest.mark.parametrize("options", [{"attention": "magic"}, {"autocast": "int8"}])
def test_options_that_nobody_knows_are_refused_with_those_that_are(options):
    with pytest.raises(InputError, match="is not known: choose"):
        settings_on(virtual_device(), **options)


def test_the_same_seed_gives_the_same_layer_and_inputs():
    piece, module = find_block()
    results = []
    for _ in range(2):
        device = virtual_device(tracks_activations=True)
        with hold_piece(piece, module, settings_on(device)) as held, device.compute_scope():
            results.append(held.run())
    assert torch.equal(*results)
    assert device.memory().live_bytes[MemoryKind.WEIGHTS] == 0


def test_labels_are_those_of_the_executor_for_layers_and_paths_for_parts():
    run = capture_run(H3.list_builders()["transformer"]())
    labels = {label_of("transformer", piece.place) for piece in run.pieces}
    assert Label("transformer", "blocks", 3) in labels
    assert Label("transformer", "proj_in") in labels
