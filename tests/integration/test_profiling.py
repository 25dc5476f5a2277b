"""A machine and a model profiled end to end on an emulated accelerator of known speed, and plans made from that."""

import random
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from profiling_builders import (
    EMULATED_KIND,
    H3,
    NOW,
    QWEN_IMAGE,
    RATES,
    emulated_target,
    surroundings,
    wish,
)
from trees import build_tree, gib

from autotune.catalog.entry import SettledWorkload
from autotune.catalog.registry import find_model
from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator
from autotune.host_memory import read_host_memory
from autotune.measure.node_readings import read_node
from autotune.measure.watch import Watch
from autotune.measurements.difference import compare_model_profiles, compare_node_profiles
from autotune.measurements.model_profile import load_model_profile
from autotune.measurements.node_profile import load_node_profile
from autotune.measurements.planning import build_planning_profile
from autotune.measurements.timing import Effort
from autotune.memory_model import MemoryModel, MemorySettings
from autotune.telemetry.survey import Surroundings
from autotune.workflows.profiled_device import ProfiledDevice
from autotune.workflows.profiling import Profiled
from autotune.workflows.profiling_halves import profile_model, profile_node
from autotune.workflows.profiling_wish import choose_layer_sizes, find_busiest, settle_request
from autotune.workload import Workload
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.protocol import MemoryKind
from runtime.engines.registry import find_engine
from runtime.errors import InputError
from runtime.interference import Interference
from runtime.plan import Placement, Plan
from runtime.residency import Mode, Policy
from runtime.units import GIB

TESTS = Path(__file__).parents[1]
WITH_BLOCKS = ("text_encoder", "transformer", "video_vae")
INTERFERENCE = Interference(compute_slowdown_ratio=0.09, copy_slowdown_ratio=0.06)
LAYER_S = {"blocks": 1e-3, "token_refiner.blocks": 4e-4, "transformer_blocks": 2e-3}


def pace(label):
    """Blocks of the transformer take known times, other layers 100 us, parts 10 us, what is around them 30 us."""
    if label.layer is None:
        return 1e-5 if label.stack else 3e-5
    return LAYER_S.get(label.stack, 1e-4)


def profile(entry, target, around, **changes):
    """What ``run_profiling`` does, on a device that a test has opened."""
    asked = wish(entry, **changes)
    request = settle_request(asked, lambda _: None)
    watch = Watch(lambda: around.read_conditions(None), around.now)
    readings = read_node(target.device, where=Surroundings(host=around_host(around.store.folder / "host")))
    node, node_kept = profile_node(asked, request, target, readings, watch, around)
    model, model_kept = profile_model(asked, request, target, watch, around)
    assert not sum(target.device.memory().live_bytes.values())
    target.device.close()
    return Profiled(model=model, node=node, model_kept=model_kept, node_kept=node_kept)


def around_host(folder):
    """A host so small that the largest copies are 4 MiB: the real machine's would take most of a test's time."""
    folder.mkdir(parents=True, exist_ok=True)
    return read_host_memory(build_tree(folder, cgroup={"ctr/memory.max": gib(1), "ctr/memory.current": gib(1) - 2**25}))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A reduced MiniMax-H3 on a device that slows copies and compute down beside each other."""
    folder = tmp_path_factory.mktemp("store")
    target = emulated_target(pace, interference=INTERFERENCE, duplex_slowdown_ratio=0.4)
    return profile(H3, target, surroundings(folder))


@pytest.mark.parametrize(("stack", "expected_s"), [("blocks", 1e-3), ("token_refiner.blocks", 4e-4)])
def test_layer_times_are_recovered(measured, stack, expected_s):
    works = [work for use in measured.model.facts.work for group in use.groups for work in group.layers.get(stack, ())]
    assert works
    assert [work.measured_s for work in works] == pytest.approx([expected_s] * len(works), rel=0.02)


@pytest.mark.parametrize(
    ("kind", "rate"),
    [
        ("pinned_h2d", 24e9),
        ("pageable_h2d", 9e9),
        ("d2h", 22e9),
        ("duplex_h2d", 24e9 / 1.4),
        ("duplex_d2h", 22e9 / 1.4),
    ],
)
def test_link_rates_are_recovered_at_every_size(measured, kind, rate):
    found = [link.bytes_per_s for link in measured.node.links if link.kind == kind]
    assert len(found) > 6
    assert found == pytest.approx([rate] * len(found), rel=0.02)


def test_interference_is_recovered(measured):
    (record,) = measured.node.interference
    assert record.load.startswith("H3 transformer blocks[0]")
    assert record.compute_slowdown_ratio == pytest.approx(0.09, rel=0.02)
    assert record.copy_slowdown_ratio == pytest.approx(0.06, rel=0.02)


def test_plans_are_predicted_with_what_was_measured(measured):
    planning = build_planning_profile(measured.model, measured.node, None, now=NOW, host_bytes=2**40)
    assert planning.rates.pinned_bytes_per_s == pytest.approx(RATES.pinned_bytes_per_s, rel=0.02)
    assert planning.rates.interference.compute_slowdown_ratio == pytest.approx(0.09, rel=0.02)
    costs = CostModel(planning.facts, planning.rates)
    memory = MemoryModel(planning.facts, MemorySettings(context_bytes=0, reserve_bytes=0))
    evaluator = Evaluator(costs, memory, find_engine("topup"))
    evaluation = evaluator.evaluate(streamed(planning.facts.model))
    (use,) = [use for use in evaluation.uses if use.component == "transformer"]
    # Copies of these small layers are hidden: a pass takes its four blocks, and what is around them.
    assert use.passes[-1].steady_s == pytest.approx(4 * 1e-3 + 5 * 1e-5 + 3e-5, rel=0.02)


def streamed(model):
    return Plan(
        engine="topup",
        placements=tuple(
            Placement(component=part.name, mode=Mode.LAYERWISE_OFFLOAD, policy=Policy.STRIDED)
            for part in model.components
        ),
    )


def test_both_documents_are_kept_and_read_back(measured):
    assert load_model_profile(measured.model_kept.path) == measured.model
    assert load_node_profile(measured.node_kept.path) == measured.node
    assert measured.node.node.kind == measured.model.kind == EMULATED_KIND
    assert measured.model.components == ("text_encoder", "transformer", "audio_vae", "video_vae")
    assert measured.model.facts.source == "measured"


def test_a_second_run_measures_nothing_again(tmp_path):
    first = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path))
    again = profile(QWEN_IMAGE, emulated_target(lambda _: 9.0), surroundings(tmp_path))
    assert first.model_kept.recalled == 0
    assert (again.model_kept.measured, again.model_kept.recalled) == (0, first.model_kept.measured)
    assert (again.node_kept.measured, again.node_kept.recalled) == (0, first.node_kept.measured)
    assert again.model == first.model


@pytest.mark.parametrize(
    "change",
    [
        {"versions": {"torch": "2.14.0"}},
        {"versions": {"torch": "2.13.0", "driver": "580.1"}},
    ],
)
def test_other_software_is_measured_anew(tmp_path, change):
    profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path), components=("vae",))
    other = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path, **change), components=("vae",))
    assert other.model_kept.recalled == 0


def test_more_effort_is_measured_anew_and_less_is_not(tmp_path):
    profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path), components=("vae",))
    thorough = profile(
        QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path), components=("vae",), effort=Effort.THOROUGH
    )
    quick = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path), components=("vae",))
    assert thorough.model_kept.recalled == 0
    assert quick.model_kept.measured == 0


def test_anew_measures_what_is_known(tmp_path):
    first = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path), components=("vae",))
    again = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path), components=("vae",), anew=True)
    assert again.model_kept.measured == first.model_kept.measured
    assert again.model_kept.recalled == first.model_kept.recalled


def noisy(seed, *, slow=None):
    """Times that vary by 1 %, as measured ones do; the layers of one stack may be slower by a fifth."""
    random_numbers = random.Random(seed)

    def take(label):
        factor = 1.2 if label.stack == slow and label.layer == 0 else 1.0
        # Ten times as long as elsewhere, so that no sample needs several runs.
        return 10 * pace(label) * factor * (1 + random_numbers.gauss(0, 0.01))

    return take


def test_two_profiles_back_to_back_agree_and_a_slower_layer_is_named(tmp_path):
    def take(seed, folder, **options):
        target = emulated_target(noisy(seed, **options), is_exact=False)
        return profile(QWEN_IMAGE, target, surroundings(tmp_path / folder), components=("text_encoder", "transformer"))

    first, second = take(1, "first"), take(2, "second")
    slower = take(3, "third", slow="transformer_blocks")
    assert compare_model_profiles(first.model, second.model).changes == ()
    assert compare_node_profiles(first.node, second.node).changes == ()
    (change,) = compare_model_profiles(first.model, slower.model).changes
    assert "transformer transformer_blocks[0]" in change.name
    assert change.after.median / change.before.median == pytest.approx(1.2, rel=0.02)


def test_components_are_profiled_by_name_and_the_rest_is_estimated(tmp_path):
    found = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path), components=("transformer",))
    assert found.model.components == ("transformer",)
    by_name = {use.component: use for use in found.model.facts.work}
    assert by_name["vae"].groups[0].outside.flops > 0
    assert by_name["transformer"].groups[0].layers["transformer_blocks"][0].measured_s == pytest.approx(2e-3)


def test_a_component_that_the_model_does_not_have_is_refused(tmp_path):
    with pytest.raises(InputError, match="unet: Qwen-Image has text_encoder, transformer, vae"):
        settle_request(wish(QWEN_IMAGE, components=("unet",)), lambda _: None)


def test_sizes_of_links_are_those_that_carry_most():
    facts = settle_request(wish(H3), lambda _: None).facts
    sizes = choose_layer_sizes(facts)
    blocks = facts.model.component("transformer").stack("blocks").layers[0].run_bytes
    assert len(sizes) == 6
    assert sizes[0] == max(sizes, key=lambda size: size == blocks)


def test_a_layer_that_does_not_fit_is_left_to_its_estimate(tmp_path):
    whole = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path / "whole"), components=("transformer",))
    largest = max(piece.record.weight_bytes for piece in whole.model.pieces)
    tight = emulated_target(pace, capacity_bytes=largest)
    found = profile(QWEN_IMAGE, tight, surroundings(tmp_path / "tight"), components=("transformer",))
    outcomes = {piece.record.name: piece.record.outcome for piece in found.model.pieces}
    assert outcomes["transformer_blocks[0]"] == "out_of_memory"
    assert outcomes["norm_out"] == "measured"
    by_name = {use.component: use for use in found.model.facts.work}
    block = by_name["transformer"].groups[0].layers["transformer_blocks"][0]
    assert (block.measured_s, block.flops > 0) == (0, True)


KILLED = """
import os, signal, sys
sys.path[:0] = {paths!r}
from pathlib import Path
from profiling_builders import QWEN_IMAGE, emulated_target, surroundings, wish
from autotune.measure.watch import Watch
from autotune.workflows.profiling_halves import profile_model
from autotune.workflows.profiling_wish import settle_request

seen = []

def pace(label):
    seen.append(label)
    if len(set(seen)) == {killed_at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1e-3

asked, around = wish(QWEN_IMAGE), surroundings(Path({folder!r}))
request = settle_request(asked, lambda _: None)
watch = Watch(lambda: around.read_conditions(None), around.now)
profile_model(asked, request, emulated_target(pace), watch, around)
"""


@pytest.mark.parametrize("killed_at", [1, 6, 11])
def test_a_killed_run_loses_no_more_than_the_piece_that_it_was_measuring(tmp_path, killed_at):
    script = KILLED.format(paths=[str(TESTS), str(TESTS.parent)], killed_at=killed_at, folder=str(tmp_path))
    stopped = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=300, check=False)
    assert stopped.returncode == -signal.SIGKILL, stopped.stderr
    lines = [line for path in tmp_path.rglob("*.jsonl") for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == killed_at - 1
    found = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path))
    assert found.model_kept.recalled == killed_at - 1
    assert found.model_kept.measured + found.model_kept.recalled == len(found.model.pieces)


class Watched(EmulatedDevice):
    """Remembers the most that was on it at any time."""

    def __init__(self, **traits):
        super().__init__(**traits)
        self.most_weights = self.most_in_all = 0

    def allocate(self, *args, **kwargs):
        """As every emulated device's."""
        buffer = super().allocate(*args, **kwargs)
        self.look()
        return buffer

    def reset_peaks(self):
        """As every emulated device's."""
        self.look()
        super().reset_peaks()

    def look(self):
        """Take note."""
        memory = self.memory()
        self.most_weights = max(self.most_weights, memory.peak_bytes[MemoryKind.WEIGHTS])
        self.most_in_all = max(self.most_in_all, memory.peak_total_bytes)


def test_minimax_h3_in_full_size_is_profiled_one_layer_at_a_time_on_four_gib(tmp_path):
    # Released configurations; a request so small that a processor computes a layer in seconds. No server would take it.
    small = Workload(width=64, height=64, frames=22, steps=2, prompt_tokens=16)
    entry = replace(find_model("H3"), settle=lambda workload: SettledWorkload(workload=workload))
    device = Watched(
        rates=RATES, clock=ClockKind.VIRTUAL, compute_s=pace, tracks_activations=True, capacity_bytes=4 * GIB
    )
    target = ProfiledDevice(device=device, name="emulated", kind=EMULATED_KIND, is_exact=True)
    asked, around = wish(entry, workload=small, components=WITH_BLOCKS), surroundings(tmp_path)
    watch = Watch(lambda: around.read_conditions(None), around.now)
    model, _ = profile_model(asked, settle_request(asked, lambda _: None), target, watch, around)
    device.look()
    outcomes = {piece.record.name: piece.record.outcome for piece in model.pieces}
    assert outcomes.pop("language_model.embed_tokens") == "skipped"
    assert set(outcomes.values()) == {"measured"}
    assert device.most_weights == model.facts.model.component("transformer").stack("blocks").layers[0].run_bytes
    most_activations = max(work.activation_bytes for work in model.facts.work)
    assert device.most_in_all <= device.most_weights + most_activations


@pytest.mark.parametrize("name", ["H3", "Qwen-Image", "Wan2.2-T2V-A14B", "LTX-2"])
def test_copies_are_measured_beside_the_component_that_streams_most(name):
    entry = find_model(name)
    request = settle_request(wish(entry, workload=replace(entry.default_workload, steps=4)), lambda _: None)
    assert find_busiest(request).startswith("transformer")


def test_a_node_keeps_what_was_measured_for_another_model(tmp_path):
    first = profile(H3, emulated_target(pace, interference=INTERFERENCE), surroundings(tmp_path))
    both = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path)).node
    assert {record.load.split()[0] for record in both.interference} == {"H3", "Qwen-Image"}
    own, other = ({link.size_bytes for link in node.links} for node in (first.node, both))
    assert own < other
    marked = {link.size_bytes for link in both.links if link.is_layer_size}
    assert marked == set(choose_layer_sizes(settle_request(wish(QWEN_IMAGE), lambda _: None).facts))


def test_a_component_profiled_later_joins_those_that_were_profiled_before(tmp_path):
    profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path), components=("transformer",))
    both = profile(QWEN_IMAGE, emulated_target(lambda _: 9.0), surroundings(tmp_path), components=("vae",), anew=True)
    assert both.model.components == ("transformer", "vae")
    by_name = {use.component: use for use in both.model.facts.work}
    assert by_name["transformer"].groups[0].layers["transformer_blocks"][0].measured_s == pytest.approx(2e-3)
    assert by_name["vae"].groups[0].layers["decoder.up_blocks"][0].measured_s == pytest.approx(9.0)


def test_what_is_older_than_a_profile_may_be_is_measured_again(tmp_path):
    old = surroundings(tmp_path, now=lambda: NOW - timedelta(days=31))
    first = profile(QWEN_IMAGE, emulated_target(pace), old, components=("vae",))
    again = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path), components=("vae",))
    assert (again.model_kept.recalled, again.node_kept.recalled) == (0, 0)
    assert first.model.measured_at < again.model.measured_at
    assert first.node.measured_at < again.node.measured_at


def test_a_profile_is_as_old_as_the_oldest_timing_in_it(tmp_path):
    earlier = surroundings(tmp_path, now=lambda: NOW - timedelta(days=20))
    first = profile(QWEN_IMAGE, emulated_target(pace), earlier, components=("transformer",))
    both = profile(QWEN_IMAGE, emulated_target(pace), surroundings(tmp_path), components=("vae",))
    assert both.model.components == ("transformer", "vae")
    assert both.model.measured_at == first.model.measured_at
