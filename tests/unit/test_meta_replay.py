"""Replaying repeated calls gives what walking every call gives."""

import pytest
import torch
from torch import nn

from autotune.capture import ONCE, capture_forward
from autotune.meta_replay import CallReplayer, describe_module, describe_value
from autotune.meta_tracker import WorkTracker


class Layer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.calls = 0

    def forward(self, hidden, scale=None):
        self.calls += 1
        raised = self.up(hidden).relu()
        return hidden + self.down(raised) * (1.0 if scale is None else scale), raised[:, :1]


class Model(nn.Module):
    def __init__(self, layers=6):
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.layers = nn.ModuleList([Layer() for _ in range(layers)])
        self.norm = nn.LayerNorm(32)

    def forward(self, batch=5):
        hidden = self.embed(torch.empty(batch, 8, device="meta"))
        kept = []
        for layer in self.layers:
            hidden, extra = layer(hidden, scale=torch.empty((), device="meta"))
            kept.append(extra)
        return self.norm(hidden), kept


def build_model(**options):
    with torch.device("meta"):
        return Model(**options)


def capture(replay, **options):
    model = build_model()
    forward = capture_forward(
        model, lambda _: model(**options), stacks={"layers": model.layers}, once=[model.norm], replay=replay
    )
    return model, forward


def test_replayed_capture_equals_a_full_walk():
    assert capture(replay=True)[1] == capture(replay=False)[1]


def test_identical_layers_are_walked_once():
    model, _ = capture(replay=True)
    assert [layer.calls for layer in model.layers] == [1, 0, 0, 0, 0, 0]


def test_every_layer_gets_its_own_work_and_parts_are_kept_apart():
    _, forward = capture(replay=True)
    layers = forward.layers["layers"]
    assert len(layers) == 6
    assert len(set(layers)) == 1
    assert layers[0].matmul_flops == 2 * (2 * 5 * 32 * 128)
    assert forward.outside.matmul_flops == 2 * 5 * 8 * 32
    assert forward.once.other_bytes > 0


def test_group_divides_a_run_into_equal_passes():
    _, forward = capture(replay=True)
    group = forward.group(("layers",), passes=2)
    assert group.layers["layers"][0].matmul_flops == forward.layers["layers"][0].matmul_flops / 2
    assert group.outside.matmul_flops == forward.outside.matmul_flops / 2
    assert forward.group(("layers",), with_outside=False).outside.flops == 0


def test_layer_of_another_width_or_input_is_walked_again():
    with torch.device("meta"):
        layers = nn.ModuleList([Layer(), Layer(), Layer(16)])
    tracker = WorkTracker(layers.parameters())
    CallReplayer(tracker).watch_stacks({"layers": layers})
    with torch.no_grad(), tracker:
        layers[0](torch.empty(5, 32, device="meta"))
        layers[1](torch.empty(6, 32, device="meta"))
        layers[2](torch.empty(5, 16, device="meta"))
    assert [layer.calls for layer in layers] == [1, 1, 1]
    flops = [tracker.work_of(("layers", index)).matmul_flops for index in range(3)]
    assert flops == [2 * 2 * rows * width * 4 * width for rows, width in ((5, 32), (6, 32), (5, 16))]


def test_repeated_submodule_books_the_layers_inside_it_each_time():
    model = build_model()
    forward = capture_forward(
        model, lambda _: [model() for _ in range(10)], stacks={"layers": model.layers}, repeated=[model]
    )
    single = capture(replay=False)[1]
    assert model.layers[0].calls == 1
    assert forward.layers["layers"][5] == single.layers["layers"][5].scaled(10)
    assert forward.outside.matmul_flops == 10 * single.outside.matmul_flops


def test_returned_view_keeps_the_whole_buffer_alive():
    class Head(nn.Module):
        def forward(self, value):
            raised = value.repeat(8)
            return raised[:1], raised[1:2]

    tracker, module = WorkTracker(), Head()
    CallReplayer(tracker).watch(module)
    with tracker:
        operand = torch.empty(100, device="meta")
        module(operand)
        first, second = module(operand)
        del operand
        assert (first.shape, second.storage_offset()) == ((1,), 1)
        assert tracker.live_bytes == 8 * 400


def test_returned_input_stays_the_same_tensor():
    with torch.device("meta"):
        identity = nn.Identity()
    tracker = WorkTracker()
    CallReplayer(tracker).watch(identity)
    with tracker:
        first, second = torch.empty(3, device="meta"), torch.empty(3, device="meta")
        assert identity(first) is first
        assert identity(second) is second
    assert tracker.peak_bytes == 24


def test_unknown_argument_is_walked_every_time():
    assert describe_value((torch.empty(2, device="meta"), object())) is None
    assert describe_value({"a": [1, None, "x"]}) is not None


def test_descriptions_tell_dtype_and_settings_apart():
    plain, half = torch.empty(2, device="meta"), torch.empty(2, device="meta", dtype=torch.float16)
    assert describe_value(plain) != describe_value(half)
    assert describe_value(True) != describe_value(1)
    with torch.device("meta"):
        assert describe_module(nn.Conv1d(4, 4, 3)) != describe_module(nn.Conv1d(4, 4, 3, dilation=2))


def test_result_that_cannot_be_rebuilt_is_refused():
    class Odd(nn.Module):
        def forward(self, value):
            return {"value": value}

    tracker, module = WorkTracker(), Odd()
    CallReplayer(tracker).watch(module)
    with tracker, pytest.raises(TypeError, match="only tensors and tuples"):
        module(torch.empty(1, device="meta"))


def test_once_label_cannot_be_a_stack_name():
    assert not ONCE[0].isidentifier()
