"""What hand-made runs, waits and copies of a request add up to."""

import time

import pytest

from runtime.devices.protocol import CopySpan, Label
from runtime.measure_request import measure_request
from runtime.measurement import Binding, CopyMeasurement, RunMeasurement
from runtime.timeline import Lane

DIT = "transformer"


def run(layer, wanted_s, start_s, end_s, *, use=0, pass_index=0, component=DIT):
    return RunMeasurement(
        component=component,
        stack="blocks",
        layer=layer,
        use=use,
        pass_index=pass_index,
        wanted_s=wanted_s,
        start_s=start_s,
        end_s=end_s,
    )


def copy(start_s, end_s, *, kind="pinned", layer=0, read=None, use=0, component=DIT, size_bytes=10):
    spans = [CopySpan(Lane.H2D, start_s, end_s)]
    if read is not None:
        spans.insert(0, CopySpan(Lane.READ, *read))
    return CopyMeasurement(
        component=component,
        stack=None if layer is None else "blocks",
        layer=layer,
        use=use,
        kind=kind,
        size_bytes=size_bytes,
        spans=tuple(spans),
    )


def wait(before_s, after_s, label=None, *, use=0, pass_index=-1):
    return (label or Label(DIT, "blocks"), use, pass_index, before_s, after_s)


def measure(*, uses=((DIT, DIT, 0.0, 10.0),), passes=(), runs=(), waits=(), copies=()):
    return measure_request(
        begin_s=0.0, uses=uses, passes=passes, runs=runs, waits=waits, copies=copies, phases=(), misses=0
    )


def measure_use(**notes):
    return measure(**notes).uses[0]


def test_waits_before_the_first_layer_are_fill_and_all_later_ones_stalls_of_their_layer():
    use = measure_use(
        runs=[run(0, 2, 3, 4), run(1, 4, 6, 7), run(1, 7, 7.5, 8, pass_index=1)],
        waits=[wait(0, 2), wait(8, 10)],
    )
    assert use.fill_s == pytest.approx(3)
    assert use.stall_by_layer_s == pytest.approx({"blocks.1": 2.5, "blocks": 2})
    assert use.stall_s == pytest.approx(4.5)
    assert use.layers_s == pytest.approx(2.5)


def test_a_copy_for_which_the_host_waits_is_a_stall_even_if_nobody_noted_a_wait():
    use = measure_use(runs=[run(0, 0, 0, 1), run(1, 4, 4, 5)], copies=[copy(1, 4, kind="pageable", layer=1)])
    assert use.stall_by_layer_s == pytest.approx({"blocks.1": 3})
    assert (use.hidden_s, use.exposed_s) == pytest.approx((0, 3))


def test_a_wait_that_is_noted_twice_counts_once():
    blocking = copy(0, 2, kind="blocking")
    use = measure_use(runs=[run(0, 2, 2, 3)], waits=[wait(0, 2, Label(DIT, "blocks", 0))], copies=[blocking])
    assert use.fill_s == pytest.approx(2)
    assert use.stall_s == 0


def test_copies_are_hidden_while_compute_does_not_wait_whatever_it_does():
    # A layer until 2, work outside the layers until 3, then a wait of one second for the copy that began at 1.
    use = measure_use(runs=[run(0, 0, 0, 2), run(1, 3, 4, 5)], copies=[copy(1, 4, layer=1)])
    assert (use.copy_s, use.hidden_s, use.exposed_s) == pytest.approx((3, 2, 1))


def test_a_copy_counts_in_the_use_in_which_it_landed_and_its_time_where_it_was_spent():
    uses = (("encoder", "encoder", 0.0, 4.0), (DIT, DIT, 5.0, 10.0))
    request = measure(
        uses=uses,
        runs=[run(0, 5, 5, 10, use=1)],
        copies=[copy(2, 6, use=0), copy(4, 5, layer=1, use=0, size_bytes=7, kind="up"), copy(11, 12, use=1)],
    )
    encoder, transformer = request.uses
    assert encoder.copied_bytes == {}
    assert transformer.copied_bytes == {"pinned": 10, "up": 7}
    assert (encoder.copy_s, transformer.copy_s) == pytest.approx((2, 3))
    assert request.latency_s == 10
    assert len(request.copies) == 3


def test_moving_a_component_up_is_fill_and_moving_it_down_a_stall():
    use = measure_use(
        uses=(("vae", "vae", 0.0, 6.0),),
        passes=[(0, 0, ("up_blocks",), 2.0, 4.0)],
        waits=[wait(0, 2, Label("vae")), wait(4, 6, Label("vae"))],
        copies=[
            copy(0, 2, kind="up", layer=None, component="vae"),
            copy(4, 6, kind="down", layer=None, component="vae"),
        ],
    )
    assert use.fill_s == pytest.approx(2)
    assert use.stall_by_layer_s == pytest.approx({"vae": 2})
    assert use.binding is Binding.HOST


@pytest.mark.parametrize(
    ("binding", "waits_until_s", "copies"),
    [
        (Binding.COMPUTE, 4, [copy(0, 3)]),
        (Binding.LINK, 10, [copy(0, 4), copy(4, 9)]),
        (Binding.READ, 10, [copy(5, 6, kind="mapped", read=(0, 5)), copy(9, 10, kind="mapped", read=(5, 9))]),
        (Binding.HOST, 10, [copy(4, 9, kind="pageable")]),
        (Binding.NONE, 4, [copy(0, 9, component="vae")]),
        (Binding.NONE, 4, []),
    ],
    ids=["compute", "link", "file reads", "host copies", "another component's copies", "nothing streamed"],
)
def test_what_was_busy_longest_binds(binding, waits_until_s, copies):
    # Compute waits from the fourth second on, if at all.
    use = measure_use(runs=[run(0, 0, 0, 4), run(1, 4, waits_until_s, 10)], copies=copies)
    assert use.binding is binding


def test_host_copies_and_compute_cannot_overlap_so_they_bind_together():
    # 4 s of compute and 3 s of host copies take longer than 6 s on the link; compute is the larger part.
    copies = [copy(4, 7, kind="pageable"), copy(0, 3)]
    assert measure_use(uses=((DIT, DIT, 0.0, 7.0),), runs=[run(0, 0, 0, 4)], copies=copies).binding is Binding.COMPUTE


def test_passes_last_until_the_next_one_begins():
    passes = [(0, 0, ("blocks",), 1.0, 3.0), (0, 0, ("blocks",), 4.0, 6.0), (0, 0, ("blocks",), 8.0, 9.0)]
    runs = [run(0, 1, 2, 3), run(0, 4, 4, 6, pass_index=1), run(0, 8, 8, 9, pass_index=2)]
    use = measure_use(passes=passes, runs=runs)
    assert [(one.total_s, one.stall_s, one.layers_s) for one in use.passes] == [(2, 1, 1), (2, 0, 2), (1, 0, 1)]
    assert use.pass_times_s(0) == (3, 4)
    assert use.steady_pass_s(0) == 4


def test_a_single_pass_ends_with_its_last_layer_and_has_no_steady_state():
    use = measure_use(passes=[(0, 0, ("blocks",), 1.0, 3.0)])
    assert use.pass_times_s(0) == (2,)
    assert use.steady_pass_s(0) is None
    assert use.pass_times_s(1) == ()


def test_the_timeline_has_every_span_and_every_stall_in_order():
    timeline = measure(
        runs=[run(0, 1, 2, 3), run(1, 3, 3, 5)], copies=[copy(1, 2, kind="mapped", read=(0, 1))]
    ).timeline
    assert [(span.lane, span.start_s) for span in timeline.spans] == [
        ("read", 0),
        ("h2d", 1),
        ("compute", 2),
        ("compute", 3),
    ]
    assert [(stall.start_s, stall.end_s, stall.layer) for stall in timeline.stalls] == [(1, 2, 0)]


def test_rounding_is_no_stall():
    use = measure_use(runs=[run(0, 0, 1e-12, 4), run(1, 4, 4 + 1e-12, 5)])
    assert (use.fill_s, use.stall_s) == (0, 0)


def test_fifty_passes_of_fifty_layers_are_summed_up_in_half_a_second():
    runs, copies, passes = [], [], []
    for number in range(50):
        passes.append((0, 0, ("blocks",), number * 50.0, number * 50.0 + 49.0))
        for layer in range(50):
            at_s = number * 50.0 + layer
            runs.append(run(layer, at_s, at_s + 0.1, at_s + 0.9, pass_index=number))
            copies.append(copy(at_s - 0.5, at_s + 0.1, layer=layer))
    began_s = time.process_time()
    request = measure(uses=((DIT, DIT, 0.0, 2500.0),), passes=passes, runs=runs, copies=copies)
    assert time.process_time() - began_s < 0.5
    assert request.uses[0].layers_s == pytest.approx(0.8 * 2500)
