"""A node's profile: figures with sources, what is unknown with its reason, neighbours and warnings."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from fake_nvml import FakeCard, FakeNvml, FakeTorch, process
from node_builders import KIB, MIB, MemoryKeeper, bench_on, is_empty, virtual_device
from trees import build_tree, gib

from autotune.host_memory import HostReading, read_host_memory
from autotune.machine import Machine
from autotune.measure.bench import Bench
from autotune.measure.interference import ComputeLoad
from autotune.measure.node import measure_node
from autotune.measure.node_figures import FigureSheet, take_pins
from autotune.measure.node_readings import NodeReadings, derive_fingerprint, read_node
from autotune.measure.pin_cost import PinCost, PinRequest
from autotune.measurements.model_profile import DeviceKind
from autotune.measurements.node_profile import NODE_PROFILE_KIND, NodeProfile
from autotune.measurements.timing import Effort
from autotune.telemetry.answers import Unknown
from autotune.telemetry.processes import OwnProcess
from autotune.telemetry.survey import Surroundings, read_process_gpu, survey_gpus
from runtime.devices.open_device import open_device
from runtime.devices.protocol import Label
from runtime.documents import encode_document
from runtime.interference import Interference
from runtime.units import GIB

OWN_PID = 4242
# So little is available that 64 KiB are the largest copies: an eighth.
LITTLE_BYTES = 640 * KIB
KIND = DeviceKind(backend="cuda", title="NVIDIA GeForce RTX 4090", memory_bytes=24 * GIB, capability="8.9")
MACHINE = Machine(digest="0123456789abcdef", cpu="Some CPU", kernel="6.8.0")


@pytest.fixture
def host(tmp_path: Path) -> HostReading:
    """256 GiB, of which a cgroup leaves little."""
    cgroup = {"ctr/memory.max": gib(8), "ctr/memory.current": gib(8) - LITTLE_BYTES}
    return read_host_memory(build_tree(tmp_path, cgroup=cgroup))


def readings_of(host: HostReading, gpu: object = None, **traits: object) -> NodeReadings:
    gpu = gpu or Unknown(reason="the device is no card")
    return NodeReadings(**{"machine": MACHINE, "host": host, "gpu": gpu, **traits})


def card_readings(host: HostReading, *cards: FakeCard, integrated: int = 0, **traits: object) -> NodeReadings:
    """As read by a process that has opened the first of ``cards``."""
    where = Surroundings(
        load_nvml=lambda: FakeNvml(*cards),
        torch=FakeTorch(cards[0], integrated=integrated),
        environ={},
        host=host,
        own=OwnProcess(pid=OWN_PID, has_pid_namespace=False, has_context=True),
    )
    return readings_of(host, read_process_gpu(0, where), cards=survey_gpus(where).readings, **traits)


def measure(bench: Bench, readings: NodeReadings, **options: object) -> NodeProfile:
    settings = {"effort": Effort.QUICK, "versions": {"torch": "2.13"}, "layer_sizes": [48 * KIB], **options}
    return measure_node(bench, KIND, readings, **settings)


def test_a_profile_of_an_emulated_node_survives_its_document(host: HostReading, tmp_path: Path) -> None:
    device = virtual_device(capacity_bytes=GIB)
    profile = measure(bench_on(device), readings_of(host))
    path = tmp_path / "node.json"
    path.write_bytes(encode_document(profile))
    assert NODE_PROFILE_KIND.load(path) == profile
    assert profile.node.device == "emulated"
    assert {link.size_bytes for link in profile.links} == {48 * KIB, 64 * KIB}
    assert is_empty(device)


def test_figures_have_sources_and_what_is_missing_has_a_reason(host: HostReading) -> None:
    profile = measure(bench_on(virtual_device(capacity_bytes=GIB)), readings_of(host))
    assert profile.figures["vram_usable_bytes"].value == profile.figures["vram_free_bytes"].value == GIB
    assert profile.figures["host_total_bytes"].value == gib(256)
    assert profile.figures["host_available_bytes"].value == LITTLE_BYTES
    assert profile.figures["host_limit_bytes"].value == gib(8)
    assert all(figure.source for figure in profile.figures.values())
    assert profile.unknown["context_bytes"] == "the device is no card"
    assert "too little host memory" in profile.unknown["pin_s_per_byte"]


def test_a_device_without_a_cap_has_unknown_memory(host: HostReading) -> None:
    profile = measure(bench_on(virtual_device()), readings_of(host))
    assert "no limit" in profile.unknown["vram_total_bytes"]
    assert profile.figures["workspace_bytes"].value == 0


def test_interference_and_links_are_measured_once_and_then_recalled(host: HostReading) -> None:
    known, keeper, opened = (
        Interference(compute_slowdown_ratio=0.2, copy_slowdown_ratio=0.1),
        MemoryKeeper(),
        list[int](),
    )

    def open_load() -> nullcontext:
        opened.append(1)
        return nullcontext(lambda: None)

    load = ComputeLoad(key="abc", title="toy blocks[0]", label=Label("transformer", "blocks", 0), open=open_load)
    device = virtual_device(interference=known, compute_s=lambda _: 2e-5)
    profiles = [measure(bench_on(device, keeper), readings_of(host), loads=[(load, 48 * KIB)]) for _ in range(2)]
    assert profiles[0] == profiles[1]
    assert len(opened) == 1
    assert 1 + profiles[0].interference[0].compute_slowdown_ratio == pytest.approx(1.2, rel=0.02)
    assert 1 + profiles[0].interference[0].copy_slowdown_ratio == pytest.approx(1.1, rel=0.02)


def test_what_is_refused_is_named_in_the_notes(host: HostReading) -> None:
    def refuse(size_bytes: int) -> None:
        raise RuntimeError("RLIMIT_MEMLOCK")

    profile = measure(bench_on(virtual_device(pin_limit=refuse)), readings_of(host), layer_sizes=[48 * KIB, MIB])
    assert {link.kind for link in profile.links} == {"pageable_h2d"}
    assert any("RLIMIT_MEMLOCK" in note for note in profile.notes)
    assert any("copies of 1 MiB" in note for note in profile.notes)


def test_a_ceiling_of_pins_is_a_figure_and_a_warning(tmp_path: Path) -> None:
    pinned = list[int]()

    def refuse(size_bytes: int) -> None:
        if sum(pinned) + size_bytes > MIB:
            raise RuntimeError("no more pages may be locked")
        pinned.append(size_bytes)

    cgroup = {"ctr/memory.max": gib(8), "ctr/memory.current": gib(8) - 32 * MIB}
    host = read_host_memory(build_tree(tmp_path, cgroup=cgroup))
    profile = measure(bench_on(virtual_device(pin_limit=refuse)), readings_of(host), layer_sizes=[])
    assert profile.figures["pin_ceiling_bytes"].value == MIB
    assert "nothing is pinned" in profile.unknown["pin_s_per_byte"]
    assert any("no more pages may be locked" in warning for warning in profile.warnings)


def test_a_cards_memory_is_told_apart_by_owner(host: HostReading) -> None:
    card = FakeCard(used_bytes=5 * GIB, compute=(process(OWN_PID, GIB), process(77, 3 * GIB)))
    profile = measure(
        bench_on(virtual_device()), card_readings(host, card, FakeCard(uuid="GPU-2", bus_id="00000000:02:00.0"))
    )
    assert profile.figures["vram_total_bytes"].value == 24 * GIB
    assert profile.figures["vram_used_by_others_bytes"].value == 4 * GIB
    assert 0 < profile.figures["context_bytes"].value <= GIB
    assert profile.versions == {"torch": "2.13", "driver": "580.65.06"}
    assert any("process 77 has 3.00 GiB" in neighbour for neighbour in profile.neighbours)
    assert any("1 more behind the same host" in neighbour for neighbour in profile.neighbours)


def test_the_context_is_the_fall_of_free_memory_where_the_driver_hides_it(host: HostReading) -> None:
    card = FakeCard(used_bytes=2 * GIB, compute=(process(OWN_PID, None),))
    hidden = measure(bench_on(virtual_device()), card_readings(host, card))
    assert "does not tell" in hidden.unknown["context_bytes"]
    readings = card_readings(host, card)
    before = readings.gpu.free_bytes + 400 * MIB
    known = measure(bench_on(virtual_device()), card_readings(host, card, free_before_bytes=before))
    assert known.figures["context_bytes"].value == 400 * MIB
    assert "fall of free memory" in known.figures["context_bytes"].source


def test_copies_beyond_what_the_slot_carries_are_said_to_take_another_link(host: HostReading) -> None:
    narrow = FakeCard(max_generation=1, max_lanes=4, generation=1, lanes=4)
    profile = measure(bench_on(virtual_device()), card_readings(host, narrow))
    assert any("pinned_h2d" in note and "another link than PCIe" in note for note in profile.notes)
    wide = measure(bench_on(virtual_device()), card_readings(host, FakeCard()))
    assert any("% of the 31.5 GB/s that PCIe gen4 x16 carries" in note for note in wide.notes)


def test_a_part_that_shares_the_hosts_memory_is_warned_of(host: HostReading) -> None:
    part = FakeCard(title="NVIDIA GB10", total_bytes=0)
    profile = measure(bench_on(virtual_device()), card_readings(host, part, integrated=1))
    assert "shares the host's memory" in profile.unknown["vram_total_bytes"]
    assert profile.figures["shared_capacity_bytes"].value == gib(8)
    assert any("no link to stream over" in warning for warning in profile.warnings)


def test_a_fingerprint_names_the_card_and_its_kind(host: HostReading) -> None:
    node = derive_fingerprint(virtual_device(), KIND, card_readings(host, FakeCard()))
    assert (node.machine, node.cpu, node.kernel) == ("0123456789abcdef", "Some CPU", "6.8.0")
    assert node.device_uuid == "GPU-11111111-2222-3333-4444-555555555555"
    assert node.kind == KIND


def test_the_cpu_is_a_node_of_its_own(host: HostReading, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"w" * 256 * KIB)
    device = open_device("cpu")
    readings = read_node(device, where=Surroundings(load_nvml=FakeNvml, host=host))
    profile = measure(bench_on(device), readings, path=path)
    assert (profile.node.device, profile.node.device_uuid) == ("cpu", "")
    assert {"pinned_h2d", "pageable_h2d", "d2h", "page_cache_read", "disk_read"} <= {
        link.kind for link in profile.links
    }
    assert is_empty(device)
    device.close()


def test_what_pins_cost_is_a_figure_of_real_pins() -> None:
    request = PinRequest(size_bytes=MIB, duration_s=1e-3)
    cost = PinCost(
        pinning="cudaHostRegister",
        requested_bytes=MIB,
        obtained_bytes=MIB,
        requests=(request,),
        ceilings=(),
        s_per_byte=1e-3 / MIB,
        locked_per_byte=1.0,
        extra_resident_per_byte=-0.1,
    )
    sheet = FigureSheet()
    take_pins(sheet, cost)
    assert sheet.figures["pin_s_per_byte"].value == 1e-3 / MIB
    assert sheet.figures["pin_resident_ratio"].value == 0.0
    assert "none was met" in sheet.unknown["pin_ceiling_bytes"]
