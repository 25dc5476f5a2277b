"""The picture of waits: a bar per layer, a panel per stack, the longest first."""

import pytest
from figure_checks import find_label_faults
from run_data_builders import build_run_data

from reports.figures.stalls import draw_stalls, stall_series
from reports.run_data import LayerStall


def _stall(component, layer, stall_s, stack="blocks"):
    return LayerStall(component=component, stack=stack, layer=layer, stall_s=stall_s)


def test_the_series_are_the_runs_own_waits():
    (stack,) = stall_series(build_run_data()).stacks
    assert (stack.component, stack.stack, stack.layers) == ("transformer", "blocks", 4)
    assert stack.stall_s == {1: 0.012, 3: 0.012}


def test_bars_stand_at_their_layer_in_seconds():
    figure = draw_stalls(build_run_data())
    (axes,) = figure.axes
    assert [bar.get_x() + bar.get_width() / 2 for bar in axes.patches] == pytest.approx([1, 3])
    assert [bar.get_height() for bar in axes.patches] == [0.012, 0.012]
    assert axes.get_ylabel() == "wait (s)"
    assert axes.get_xlabel().startswith("layer of the stack")
    assert not find_label_faults(figure)


def test_stacks_that_are_not_drawn_and_whole_components_are_summed():
    stalls = [_stall("dit", 0, 8.0), _stall("vae", 0, 4.0), _stall("clip", 1, 2.0), _stall("audio", 5, 1.0)]
    stalls.append(LayerStall(component="t5", stack=None, layer=None, stall_s=0.5))
    data = build_run_data(stalls=tuple(stalls))
    series = stall_series(data)
    assert [stack.component for stack in series.stacks] == ["dit", "vae", "clip"]
    assert series.other_s == pytest.approx(1.5)
    figure = draw_stalls(data)
    assert figure.axes[-1].get_xlabel() == "layer of the stack, counted from 0; 1.50 s more are not shown"
    assert not find_label_faults(figure)


@pytest.mark.parametrize(
    ("stalls", "finding"),
    [
        ([3.0, 0.5, 0.5], "Compute waits 4.00 s a request, 75.0 % of it for layer 0 of transformer"),
        ([1.0, 1.0, 1.0], "Compute waits 3.00 s a request, all of it for 3 of 4 layers of transformer"),
        ([1.0] * 4, "Compute waits 4.00 s a request, all of it for all 4 layers of transformer"),
    ],
)
def test_the_title_says_what_is_waited_for(stalls, finding):
    waits = tuple(_stall("transformer", layer, stall_s) for layer, stall_s in enumerate(stalls))
    assert stall_series(build_run_data(stalls=waits)).finding == finding


def test_a_run_in_which_no_layer_is_waited_for_has_no_such_picture():
    moved = LayerStall(component="t5", stack=None, layer=None, stall_s=0.5)
    assert draw_stalls(build_run_data(stalls=())) is None
    assert draw_stalls(build_run_data(stalls=(moved,))) is None
