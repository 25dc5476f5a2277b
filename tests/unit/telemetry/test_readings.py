"""T1: no number is not zero."""

import pytest
from fake_nvml import (
    MISMATCH,
    NOT_SUPPORTED,
    RESERVED_BYTES,
    FakeCard,
    FakeNvml,
    FakeTorch,
    big_card,
    process,
)
from trees import build_tree, gib

from autotune.host_memory import read_host_memory
from autotune.telemetry.answers import Unknown
from autotune.telemetry.nvml_device import PcieLink
from autotune.telemetry.survey import Surroundings, read_process_gpu, survey_gpus
from runtime.units import GIB

VRAM = ("total_bytes", "usable_bytes", "free_bytes", "own_bytes", "others_bytes", "context_bytes")
OWN_PID = 4242


def spark(**traits):
    return FakeCard(
        **{"title": "NVIDIA GB10", "generation": 1, "lanes": 1, "max_generation": 1, "max_lanes": 1, **traits}
    )


def read_one(look, card, torch=None, **options):
    [reading] = survey_gpus(look(FakeNvml(card), torch, **options)).readings
    return reading


@pytest.mark.parametrize("by_name", [True, False], ids=["told by its name", "told by CUDA"])
@pytest.mark.parametrize(
    "total", [NOT_SUPPORTED, 0, gib(256)], ids=["a: unsupported", "b: total 0", "c: all memory of the host"]
)
def test_t1_a_b_c_an_integrated_part_has_the_hosts_capacity_and_no_vram(look, total, by_name):
    card = spark(total_bytes=total) if by_name else spark(title="NVIDIA Next", total_bytes=total)
    reading = read_one(look, card, None if by_name else FakeTorch(card, integrated=1))
    assert reading.is_unified is True
    assert reading.shared_capacity_bytes == gib(256)
    assert reading.shared_available_bytes == gib(200)
    assert "/proc/meminfo" in reading.sources["shared_capacity_bytes"]
    assert [getattr(reading, name) for name in VRAM] == [None] * len(VRAM)


def test_t1_c_a_cgroup_limits_what_an_integrated_part_shares(tmp_path):
    tree = build_tree(tmp_path, cgroup={"ctr/memory.max": gib(32), "ctr/memory.current": gib(12)})
    where = Surroundings(load_nvml=lambda: FakeNvml(spark()), host=read_host_memory(tree))
    [reading] = survey_gpus(where).readings
    assert reading.shared_capacity_bytes == gib(32)
    assert reading.shared_available_bytes == gib(20)


def test_t1_d_an_integrated_part_has_no_pcie_link(look):
    reading = read_one(look, spark())
    assert reading.link_current is reading.link_max is None
    assert "no PCIe link" in reading.unknown["link_current"]


def test_t1_e_an_idle_card_keeps_both_links_as_notes_and_no_rate(look):
    reading = read_one(look, big_card(generation=1))
    assert reading.link_current == PcieLink(generation=1, lanes=16)
    assert reading.link_max == PcieLink(generation=4, lanes=16)
    assert not [name for name in reading.__dataclass_fields__ if "per_s" in name]


def test_t1_f_a_missing_library_leaves_no_device_and_its_reason():
    def fail():
        raise ModuleNotFoundError("No module named 'pynvml'")

    survey = survey_gpus(Surroundings(load_nvml=fail))
    assert (survey.readings, survey.used, survey.is_settled) == ((), (), False)
    assert "pynvml" in survey.explanation


def test_t1_g_a_driver_mismatch_leaves_no_device_and_its_reason(look):
    survey = survey_gpus(look(FakeNvml(big_card(), init_error=MISMATCH)))
    assert survey.readings == ()
    assert "no NVIDIA driver answers: RM has detected an NVML/RM version mismatch" in survey.explanation


def test_t1_h_a_discrete_card_without_a_figure_does_not_get_the_hosts(look):
    card = big_card(total_bytes=NOT_SUPPORTED)
    reading = read_one(look, card, FakeTorch(card, integrated=0))
    assert reading.is_unified is False
    assert reading.total_bytes is reading.free_bytes is reading.shared_capacity_bytes is None
    assert "Not Supported" in reading.unknown["total_bytes"]
    closed = read_one(look, card)
    assert (closed.is_unified, closed.total_bytes, closed.shared_capacity_bytes) == (None, None, None)


@pytest.mark.parametrize(
    ("trait", "field"),
    [
        ("utilization", "utilization_ratio"),
        ("power_mw", "power_w"),
        ("temperature", "temperature_c"),
        ("reasons", "throttle_reasons"),
        ("capability", "compute_capability"),
        ("max_clock_mhz", "max_sm_clock_mhz"),
        ("generation", "link_current"),
        ("max_lanes", "link_max"),
    ],
)
def test_t1_i_only_the_unsupported_field_is_unknown(look, trait, field):
    whole = read_one(look, big_card())
    reading = read_one(look, big_card(**{trait: NOT_SUPPORTED}))
    assert getattr(reading, field) is None
    assert "Not Supported" in reading.unknown[field]
    others = [name for name in whole.__dataclass_fields__ if name not in {field, "sources", "unknown"}]
    assert [getattr(reading, name) for name in others] == [getattr(whole, name) for name in others]


@pytest.mark.parametrize(
    ("traits", "field"),
    [
        ({"total_bytes": 0}, "total_bytes"),
        ({"total_bytes": 2**64 - 1}, "total_bytes"),
        ({"clocks_mhz": (0, 0)}, "sm_clock_mhz"),
        ({"max_clock_mhz": 2**32 - 1}, "max_sm_clock_mhz"),
        ({"generation": 0}, "link_current"),
        ({"power_mw": 0}, "power_w"),
        ({"capability": (0, 0)}, "compute_capability"),
        ({"uuid": ""}, "uuid"),
        ({"bus_id": "nowhere"}, "bus_id"),
    ],
)
def test_a_value_that_cannot_be_is_unknown_and_never_zero(look, traits, field):
    reading = read_one(look, big_card(**traits))
    assert getattr(reading, field) is None
    assert reading.unknown[field]


def test_usable_memory_is_the_total_less_what_the_driver_reserves(look):
    reading = read_one(look, big_card(used_bytes=2 * GIB))
    assert reading.usable_bytes == 24 * GIB - RESERVED_BYTES
    assert reading.free_bytes == reading.usable_bytes - 2 * GIB
    assert (reading.own_bytes, reading.others_bytes) == (0, 2 * GIB)


def test_an_older_library_leaves_the_reserve_unknown_and_so_what_others_hold(look):
    nvml = FakeNvml(big_card(), supports_v2=False, throttle_name="Throttle")
    [reading] = survey_gpus(look(nvml)).readings
    assert reading.total_bytes == 24 * GIB
    assert reading.usable_bytes is None
    assert reading.others_bytes is None
    assert all("reserves" in reading.unknown[name] for name in ("usable_bytes", "others_bytes"))
    assert reading.throttle_reasons == ()


def test_own_memory_others_and_context_are_told_apart_by_process(look):
    card = big_card(
        used_bytes=8 * GIB, compute=[process(OWN_PID, 3 * GIB), process(7, 4 * GIB)], graphics=[process(8, GIB // 2)]
    )
    reading = read_one(look, card, FakeTorch(card, reserved_bytes=2 * GIB))
    assert (reading.own_bytes, reading.context_bytes, reading.others_bytes) == (3 * GIB, GIB, 5 * GIB)
    assert sorted(each.pid for each in reading.processes) == [7, 8]


@pytest.mark.parametrize("pid", [OWN_PID, 31337], ids=["the number by chance ours", "the host's number"])
def test_in_a_container_a_process_among_several_is_not_picked_by_its_number(look, pid):
    card = big_card(used_bytes=8 * GIB, compute=[process(pid, 3 * GIB), process(7, 4 * GIB)])
    reading = read_one(look, card, FakeTorch(card), own_pid_namespace=True)
    assert reading.own_bytes is reading.others_bytes is reading.processes is None
    assert "cannot be picked out" in reading.unknown["own_bytes"]


def test_in_a_container_the_only_process_is_this_one(look):
    card = big_card(used_bytes=3 * GIB, compute=[process(31337, 3 * GIB)])
    reading = read_one(look, card, FakeTorch(card), own_pid_namespace=True)
    assert (reading.own_bytes, reading.others_bytes, reading.processes) == (3 * GIB, 0, ())


@pytest.mark.parametrize("hidden", [None, 0, 2**64 - 1])
def test_a_process_whose_memory_the_driver_hides_has_no_figure(look, hidden):
    card = big_card(used_bytes=3 * GIB, compute=[process(OWN_PID, hidden)])
    reading = read_one(look, card, FakeTorch(card))
    assert reading.own_bytes is reading.others_bytes is reading.context_bytes is None


def test_a_card_that_is_lost_does_not_hide_the_others(look):
    survey = survey_gpus(look(FakeNvml(big_card(lost=True), big_card())))
    assert len(survey.readings) == 1
    assert "GPU is lost" in survey.lost[0]
    assert (survey.used, survey.is_settled) == ((), False)


def test_the_library_is_closed_again_whatever_happens(look):
    nvml = FakeNvml(big_card())
    survey_gpus(look(nvml))
    assert nvml.opened == 0


def test_the_process_has_no_reading_before_it_opens_a_device(look):
    card = big_card()
    answer = read_process_gpu(0, look(FakeNvml(card), FakeTorch(card, opened=False)))
    assert isinstance(answer, Unknown)
    assert "opened no CUDA device" in answer.reason
