"""What profiles mean, from figures that a test chooses."""

from dataclasses import replace

import pytest
from builders import build_component, build_facts
from profile_builders import (
    EMULATED,
    build_fingerprint,
    build_interference,
    build_links,
    build_model_profile,
    build_node_profile,
    build_pieces,
    build_record,
    one_piece_each,
    timed,
    with_measured_work,
)

from autotune.measurements.model_profile import MeasuredPiece, RunOptions
from autotune.workload import Workload
from reports.profile_findings import list_findings


def find(text, model=None, node=None, default=None):
    """The findings that contain ``text``."""
    found = list_findings(model or build_model_profile(), node or build_node_profile(), default)
    return [finding for finding in found if text in finding]


def build_two(*, encoder_s, transformer_s):
    """A model whose encoder makes one pass and whose transformer makes three; one layer each."""
    facts = build_facts({"encoder": build_component(1), "transformer": build_component(1, is_dit=True, passes=3)})
    timed_facts = [with_measured_work(facts, layer_s) for layer_s in (encoder_s, transformer_s)]
    work = tuple(side.work[at] for at, side in enumerate(timed_facts))
    return build_model_profile(facts=replace(timed_facts[0], work=work), **one_piece_each("encoder", "transformer"))


def test_the_component_that_takes_most_of_a_request_comes_first():
    (finding,) = find("A request computes", build_two(encoder_s=2.0, transformer_s=2.0))
    assert "computes 8.00 s" in finding
    assert finding.endswith("transformer 6.00 s (75 %), encoder 2.00 s (25 %)")


@pytest.mark.parametrize(
    ("bytes_per_s", "verdict"),
    [(1e7, "copies can hide behind compute"), (2e6, "about as long"), (1e6, "copies last 2 times as long as compute")],
)
def test_whether_copies_hide_is_judged_by_a_pass_of_copies_beside_its_compute(bytes_per_s, verdict):
    node = build_node_profile(links=build_links(pinned=bytes_per_s))
    (finding,) = find("One of 3 passes of transformer", node=node)
    assert "computes 12 ms and copies 4 layers (23.4 KiB)" in finding
    assert verdict in finding


def test_where_nothing_can_be_pinned_a_streamed_pass_waits_for_its_copies():
    links = tuple(link for link in build_links(pageable=1e6) if link.kind == "pageable_h2d")
    (finding,) = find("pageable memory", node=build_node_profile(links=links))
    assert finding.endswith("a streamed pass takes 200 % longer")


def test_components_that_copy_next_to_nothing_are_not_judged():
    facts = build_facts({"vae": build_component(1, passes=1), "transformer": build_component(4, passes=300)})
    model = build_model_profile(facts=with_measured_work(facts, 1e-3), **one_piece_each("vae", "transformer"))
    assert [finding.split(" passes of ")[1].split()[0] for finding in find(" passes of ", model)] == ["transformer"]
    assert not find("The pass of vae", model)


def test_interference_is_told_where_it_is_more_than_noise():
    loud = build_node_profile(interference=(build_interference(),))
    assert "compute takes 10 % longer and copies 20 % longer" in find("While both go on", node=loud)[0]
    quiet = build_node_profile(interference=(build_interference(compute_ratio=0.0, copy_ratio=0.01),))
    assert not find("While both go on", node=quiet)


def test_what_was_not_measured_is_named_with_its_reason():
    record = build_record("head", outcome="failed", timing=None, note="no such kernel")
    lost = MeasuredPiece(record=record, places=("head",), calls=1, passes=1)
    model = build_two(encoder_s=1.0, transformer_s=1.0)
    model = replace(model, components=("transformer",), pieces=(*build_pieces((1.0,)), lost))
    (finding,) = find("Not measured", model)
    assert "transformer head (failed: no such kernel)" in finding
    assert "encoder (not profiled: compute is estimated)" in finding
    assert not find("Not measured")


def test_disturbed_and_unsettled_timings_of_both_profiles_are_counted_together():
    links = tuple(replace(link, disturbances=("a fan failed",)) for link in build_links())
    loose = build_record(timing=replace(timed(1.0), low_s=0.7, is_settled=False))
    piece = MeasuredPiece(record=loose, places=("blocks[0]",), calls=1, passes=1)
    (finding,) = find("disturbed", build_model_profile(pieces=(piece,)), build_node_profile(links=links))
    assert finding.startswith("3 of 4 timings were disturbed (a fan failed) and 1 of 4 timings did not settle")
    assert "--anew" in finding
    assert not find("disturbed")


def test_the_next_command_asks_for_the_request_that_was_measured():
    node = build_node_profile(node=build_fingerprint(device="cuda:1"))
    default = Workload(width=64, height=32, frames=1, steps=1, prompt_tokens=1)
    command = "`autotune search --model toy --device cuda:1 --height 64`"
    assert find("Plan with these figures", node=node, default=default) == [f"Plan with these figures: {command}"]
    assert "--width 64" in find("Plan with these figures", node=node)[0]


def test_figures_of_other_options_are_planned_with_by_their_file():
    model = build_model_profile(options=RunOptions(compiled=True))
    (finding,) = find("Plan with these figures", model)
    assert "autotune search --profile FILE" in finding


def test_on_a_processor_no_memory_is_called_pinned():
    cpu = build_node_profile(node=build_fingerprint(kind=replace(EMULATED, backend="cpu")))
    assert find("pinned memory")
    assert not find("pinned memory", node=cpu)
